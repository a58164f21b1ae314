use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::Result;
use crate::error::Doing;
use crate::process::retry;

const LOG: &str = "log";
const TIME_TO_LOCK: Duration = Duration::from_secs(5);
/// The number of the system account `nobody`, and of its group.
pub(crate) const NOBODY: u32 = 65_534;

/// A folder for one server, or for one process of it, which the server's account may write to.
///
/// Processes that log there hold a lock on the log: it shows whether one still runs, whatever its
/// number is, and whichever process started it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    owner: Option<u32>,
}

impl Folder {
    /// Creates a folder for a server under this account; `None` is the current one.
    pub(crate) fn create(name: &str, owner: Option<u32>) -> Result<Self> {
        let prefix = format!("idem-{name}-");
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir();
        let path = folder.doing(|| "cannot create a folder".into())?.keep();
        let folder = Self { path, owner };
        folder.hand_over(&folder.path, 0o755)?;
        Ok(folder)
    }

    /// Creates a folder within it, for one process of the server, with a folder for its data, which
    /// no other account enters.
    pub(crate) fn within(&self, name: &str) -> Result<Self> {
        let (path, owner) = (self.path.join(name), self.owner);
        let folder = Self { path, owner };
        for (path, mode) in [(&folder.path, 0o755), (&folder.path.join("data"), 0o700)] {
            fs::create_dir(path).doing(|| format!("cannot create {}", path.display()))?;
            folder.hand_over(path, mode)?;
        }
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
            .and_then(|()| chown(path, self.owner, self.owner))
            .doing(|| format!("cannot hand {} to the server's account", path.display()))
    }

    /// Lets a command run in the folder, under the server's account.
    pub(crate) fn settle(&self, command: &mut Command) {
        command.current_dir(&self.path).stdin(Stdio::null());
        command.env("LC_ALL", "C");
        if let Some(owner) = self.owner {
            command.uid(owner).gid(owner);
        }
    }

    /// Opens the log for a process that has this file as its output, and locks it until that
    /// process and those that it starts have ended. Another process must not use it any more.
    pub(crate) fn open_log(&self) -> Result<File> {
        let path = self.log();
        let log = File::options().create(true).append(true).open(&path);
        let log = log.and_then(|log| {
            retry(TIME_TO_LOCK, || log.try_lock())?;
            Ok(log)
        });
        log.doing(|| format!("cannot write {}", path.display()))
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Returns the last lines of the server's log, indented, for an error message.
    pub(crate) fn log_tail(&self) -> String {
        tail(&fs::read_to_string(self.log()).unwrap_or_default())
    }
}

/// Returns whether a process that logs in that folder still runs.
pub(crate) fn is_in_use(folder: &Path) -> bool {
    let log = File::open(folder.join(LOG));
    log.is_ok_and(|log| matches!(log.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Returns the last lines of a text, each on its own line and indented.
pub(crate) fn tail(text: &str) -> String {
    const LINES: usize = 15;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<_> = lines.map(|line| format!("\n    {line}")).collect();
    lines[lines.len().saturating_sub(LINES)..].concat()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Folder, is_in_use, tail};

    #[test]
    fn the_tail_of_a_log_is_its_last_lines_without_the_empty_ones() {
        let text: String = (0..30).map(|line| format!("line {line}\n\n")).collect();
        let tail = tail(&text);
        assert_eq!(tail.lines().skip(1).count(), 15);
        assert!(tail.ends_with("    line 29"));
    }

    #[test]
    fn a_folder_is_in_use_until_the_process_that_logs_there_is_killed() {
        let folder = Folder::create("folder-test", None).unwrap();
        assert!(!is_in_use(folder.path()));
        let mut sleep = Command::new("sleep");
        sleep.arg("600").stdout(folder.open_log().unwrap());
        let mut child = sleep.spawn().unwrap();
        drop(sleep);
        assert!(is_in_use(folder.path()));
        child.kill().unwrap();
        child.wait().unwrap();
        // A process that another test forks has all files until it becomes its program.
        let began = std::time::Instant::now();
        while is_in_use(folder.path()) {
            assert!(began.elapsed().as_secs() < 30, "it is in use for ever");
            std::thread::yield_now();
        }
        std::fs::remove_dir_all(folder.path()).unwrap();
    }
}
