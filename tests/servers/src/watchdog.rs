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

/// The file, in the folder of each process of a server, that contains its number and a line break.
pub(crate) const NOTE: &str = "pid";
/// The script, in the folder of its only process, that removes the container of a server.
pub(crate) const REMOVE: &str = "remove.sh";

/// `$1` is the server's folder, and `$2` is the signal to try first. A frozen process receives it
/// when it continues.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
cat > /dev/null
test -f "$1/0/remove.sh" && sh "$1/0/remove.sh"
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
    pub(crate) fn start(folder: &Path, signal: Signal) -> Result<Self> {
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "idem-watchdog"])
            .arg(folder)
            .arg(format!("{signal:?}").to_uppercase())
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

/// Removes the container of the server with that folder, if it runs in one.
pub(crate) fn remove_container(folder: &Path) {
    let script = folder.join("0").join(REMOVE);
    if script.is_file() {
        // It may be gone already.
        let _ = Command::new("sh").arg(script).output();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{NOTE, Watchdog};
    use crate::folder::Folder;
    use crate::process::{STOP, wait_until};
    use crate::{Identity, Signal};

    #[test]
    fn every_node_ends_with_the_process_that_held_them_even_a_frozen_one() {
        let folder = Folder::create("watchdog-test", None).unwrap();
        let mut nodes = Vec::new();
        for number in ["0", "1"] {
            let child = Command::new("sleep").arg("600").spawn().unwrap();
            let node = folder.within(number).unwrap();
            node.write(NOTE, &format!("{}\n", child.id())).unwrap();
            nodes.push(child);
        }
        Identity::of(nodes[1].id()).send(STOP);
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
