//! [`Desk`]: how a worker handles a delivery.

use std::time::Duration;

use idem_core::{
    BoxError, Claim, ClaimOutcome, ClaimRequest, Error, Fingerprint, IdempotencyStoreExt as _,
    InFlight, Response,
};
use tokio::time::{Instant, sleep};

use super::args::Sabotage;
use super::backend::{Backend, RETENTION, Settlement};
use super::entry::Entry;
use super::input::key;
use super::point::Point;
use super::protocol::{End, Order, Outcome, Report};
use super::worker::say;

/// How long a delivery may wait for an unreachable store or for the holder of its key.
pub(crate) const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum duration of the work, in milliseconds.
const MAX_WORK: u64 = 4;

/// Handles deliveries: claims, works, settles, answers.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) lease: Duration,
    pub(crate) sabotage: Option<Sabotage>,
    pub(crate) worker: String,
}

impl Desk {
    /// Returns the answer to a delivery, or why there is none.
    pub(crate) async fn handle(&self, order: &Order) -> Result<Report, BoxError> {
        let probe = Probe {
            delivery: order.delivery,
            crash: order.crash,
        };
        let fingerprint = Fingerprint::json(order.payload.get())?;
        let mut progress = Progress::new();
        let (outcome, receipt) = match self.sabotage {
            Some(Sabotage::NoClaim) => self.without_claim(order, &fingerprint).await?,
            _ => self.once(order, fingerprint, probe, &mut progress).await?,
        };
        probe.leave().await;
        Ok(Report::Handled {
            delivery: order.delivery,
            end: End {
                outcome,
                waited: progress.waited,
                fenced: progress.fenced,
                receipt: String::from_utf8(receipt)?,
            },
        })
    }

    /// Repeats the claim until there is an outcome. It sends the same request after errors and
    /// while another worker holds the key, so that the store recognizes a claim whose answer was
    /// lost. After a lost claim it sends a new request.
    async fn once(
        &self,
        order: &Order,
        fingerprint: Fingerprint,
        probe: Probe,
        progress: &mut Progress,
    ) -> Result<(Outcome, Vec<u8>), BoxError> {
        let mut request = self.request(order, fingerprint)?;
        loop {
            let retry_timeout = progress.retry_timeout()?;
            match self
                .backend
                .store()
                .claim_retrying(&request, retry_timeout)
                .await?
            {
                ClaimOutcome::Acquired(claim) => {
                    match self.work(order, claim, &fingerprint, probe).await {
                        Ok(receipt) => return Ok((Outcome::Fresh, receipt)),
                        Err(error) if is_claim_lost(&error) => {
                            progress.fenced += 1;
                            request = self.request(order, fingerprint)?;
                        }
                        Err(error) if is_retryable(&error) => progress.pause().await,
                        Err(error) => return Err(error),
                    }
                }
                ClaimOutcome::InFlight(in_flight) => progress.wait(&in_flight).await,
                ClaimOutcome::Completed(completed) => {
                    return Ok((Outcome::Replay, completed.response.body().to_vec()));
                }
                ClaimOutcome::Conflict(_) => return Ok((Outcome::Conflict, Vec::new())),
                ClaimOutcome::Failed(_) => {
                    return Err("a failure was found; none is recorded".into());
                }
            }
        }
    }

    fn request(&self, order: &Order, fingerprint: Fingerprint) -> Result<ClaimRequest, Error> {
        Ok(ClaimRequest::new(key(&order.key)?, fingerprint)
            .with_lease(self.lease)
            .with_retention(RETENTION))
    }

    /// Does the work under the claim, and settles it.
    async fn work(
        &self,
        order: &Order,
        claim: Claim,
        fingerprint: &Fingerprint,
        probe: Probe,
    ) -> Result<Vec<u8>, BoxError> {
        probe.pass(Point::Claimed).await;
        some_work().await;
        probe.pass(Point::Working).await;
        some_work().await;
        let entry = Entry {
            token: claim.token().as_i64(),
            attempts: i64::from(claim.attempts()),
            ..self.entry(order, fingerprint)
        };
        let settlement = Settlement {
            response: entry.response(),
            claim,
            entry,
            probe,
        };
        let response = self.settle(&settlement).await?;
        Ok(response.body().to_vec())
    }

    /// Commits the settlement and returns the stored answer.
    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
        let Settlement {
            claim,
            entry,
            response,
            probe,
        } = settlement;
        match self.sabotage {
            None | Some(Sabotage::NoClaim) => return self.backend.settle(settlement).await,
            Some(Sabotage::TwoTransactions) => self.backend.append(entry).await?,
            Some(Sabotage::NoEffect) => {}
        }
        probe.pass(Point::Uncommitted).await;
        let store = self.backend.store();
        store.complete(claim, response, RETENTION).await?;
        Ok(response.clone())
    }

    async fn without_claim(
        &self,
        order: &Order,
        fingerprint: &Fingerprint,
    ) -> Result<(Outcome, Vec<u8>), BoxError> {
        let entry = self.entry(order, fingerprint);
        self.backend.append(&entry).await?;
        Ok((Outcome::Fresh, entry.receipt()))
    }

    /// Returns the effect of a delivery without a claim.
    fn entry(&self, order: &Order, fingerprint: &Fingerprint) -> Entry {
        Entry {
            key: order.key.clone(),
            fingerprint: fingerprint.to_string(),
            token: 0,
            attempts: 0,
            delivery: i64::from(order.delivery),
            worker: self.worker.clone(),
        }
    }
}

/// Replaces calls to other services.
async fn some_work() {
    sleep(Duration::from_millis(rand::random_range(0..=MAX_WORK / 2))).await;
}

fn is_claim_lost(error: &BoxError) -> bool {
    let error = error.downcast_ref::<Error>();
    error.is_some_and(Error::is_claim_lost)
}

/// An error that is not the store's is the driver's connection error, or occurs again at the next
/// try.
fn is_retryable(error: &BoxError) -> bool {
    let error = error.downcast_ref::<Error>();
    error.is_none_or(Error::is_retryable)
}

/// The time limit of a delivery, and the obstacles that it met.
#[derive(Debug)]
struct Progress {
    deadline: Instant,
    pause: Duration,
    waited: bool,
    fenced: u32,
}

impl Progress {
    fn new() -> Self {
        Self {
            deadline: Instant::now() + RETRY_TIMEOUT,
            pause: Duration::from_millis(2),
            waited: false,
            fenced: 0,
        }
    }

    fn retry_timeout(&self) -> Result<Duration, String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let seconds = RETRY_TIMEOUT.as_secs();
            return Err(format!("a delivery had no outcome after {seconds} s"));
        }
        Ok(left)
    }

    /// Waits for the holder, but not longer than it may hold the key.
    async fn wait(&mut self, in_flight: &InFlight) {
        self.waited = true;
        let max_pause = in_flight.lease_remaining() + Duration::from_millis(1);
        self.pause_at_most(max_pause).await;
    }

    async fn pause(&mut self) {
        self.pause_at_most(Duration::MAX).await;
    }

    /// Sleeps for a doubling pause, with jitter, so that deliveries that failed together do not
    /// come back together.
    async fn pause_at_most(&mut self, max_pause: Duration) {
        let jittered = self.pause.mul_f64(rand::random_range(0.5..=1.0));
        sleep(jittered.min(max_pause)).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(100));
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
    /// for the kill.
    pub(crate) async fn pass(self, point: Point) {
        if self.crash == Some(point) {
            self.stand(point).await;
        }
    }

    /// The last point. A crash planned for an earlier point, which a duplicate does not pass,
    /// happens here.
    async fn leave(self) {
        if self.crash.is_some() {
            self.stand(Point::Unanswered).await;
        }
    }

    async fn stand(self, point: Point) {
        say(&Report::Reached {
            delivery: self.delivery,
            point,
        });
        std::future::pending::<()>().await;
    }
}
