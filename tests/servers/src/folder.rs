use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Doing;
use crate::{Error, Result};

/// A folder for one server, which the server's account may enter and write to.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    owner: Option<Account>,
}

impl Folder {
    pub(crate) fn create(name: &str, owner: Option<Account>) -> Result<Self> {
        let random = RandomState::new().hash_one(std::process::id());
        let path = std::env::temp_dir().join(format!("idem-{name}-{random:016x}"));
        Self::at(path, 0o755, owner)
    }

    /// Creates a folder within it, for one process of the server, with a folder for its data, which
    /// no other account enters.
    pub(crate) fn within(&self, name: &str) -> Result<Self> {
        let folder = Self::at(self.path.join(name), 0o755, self.owner)?;
        Self::at(folder.path.join("data"), 0o700, self.owner)?;
        Ok(folder)
    }

    fn at(path: PathBuf, mode: u32, owner: Option<Account>) -> Result<Self> {
        fs::create_dir(&path).doing(|| format!("cannot create {}", path.display()))?;
        let folder = Self { path, owner };
        folder.hand_over(&folder.path, mode)?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file that the server's account owns and no other account reads.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        fs::write(&path, text).doing(|| format!("cannot write {}", path.display()))?;
        self.hand_over(&path, 0o600)
    }

    fn hand_over(&self, path: &Path, mode: u32) -> Result<()> {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .and_then(|()| match self.owner {
                Some(account) => chown(path, Some(account.uid), Some(account.gid)),
                None => Ok(()),
            })
            .doing(|| format!("cannot hand {} to the server's account", path.display()))
    }

    /// Lets a command run in the folder, under the server's account.
    pub(crate) fn settle(&self, command: &mut Command) {
        command.current_dir(&self.path).stdin(Stdio::null());
        command.env("LC_ALL", "C");
        if let Some(account) = self.owner {
            command.uid(account.uid).gid(account.gid);
        }
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Returns the last lines of the server's log, indented, for an error message.
    pub(crate) fn log_tail(&self) -> String {
        tail(&fs::read_to_string(self.log()).unwrap_or_default())
    }

    pub(crate) fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Returns the last lines of a text, each on its own line and indented.
pub(crate) fn tail(text: &str) -> String {
    const LINES: usize = 15;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<_> = lines.map(|line| format!("\n    {line}")).collect();
    lines[lines.len().saturating_sub(LINES)..].concat()
}

/// A system account for a server when tests run as root, because the server refuses to run as root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    gid: u32,
}

impl Account {
    /// Returns the first of these accounts that exists; `None` without root: then the server runs
    /// under the current account.
    pub(crate) fn first_of(names: &[&str]) -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let account = names.iter().find_map(|name| {
            let [uid, gid] = ["-u", "-g"].map(|flag| number(flag, name));
            Some(Self {
                uid: uid?,
                gid: gid?,
            })
        });
        account.map(Some).ok_or_else(|| {
            let name = names.first().copied().unwrap_or_default();
            Error::missing(format!(
                "the server refuses to run as root and there is no account `{name}`: \
                 `useradd --system {name}`, or run this as another user"
            ))
        })
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn number(flag: &str, name: &str) -> Option<u32> {
    let output = Command::new("id").args([flag, name]).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Account, is_root, tail};

    #[test]
    fn the_tail_of_a_log_is_its_last_lines_without_the_empty_ones() {
        let text: String = (0..30).map(|line| format!("line {line}\n\n")).collect();
        let tail = tail(&text);
        assert_eq!(tail.lines().skip(1).count(), 15);
        assert!(tail.ends_with("    line 29"));
    }

    #[test]
    fn root_without_the_servers_account_learns_how_to_make_it() {
        if is_root() {
            let error = Account::first_of(&["idem-no-such-account"]).unwrap_err();
            let advice = "useradd --system idem-no-such-account";
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
