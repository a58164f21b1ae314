//! [`Lane`]: a series of worker processes, and their deliveries.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde::Serialize;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::conduct::Tally;
use super::plan::{Plan, key};
use super::protocol::{Order, Point, Report, Setup};
use super::stop::{OrStop, Stop};
use super::worker::ARGUMENT;

/// After this many processes in a row that die without a report the lane gives up.
const MAX_SILENT_DEATHS: u32 = 5;

/// The state that all lanes share.
#[derive(Debug)]
pub(crate) struct Storm {
    pub(crate) plan: Plan,
    pub(crate) setup: Setup,
    pub(crate) concurrency: u32,
    pub(crate) tally: Mutex<Tally>,
}

impl Storm {
    /// Changes or reads the tally.
    pub(crate) fn with_tally<T>(&self, with: impl FnOnce(&mut Tally) -> T) -> T {
        with(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An at-least-once sender: it sends its deliveries in order, several at once, and repeats them
/// until they are acknowledged.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    storm: &'a Storm,
    number: u32,
    waiting: VecDeque<u32>,
    under_way: BTreeSet<u32>,
    first_sent: HashMap<u32, Instant>,
    /// Deliveries whose crash has happened.
    crashed: HashSet<u32>,
    /// Whether the lane has killed the current process.
    killed: bool,
    silent_deaths: u32,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(storm: &'a Storm, number: u32) -> Self {
        Self {
            waiting: storm.plan.share(number),
            storm,
            number,
            under_way: BTreeSet::new(),
            first_sent: HashMap::new(),
            crashed: HashSet::new(),
            killed: false,
            silent_deaths: 0,
        }
    }

    /// Delivers everything, with as many processes as it takes.
    pub(crate) async fn run(mut self) -> Result<(), Stop> {
        let mut generation = 0;
        while !self.waiting.is_empty() {
            let mut setup = self.storm.setup.clone();
            setup.location.worker = format!("{}.{generation}", self.number);
            let mut process = Process::start(&setup).await?;
            self.killed = false;
            self.silent_deaths += 1;
            while let Some(report) = process.report().await? {
                self.handle(report, &mut process).await?;
            }
            let status = process.ended().await?;
            self.requeue(status)?;
            generation += 1;
        }
        Ok(())
    }

    async fn handle(&mut self, report: Report, process: &mut Process) -> Result<(), Stop> {
        match report {
            Report::Ready => self.send_more(process).await?,
            Report::Handled { delivery, end } => {
                self.silent_deaths = 0;
                self.under_way.remove(&delivery);
                let sent = self.first_sent.remove(&delivery);
                let latency = sent.map(|sent| sent.elapsed()).unwrap_or_default();
                self.storm
                    .with_tally(|tally| tally.end(delivery, end, latency));
                self.send_more(process).await?;
            }
            Report::Reached { delivery, point } => self.crash(delivery, point, process),
            Report::Fatal { message } => {
                return Err(Stop::new(format!("a worker cannot go on: {message}")));
            }
        }
        Ok(())
    }

    /// Kills the process at this point. If another delivery has reached its own point at the same
    /// moment, that crash still has to happen.
    fn crash(&mut self, delivery: u32, point: Point, process: &mut Process) {
        if self.killed {
            return;
        }
        self.killed = true;
        self.silent_deaths = 0;
        process.kill();
        self.crashed.insert(delivery);
        self.storm.with_tally(|tally| tally.crashed(Some(point)));
    }

    /// Sends deliveries up to the limit; ends the process when all are done.
    async fn send_more(&mut self, process: &mut Process) -> Result<(), Stop> {
        while !self.killed && self.under_way.len() < self.storm.concurrency as usize {
            let Some(delivery) = self.waiting.pop_front() else {
                break;
            };
            self.under_way.insert(delivery);
            self.first_sent.entry(delivery).or_insert_with(Instant::now);
            process.write(&self.order(delivery)).await?;
        }
        if self.under_way.is_empty() {
            process.dismiss();
        }
        Ok(())
    }

    fn order(&self, delivery: u32) -> Order {
        let plan = &self.storm.plan;
        let planned = &plan.deliveries[delivery as usize];
        Order {
            delivery,
            key: key(planned.request),
            crash: planned.crash.filter(|_| !self.crashed.contains(&delivery)),
            payload: plan.payload(planned),
        }
    }

    /// Takes back the deliveries that a dead process has not acknowledged, in order.
    fn requeue(&mut self, status: ExitStatus) -> Result<(), Stop> {
        while let Some(delivery) = self.under_way.pop_last() {
            self.waiting.push_front(delivery);
        }
        if self.killed || self.waiting.is_empty() {
            return Ok(());
        }
        if self.silent_deaths > MAX_SILENT_DEATHS {
            return Err(Stop::new(format!(
                "worker processes end before they have answered anything ({status}); what they wrote is above"
            )));
        }
        self.storm.with_tally(|tally| tally.crashed(None));
        Ok(())
    }
}

/// A running worker process; killed when it is dropped.
#[derive(Debug)]
struct Process {
    child: Child,
    /// `None` when there is nothing more to send, which ends the worker.
    orders: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program again, as a worker.
    async fn start(setup: &Setup) -> Result<Self, Stop> {
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
    async fn write(&mut self, document: &(impl Serialize + Sync)) -> Result<(), Stop> {
        let line = serde_json::to_vec(document);
        let mut line = line.or_stop("a delivery cannot be written")?;
        line.push(b'\n');
        if let Some(orders) = &mut self.orders {
            // A dead worker cannot be written to; the lane repeats what it did not acknowledge.
            let _ = orders.write_all(&line).await;
        }
        Ok(())
    }

    /// Returns the worker's next report; `None` when it is dead and all its reports were read.
    async fn report(&mut self) -> Result<Option<Report>, Stop> {
        let line = whole_line(&mut self.reports).await;
        let Some(line) = line.or_stop("a worker's reports cannot be read")? else {
            return Ok(None);
        };
        let report = serde_json::from_slice(&line).map(Some);
        report.or_stop("a worker wrote a line that is no report; is something else printing?")
    }

    /// Closes the worker's input, which ends the worker.
    fn dismiss(&mut self) {
        self.orders = None;
    }

    /// Kills the worker (SIGKILL). There may still be reports to read.
    fn kill(&mut self) {
        // The only possible error is that it is already dead.
        let _ = self.child.start_kill();
    }

    /// Waits until the worker has ended.
    async fn ended(mut self) -> Result<ExitStatus, Stop> {
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
