//! A worker process: how it handles a delivery, and where it is killed.

use std::io::{self, BufRead, Write, stdin, stdout};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_core::{
    BoxError, Claim, ClaimOutcome, ClaimRequest, Error, Fingerprint, IdempotencyStoreExt as _, Key,
    Response,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};

use super::args::Sabotage;
use super::backend::{self, Entry, Location, Opened, RETENTION, Settlement};
use super::protocol::{End, Order, Outcome, Point, Report, Setup};
use super::stop::{OrStop, Stop, chain};

/// The argument that makes the command a worker.
pub(crate) const ARGUMENT: &str = "storm-worker";

/// The pause before a worker tries again to reach the store.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a delivery may wait for an unreachable store or for the holder of its key.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// The pauses before a claim is repeated: they double.
const MIN_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(100);

/// The maximum duration of the work, in milliseconds.
const MAX_WORK: u64 = 4;

/// Handles deliveries until standard input ends, by the parent's choice or with the parent.
pub(crate) fn main() -> ExitCode {
    let Err(stop) = run() else {
        return ExitCode::SUCCESS;
    };
    let message = stop.to_string();
    say(&Report::Fatal { message });
    stop.code()
}

fn run() -> Result<(), Stop> {
    let mut first = String::new();
    let read = stdin().read_line(&mut first);
    if read.or_stop("a worker cannot read its set-up")? == 0 {
        return Ok(());
    }
    let setup = serde_json::from_str(&first)
        .or_stop("this is a worker of `storm`, and not for people to start")?;
    let (sender, orders) = unbounded_channel();
    std::thread::spawn(move || read_orders(&sender));
    serve(setup, orders)
}

/// Only reads, so that the parent can always write. When the input ends, the parent has all its
/// answers or is gone; then the process ends, whatever it is doing.
fn read_orders(orders: &UnboundedSender<Order>) {
    for line in stdin().lock().lines() {
        // An unreadable line is one that the parent could not finish.
        let order = line.and_then(|line| Ok(serde_json::from_str(&line)?));
        let Ok(Ok(())) = order.map(|order| orders.send(order)) else {
            break;
        };
    }
    std::process::exit(0);
}

#[tokio::main(flavor = "current_thread")]
async fn serve(setup: Setup, mut orders: UnboundedReceiver<Order>) -> Result<(), Stop> {
    let opened = open(&setup.location).await?;
    let desk = Arc::new(Desk { opened, setup });
    say(&Report::Ready);
    while let Some(order) = orders.recv().await {
        let desk = Arc::clone(&desk);
        // A separate task, so that a panic is reported, too.
        let handled = tokio::spawn(async move { desk.handle(&order).await });
        tokio::spawn(async move {
            let handled = handled.await.unwrap_or_else(|panic| Err(panic.into()));
            say(&handled.unwrap_or_else(|error| Report::Fatal {
                message: chain(&*error),
            }));
        });
    }
    Ok(())
}

/// Opens the store. The parent has reached it before, so an error means that the server is away for
/// a while.
async fn open(location: &Location) -> Result<Opened, Stop> {
    let begun = Instant::now();
    loop {
        match backend::open(location).await {
            Err(_) if begun.elapsed() < RETRY_TIMEOUT => sleep(PAUSE).await,
            opened => return opened,
        }
    }
}

/// Writes the report at once. The parent always reads, so this does not block for long; if the
/// parent is gone, this process has no reason to continue.
fn say(report: &Report) {
    let mut out = stdout().lock();
    let written = serde_json::to_writer(&mut out, report).map_err(io::Error::from);
    if written.and_then(|()| writeln!(out)).is_err() {
        std::process::exit(1);
    }
}

/// The point where a delivery is killed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Probe {
    delivery: u32,
    crash: Option<Point>,
}

impl Probe {
    /// Passes the point, except when it is the one to be killed at: then it reports that and waits
    /// for the kill. The last point is also that of a crash planned for an earlier one, which a
    /// duplicate does not pass.
    pub(crate) async fn pass(self, point: Point) {
        let is_last = point == Point::Unanswered && self.crash.is_some();
        if is_last || self.crash == Some(point) {
            let delivery = self.delivery;
            say(&Report::Reached { delivery, point });
            std::future::pending::<()>().await;
        }
    }
}

/// Handles deliveries: claims, works, settles, answers.
#[derive(Debug)]
struct Desk {
    opened: Opened,
    setup: Setup,
}

impl Desk {
    /// Returns the answer to a delivery, or why there is none.
    async fn handle(&self, order: &Order) -> Result<Report, BoxError> {
        let Order {
            delivery, crash, ..
        } = *order;
        let probe = Probe { delivery, crash };
        let fingerprint = Fingerprint::json(&order.payload)?;
        let end = match self.setup.sabotage {
            Some(Sabotage::NoClaim) => {
                let entry = self.entry(order, &fingerprint);
                self.opened.backend.append(&entry).await?;
                End {
                    outcome: Outcome::Fresh,
                    waited: false,
                    fenced: 0,
                    receipt: entry.receipt(),
                }
            }
            _ => self.once(order, fingerprint, probe).await?,
        };
        probe.pass(Point::Unanswered).await;
        Ok(Report::Handled { delivery, end })
    }

    /// Repeats the claim until there is an outcome. It sends the same request after errors and
    /// while another worker holds the key, so that the store recognizes a claim whose answer was
    /// lost. After a lost claim it sends a new request.
    async fn once(
        &self,
        order: &Order,
        fingerprint: Fingerprint,
        probe: Probe,
    ) -> Result<End, BoxError> {
        let deadline = Instant::now() + RETRY_TIMEOUT;
        let mut request = self.request(order, fingerprint)?;
        let (mut pause, mut waited, mut fenced) = (MIN_PAUSE, false, 0);
        let (outcome, response) = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let seconds = RETRY_TIMEOUT.as_secs();
                return Err(format!("a delivery had no outcome after {seconds} s").into());
            }
            let claimed = self.opened.store.claim_retrying(&request, left).await?;
            let max_pause = match claimed {
                ClaimOutcome::Acquired(claim) => {
                    match self.work(order, claim, &fingerprint, probe).await {
                        Ok(response) => break (Outcome::Fresh, response),
                        Err(error) => match error.downcast_ref::<Error>() {
                            Some(own) if own.is_claim_lost() => {
                                fenced += 1;
                                request = self.request(order, fingerprint)?;
                                Duration::ZERO
                            }
                            Some(own) if !own.is_retryable() => return Err(error),
                            // Without an error of the store, it is the driver's connection error,
                            // or occurs again at the next try.
                            _ => Duration::MAX,
                        },
                    }
                }
                ClaimOutcome::InFlight(in_flight) => {
                    waited = true;
                    // Not longer than the holder may hold the key.
                    in_flight.lease_remaining() + Duration::from_millis(1)
                }
                ClaimOutcome::Completed(completed) => break (Outcome::Replay, completed.response),
                ClaimOutcome::Conflict(_) => break (Outcome::Conflict, Response::new(409, "")),
                ClaimOutcome::Failed(_) => {
                    return Err("a failure was found; none is recorded".into());
                }
            };
            // Drawn, so that deliveries that failed together do not come back together.
            sleep(rand::random_range(pause / 2..=pause).min(max_pause)).await;
            pause = MAX_PAUSE.min(pause * 2);
        };
        Ok(End {
            outcome,
            waited,
            fenced,
            receipt: String::from_utf8(response.body().to_vec())?,
        })
    }

    fn request(&self, order: &Order, fingerprint: Fingerprint) -> Result<ClaimRequest, Error> {
        let key = Key::new("storm", "storm.effect", &order.key)?;
        Ok(ClaimRequest::new(key, fingerprint)
            .with_lease(self.setup.lease)
            .with_retention(RETENTION))
    }

    /// Does the work under the claim, and settles it. Returns the stored answer.
    async fn work(
        &self,
        order: &Order,
        claim: Claim,
        fingerprint: &Fingerprint,
        probe: Probe,
    ) -> Result<Response, BoxError> {
        probe.pass(Point::Claimed).await;
        some_work().await;
        probe.pass(Point::Working).await;
        some_work().await;
        let entry = self.entry(order, fingerprint).under(&claim);
        let settlement = Settlement {
            response: entry.response(),
            claim,
            entry,
            probe,
        };
        let Opened { store, backend, .. } = &self.opened;
        match self.setup.sabotage {
            None | Some(Sabotage::NoClaim) => return backend.settle(&settlement).await,
            Some(Sabotage::TwoTransactions) => backend.append(&settlement.entry).await?,
            Some(Sabotage::NoEffect) => {}
        }
        probe.pass(Point::Uncommitted).await;
        let (claim, response) = (settlement.claim, settlement.response);
        store.complete(&claim, &response, RETENTION).await?;
        Ok(response)
    }

    /// Returns the effect of a delivery without a claim.
    fn entry(&self, order: &Order, fingerprint: &Fingerprint) -> Entry {
        Entry {
            key: order.key.clone(),
            fingerprint: fingerprint.to_string(),
            delivery: i64::from(order.delivery),
            worker: self.setup.location.worker.clone(),
            ..Entry::default()
        }
    }
}

/// Replaces calls to other services.
async fn some_work() {
    sleep(Duration::from_millis(rand::random_range(0..=MAX_WORK / 2))).await;
}
