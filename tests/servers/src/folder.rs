use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::Result;
use crate::account::Account;
use crate::error::Doing;

/// A folder for one server, which the server's account may enter and write to.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn create(name: &str, owner: Option<Account>) -> Result<Self> {
        let random = RandomState::new().hash_one(std::process::id());
        let path = std::env::temp_dir().join(format!("idem-{name}-{random:016x}"));
        make_folder(&path, 0o755, owner)?;
        Ok(Self { path })
    }

    /// Creates a folder within it, for one process of the server.
    pub(crate) fn within(&self, name: &str, owner: Option<Account>) -> Result<Self> {
        let path = self.path.join(name);
        make_folder(&path, 0o755, owner)?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
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

/// Creates a folder that the server's account owns.
pub(crate) fn make_folder(path: &Path, mode: u32, owner: Option<Account>) -> Result<()> {
    fs::create_dir(path).doing(|| format!("cannot create {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .and_then(|()| match owner {
            Some(account) => chown(path, Some(account.uid), Some(account.gid)),
            None => Ok(()),
        })
        .doing(|| format!("cannot hand {} to the server's account", path.display()))
}

/// Returns the last lines of a text, each on its own line and indented.
pub(crate) fn tail(text: &str) -> String {
    const LINES: usize = 15;
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    lines[lines.len().saturating_sub(LINES)..]
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::tail;

    #[test]
    fn the_tail_of_a_log_is_its_last_lines_without_the_empty_ones() {
        let text: String = (0..30).map(|line| format!("line {line}\n\n")).collect();
        let tail = tail(&text);
        assert_eq!(tail.lines().skip(1).count(), 15);
        assert!(tail.ends_with("    line 29"));
    }
}
