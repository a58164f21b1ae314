use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::error::Doing;

/// Ends a server and removes its folder, on request or when the process that holds it is gone, for
/// whatever reason: the pipe between the two closes even on SIGKILL. It has its own process group
/// and ignores signals, so that Ctrl-C does not end it first.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
}

/// The file, in the folder of each process of a server, that contains its number and a line break.
pub(crate) const NOTE: &str = "pid";

/// `$1` is the server's folder, and `$2` is the number of the signal to try first. A frozen process
/// receives it when it continues. A zombie has ended, although nobody may ever reap it. Processes
/// that a server has started and left work in the folder, too.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
cat > /dev/null
runs() {
    kill -0 "$1" && ! grep -q '^State:.Z' "/proc/$1/status"
} 2> /dev/null
pids=$(cat "$1"/*/pid 2> /dev/null)
for pid in $pids; do
    kill "-$2" "$pid" 2> /dev/null
    kill -s CONT "$pid" 2> /dev/null
done
polls=300
for pid in $pids; do
    while runs "$pid" && [ "$polls" -gt 0 ]; do
        polls=$((polls - 1))
        sleep 0.05
    done
    runs "$pid" && kill -s KILL "$pid"
done
folder=$(cd "$1" && pwd -P)
left() {
    find /proc/[0-9]*/cwd -maxdepth 0 -lname "$folder/*" 2> /dev/null | cut -d / -f 3
}
polls=100
while [ -n "$folder" ] && pids=$(left) && [ -n "$pids" ] && [ "$polls" -gt 0 ]; do
    polls=$((polls - 1))
    kill -s KILL $pids 2> /dev/null
    sleep 0.05
done
rm -rf "$1"
"#;

impl Watchdog {
    pub(crate) fn start(folder: &Path, signal: i32) -> Result<Self> {
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "idem-watchdog"])
            .arg(folder)
            .arg(signal.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .doing(|| "cannot start the watchdog (sh)".into())?;
        Ok(Self { child })
    }

    /// Ends the server now, and waits for the end. `reap` waits for those of its processes that are
    /// children of this one.
    pub(crate) fn end(mut self, reap: impl FnOnce()) {
        drop(self.child.stdin.take());
        reap();
        let _ = self.child.wait();
    }

    /// Lets the server continue without it.
    pub(crate) fn dismiss(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::Signal;

    use super::{NOTE, Watchdog};
    use crate::folder::Folder;
    use crate::process::{send, wait_until};

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
        send(nodes[1].id(), Signal::STOP);
        // One that a node has started, and whose number nobody knows.
        let mut left = Command::new("sleep");
        left.arg("600").current_dir(folder.path().join("1"));
        nodes.push(left.spawn().unwrap());
        let mut watchdog = Watchdog::start(folder.path(), Signal::TERM.as_raw()).unwrap();
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
