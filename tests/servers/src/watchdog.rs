use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::error::Doing;
use crate::{Result, Signal};

/// Ends a server when the process that holds it is gone, however it went: the pipe between the two closes even
/// on SIGKILL. In a process group of its own and deaf to signals, so that Ctrl-C does not take it first.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
}

/// `$1` is the server's folder, where the file `pid` names its process, or that of a cluster, with such a folder for
/// each node; `$2` is the signal to try first.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
cat > /dev/null
pids=$(cat "$1/pid" "$1"/*/pid 2> /dev/null)
for pid in $pids; do
    kill -s "$2" "$pid" 2> /dev/null
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

/// Called off: whoever drops it has ended the server.
impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
