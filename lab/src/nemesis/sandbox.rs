//! [`Sandbox`]: processes with a network, mounts and process numbers of their own.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use idem_core::BoxError;

use super::shell::run;

/// The beginning of the name of a sandbox' folder; the process that made it and its start follow.
const PREFIX: &str = "idem-prove-cell-";

/// What `unshare` needs to hear. The first process within is the init of its own processes: when it
/// ends, the kernel kills the others, and with the last one go the mounts, loop devices and rules.
pub(crate) const UNSHARE: [&str; 6] = [
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child=SIGKILL",
];

/// A folder, and processes apart from the rest of the machine.
///
/// Dropping it kills the processes and removes the folder.
#[derive(Debug)]
pub(crate) struct Sandbox {
    folder: PathBuf,
    /// The process within ends when this is closed, also when this process is killed.
    line: Option<ChildStdin>,
    child: Option<std::process::Child>,
}

impl Sandbox {
    /// Creates the folder. Removes those of processes that are gone.
    pub(crate) fn create() -> Result<Self, BoxError> {
        sweep();
        let id = std::process::id();
        let start = started(id).ok_or("/proc does not show when this process started")?;
        let prefix = format!("{PREFIX}{id}-{start}-");
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir()?.keep();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        Ok(Self {
            folder,
            line: None,
            child: None,
        })
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs this program within, with these arguments and `TMPDIR` set to that folder, to its end.
    pub(crate) async fn run<I, S>(&mut self, temporary: &Path, arguments: I) -> Result<(), BoxError>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<OsStr>,
    {
        let mut command = Command::new("unshare");
        command
            .args(UNSHARE)
            .arg(std::env::current_exe()?)
            .args(arguments)
            .env("TMPDIR", temporary)
            .stdin(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        self.line = child.stdin.take();
        self.child = Some(child);
        // A future that is dropped here kills it.
        loop {
            let child = self.child.as_mut().ok_or("no process within")?;
            match child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("the cell ended with {status}").into()),
                None => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.line = None;
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Prepares the inside: the network has only a loopback device, and this process ends with the one
/// that started it.
pub(crate) fn settle() -> Result<(), BoxError> {
    std::thread::spawn(|| {
        let mut nothing = [0; 1];
        // It is closed when the other process is gone.
        while matches!(std::io::stdin().read(&mut nothing), Ok(1)) {}
        std::process::exit(3);
    });
    run("ip", &["link", "set", "lo", "up"])?;
    // Where a cut drops the last packets of a caller, an idle server only learns from a probe that
    // nobody is there. The kernel's default is two hours.
    for (name, value) in [("tcp_keepalive_time", "20"), ("tcp_keepalive_intvl", "5")] {
        let file = format!("/proc/sys/net/ipv4/{name}");
        fs::write(&file, value).map_err(|error| format!("{file}: {error}"))?;
    }
    Ok(())
}

/// Removes the folders of processes that are gone. Their mounts and processes went with them.
fn sweep() {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten();
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let mut parts = rest.split('-');
        let (id, start) = (parts.next(), parts.next());
        let id = id.and_then(|id| id.parse().ok());
        if id.and_then(started).as_deref() != start {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Returns when a process started, in the kernel's ticks since its own start. Numbers of processes
/// are used again; with this they are not.
fn started(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name of the program may have spaces and brackets.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, Sandbox, started};

    #[test]
    fn folders_of_processes_that_are_gone_are_removed_and_others_are_not() {
        let temporary = std::env::temp_dir();
        // No process has this number and start.
        let gone = temporary.join(format!("{PREFIX}1-0-test{}", std::process::id()));
        std::fs::create_dir(&gone).unwrap();
        let mine = Sandbox::create().unwrap();
        let other = Sandbox::create().unwrap();
        assert!(!gone.exists());
        assert!(mine.folder().exists());
        let folder = mine.folder().to_owned();
        drop((mine, other));
        assert!(!folder.exists());
        assert!(started(std::process::id()).is_some());
    }
}
