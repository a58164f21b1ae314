//! [`Process`]: a worker, seen from the parent.

use std::process::{ExitStatus, Stdio};

use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::protocol::{Report, Setup, line};
use super::stop::{OrStop, Stop};
use super::worker::ARGUMENT;

/// A running worker process; killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// `None` when there is nothing more to send, which ends the worker.
    orders: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program again, as a worker.
    pub(crate) async fn start(setup: &Setup) -> Result<Self, Stop> {
        let failed = "a worker process cannot be started; try fewer --processes";
        let program = std::env::current_exe().or_stop(failed)?;
        let mut child = Command::new(program)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .or_stop(failed)?;
        let (Some(orders), Some(reports)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Stop::new("a worker process has no pipes"));
        };
        let mut process = Self {
            child,
            orders: Some(orders),
            reports: BufReader::new(reports),
        };
        process.write(setup).await?;
        Ok(process)
    }

    /// Writes a document on a line of its own.
    pub(crate) async fn write(&mut self, document: &(impl Serialize + Sync)) -> Result<(), Stop> {
        let line = line(document).or_stop("a delivery cannot be written")?;
        if let Some(orders) = &mut self.orders {
            // A dead worker cannot be written to; the lane repeats what it did not acknowledge.
            let _ = orders.write_all(&line).await;
        }
        Ok(())
    }

    /// Returns the worker's next report; `None` when it is dead and all its reports were read.
    pub(crate) async fn report(&mut self) -> Result<Option<Report>, Stop> {
        let line = whole_line(&mut self.reports).await;
        let Some(line) = line.or_stop("a worker's reports cannot be read")? else {
            return Ok(None);
        };
        let report = serde_json::from_slice(&line).map(Some);
        report.or_stop("a worker wrote a line that is no report; is something else printing?")
    }

    /// Closes the worker's input, which ends the worker.
    pub(crate) fn dismiss(&mut self) {
        self.orders = None;
    }

    /// Kills the worker (SIGKILL). There may still be reports to read.
    pub(crate) fn kill(&mut self) {
        // The only possible error is that it is already dead.
        let _ = self.child.start_kill();
    }

    /// Waits until the worker has ended.
    pub(crate) async fn ended(mut self) -> Result<ExitStatus, Stop> {
        self.dismiss();
        let ended = self.child.wait().await;
        ended.or_stop("a worker process cannot be waited for")
    }
}

/// Returns the next line. A line without its end was cut off by a kill, and does not count.
async fn whole_line(reader: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).await?;
    Ok(line.ends_with(b"\n").then_some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn half_a_line_was_not_said() {
        let mut reader = &b"{\"a\":1}\n{\"b\":2}\n{\"c\":"[..];
        let mut lines = Vec::new();
        while let Some(line) = whole_line(&mut reader).await.unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, [b"{\"a\":1}\n", b"{\"b\":2}\n"]);
    }
}
