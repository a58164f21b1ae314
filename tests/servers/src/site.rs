use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::account::Account;
use crate::error::Doing;
use crate::folder::make_folder;
use crate::node::Node;
use crate::server::Tls;
use crate::tools::tool;
use crate::{Options, Result, Server, Transport};

/// One process of a private server: its programs, folder, ports, account and options.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    pub(crate) server: &'static Server,
    pub(crate) programs: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) port: u16,
    /// The second port of a server that needs one.
    pub(crate) second_port: Option<u16>,
    pub(crate) account: Option<Account>,
    pub(crate) options: &'a Options,
    /// The node of a Galera cluster.
    pub(crate) node: Option<&'a Node>,
}

impl Site<'_> {
    /// Returns a path in the server's own folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the URL for clients.
    pub(crate) fn url(&self) -> String {
        self.server.url(self.port)
    }

    /// Returns the URL for TLS clients, if TLS has a separate port.
    pub(crate) fn tls_url(&self) -> Option<String> {
        match (self.server.tls, self.second_port) {
            (Tls::SecondPort(scheme), Some(port)) if self.has_tls() => {
                Some(format!("{scheme}://localhost:{port}"))
            }
            _ => None,
        }
    }

    /// Returns whether the server has to speak TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.options.transport == Transport::Tls
    }

    /// Returns the first of these programs that comes with the server, set up for the server's
    /// folder and account.
    pub(crate) fn command(&self, names: &[&str]) -> Command {
        let mut command = tool(self.programs, names);
        self.settle(&mut command);
        command
    }

    /// Sets a command's folder and account to those of the server.
    pub(crate) fn settle(&self, command: &mut Command) {
        use std::os::unix::process::CommandExt;
        command
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .env("LC_ALL", "C");
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
    }

    /// Writes a file that the server's account owns and no other account reads.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        std::fs::write(&path, text).doing(|| format!("cannot write {}", path.display()))?;
        self.hand_over(&path)?;
        Ok(path)
    }

    /// Creates a folder that the server's account owns and no other account enters.
    pub(crate) fn make_folder(&self, name: &str) -> Result<()> {
        make_folder(&self.path(name), 0o700, self.account)
    }

    /// Gives a file to the server's account, for it alone to read.
    pub(crate) fn hand_over(&self, path: &Path) -> Result<()> {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| match self.account {
                Some(account) => chown(path, Some(account.uid), Some(account.gid)),
                None => Ok(()),
            })
            .doing(|| format!("cannot hand {} to the server's account", path.display()))
    }
}
