//! [`Lane`]: a series of worker processes, and their deliveries.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::plan::Plan;
use super::probe::Point;
use super::process::Process;
use super::protocol::{Order, Report, Setup};
use super::stop::Stop;
use super::tally::Tally;
use super::workload::Workload;

/// After this many processes in a row that die without a report the lane gives up.
const MAX_SILENT_DEATHS: u32 = 5;

/// The state that all lanes share.
#[derive(Debug)]
pub(crate) struct Storm {
    pub(crate) workload: Workload,
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
                    .with_tally(|tally| tally.answered(delivery, end, latency));
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
        let Storm { workload, plan, .. } = self.storm;
        let planned = plan.deliveries[delivery as usize];
        let variant = &workload.variants[planned.variant as usize];
        Order {
            delivery,
            key: workload.keys[variant.request as usize].clone(),
            crash: planned.crash.filter(|_| !self.crashed.contains(&delivery)),
            payload: variant.payload.clone(),
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
