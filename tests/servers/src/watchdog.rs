use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::error::Doing;
use crate::{Result, Signal};

/// Ends a server when the process that holds it is gone, for whatever reason: the pipe between the
/// two closes even on SIGKILL. It has its own process group and ignores signals, so that Ctrl-C
/// does not end it first.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
}

/// `$1` is the server's folder, with a folder for each of its processes, whose file `pid` names the
/// process; `$2` is the signal to try first. A frozen process receives it when it continues.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
cat > /dev/null
pids=$(cat "$1"/*/pid 2> /dev/null)
for pid in $pids; do
    kill -s "$2" "$pid" 2> /dev/null
    kill -s CONT "$pid" 2> /dev/null
done
for pid in $pids; do
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        kill -0 "$pid" 2> /dev/null || break
        sleep 1
    done
    kill -s KILL "$pid" 2> /dev/null
done
rm -rf "$1"
"#;

impl Watchdog {
    pub(crate) const NOTE: &'static str = "pid";

    /// Records the process to end, on its own line: all records are read as one text.
    pub(crate) fn note(folder: &Path, pid: u32) -> Result<()> {
        fs::write(folder.join(Self::NOTE), format!("{pid}\n"))
            .doing(|| "cannot note the server's process".into())
    }

    pub(crate) fn start(folder: &Path, signal: Signal) -> Result<Self> {
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "idem-watchdog"])
            .arg(folder)
            .arg(signal.name())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .doing(|| "cannot start the watchdog (sh)".into())?;
        Ok(Self { child })
    }
}

/// Stops the watchdog: the server has ended.
impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::Watchdog;
    use crate::folder::Folder;
    use crate::process::wait_until;
    use crate::{Identity, Signal};

    #[test]
    fn every_node_ends_with_the_process_that_held_them_even_a_frozen_one() {
        let folder = Folder::create("watchdog-test", None).unwrap();
        let mut nodes = Vec::new();
        for number in ["0", "1"] {
            let child = Command::new("sleep").arg("600").spawn().unwrap();
            let place = folder.within(number, None).unwrap();
            Watchdog::note(place.path(), child.id()).unwrap();
            nodes.push(child);
        }
        Identity::of(nodes[1].id()).freeze();
        let mut watchdog = Watchdog::start(folder.path(), Signal::Term).unwrap();
        // The system does the same when the process with the other end is gone.
        drop(watchdog.child.stdin.take());
        for node in &mut nodes {
            let gone = || !matches!(node.try_wait(), Ok(None));
            assert!(wait_until(std::time::Duration::from_secs(30), gone));
        }
        let removed = || !folder.path().exists();
        assert!(wait_until(std::time::Duration::from_secs(60), removed));
    }
}
