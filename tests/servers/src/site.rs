use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Doing;
use crate::folder::{make_folder, tail};
use crate::galera::Node;
use crate::{Error, Options, Result};

/// Everything that is fixed for one private server: its programs, folder, port, account and options.
#[derive(Debug)]
pub struct Site<'a> {
    pub(crate) programs: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) port: u16,
    pub(crate) second_port: Option<u16>,
    pub(crate) account: Option<Account>,
    pub(crate) options: &'a Options,
    pub(crate) node: Option<&'a Node>,
}

impl Site<'_> {
    /// Folder of the server's programs.
    pub fn programs(&self) -> &Path {
        self.programs
    }

    /// The server's own folder; its account may write there.
    pub fn folder(&self) -> &Path {
        self.folder
    }

    /// A path in the server's own folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The port of 127.0.0.1 to listen on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A second port of 127.0.0.1, of a server that needs one.
    pub fn second_port(&self) -> Option<u16> {
        self.second_port
    }

    /// Which node of its cluster it is.
    pub(crate) fn node(&self) -> Option<&Node> {
        self.node
    }

    /// How to start it.
    pub fn options(&self) -> &Options {
        self.options
    }

    /// A program beside the server's, to be run in the server's folder under the server's account.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(self.programs.join(program.as_ref()));
        command
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .env("LC_ALL", "C");
        if let Some(account) = self.account {
            command.uid(account.uid).gid(account.gid);
        }
        command
    }

    /// Runs such a program to its end; on failure the error shows its last lines.
    pub fn run(&self, command: &mut Command) -> Result<()> {
        run(command)
    }

    /// Writes a file that the server's account owns and nobody else reads.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        std::fs::write(&path, text).doing(|| format!("cannot write {}", path.display()))?;
        self.hand_over(&path)?;
        Ok(path)
    }

    /// Makes a folder that the server's account owns and nobody else enters.
    pub fn make_folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        make_folder(&path, 0o700, self.account)?;
        Ok(path)
    }

    /// Gives a file to the server's account, for it alone to read.
    pub fn hand_over(&self, path: &Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| match self.account {
                Some(account) => {
                    std::os::unix::fs::chown(path, Some(account.uid), Some(account.gid))
                }
                None => Ok(()),
            })
            .doing(|| format!("cannot hand {} to the server's account", path.display()))
    }
}

/// Runs a command to its end; on failure the error shows its last lines.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    said_by(command).map(drop)
}

/// Runs a command to its end and answers what it printed; on failure the error shows its last lines.
pub(crate) fn said_by(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().doing(|| format!("cannot run {program}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    Err(Error::failed(format!(
        "{program} failed ({}):{}",
        output.status,
        tail(&said)
    )))
}

/// A system account that a server runs under where we are root, because it refuses to run as root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl Account {
    /// None where we are not root: then the server runs as us.
    pub(crate) fn for_server(name: &str) -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let [uid, gid] = ["-u", "-g"].map(|flag| number(flag, name));
        match (uid, gid) {
            (Some(uid), Some(gid)) => Ok(Some(Self { uid, gid })),
            _ => Err(Error::missing(format!(
                "the server refuses to run as root and there is no account `{name}`: \
                 `useradd --system {name}`, or run this as another user"
            ))),
        }
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this machine has that account.
pub(crate) fn has_account(name: &str) -> bool {
    number("-u", name).is_some()
}

fn number(flag: &str, name: &str) -> Option<u32> {
    let output = Command::new("id").args([flag, name]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
