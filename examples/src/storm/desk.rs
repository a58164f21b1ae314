//! [`Desk`]: how a worker handles a delivery.

use std::time::Duration;

use idem_core::{
    BoxError, Claim, ClaimOutcome, ClaimRequest, Error, Fingerprint, IdempotencyStoreExt as _,
    Response,
};
use idem_queue::Backoff;
use tokio::time::{Instant, sleep};

use super::args::Sabotage;
use super::backend::{Backend, Entry, RETENTION, Settlement};
use super::input::key;
use super::probe::{Point, Probe};
use super::protocol::{End, Order, Outcome, Report, Setup};

/// How long a delivery may wait for an unreachable store or for the holder of its key.
pub(crate) const RETRY_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum duration of the work, in milliseconds.
const MAX_WORK: u64 = 4;

/// Handles deliveries: claims, works, settles, answers.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) setup: Setup,
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
        let (outcome, response) = match self.setup.sabotage {
            Some(Sabotage::NoClaim) => {
                let entry = self.entry(order, &fingerprint);
                self.backend.append(&entry).await?;
                (Outcome::Fresh, entry.response())
            }
            _ => self.once(order, fingerprint, probe, &mut progress).await?,
        };
        probe.leave().await;
        Ok(Report::Handled {
            delivery: order.delivery,
            end: End {
                outcome,
                waited: progress.waited,
                fenced: progress.fenced,
                receipt: String::from_utf8(response.body().to_vec())?,
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
    ) -> Result<(Outcome, Response), BoxError> {
        let mut request = self.request(order, fingerprint)?;
        let store = self.backend.store();
        loop {
            let retry_timeout = progress.retry_timeout()?;
            match store.claim_retrying(&request, retry_timeout).await? {
                ClaimOutcome::Acquired(claim) => {
                    match self.work(order, claim, &fingerprint, probe).await {
                        Ok(response) => return Ok((Outcome::Fresh, response)),
                        Err(error) if is_claim_lost(&error) => {
                            progress.fenced += 1;
                            request = self.request(order, fingerprint)?;
                        }
                        Err(error) if is_retryable(&error) => progress.pause(Duration::MAX).await,
                        Err(error) => return Err(error),
                    }
                }
                ClaimOutcome::InFlight(in_flight) => {
                    progress.waited = true;
                    // Not longer than the holder may hold the key.
                    let max_pause = in_flight.lease_remaining() + Duration::from_millis(1);
                    progress.pause(max_pause).await;
                }
                ClaimOutcome::Completed(completed) => {
                    return Ok((Outcome::Replay, completed.response));
                }
                ClaimOutcome::Conflict(_) => {
                    return Ok((Outcome::Conflict, Response::new(409, "")));
                }
                ClaimOutcome::Failed(_) => {
                    return Err("a failure was found; none is recorded".into());
                }
            }
        }
    }

    fn request(&self, order: &Order, fingerprint: Fingerprint) -> Result<ClaimRequest, Error> {
        Ok(ClaimRequest::new(key(&order.key)?, fingerprint)
            .with_lease(self.setup.lease)
            .with_retention(RETENTION))
    }

    /// Does the work under the claim, and settles it.
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
        self.settle(&settlement).await
    }

    /// Commits the settlement and returns the stored answer.
    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
        let Settlement {
            claim,
            entry,
            response,
            probe,
        } = settlement;
        match self.setup.sabotage {
            None | Some(Sabotage::NoClaim) => return self.backend.settle(settlement).await,
            Some(Sabotage::TwoTransactions) => self.backend.append(entry).await?,
            Some(Sabotage::NoEffect) => {}
        }
        probe.pass(Point::Uncommitted).await;
        let store = self.backend.store();
        store.complete(claim, response, RETENTION).await?;
        Ok(response.clone())
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
    pauses: u64,
    waited: bool,
    fenced: u32,
}

impl Progress {
    fn new() -> Self {
        Self {
            deadline: Instant::now() + RETRY_TIMEOUT,
            pauses: 0,
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

    /// Sleeps longer each time.
    async fn pause(&mut self, max_pause: Duration) {
        let backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(100));
        self.pauses += 1;
        sleep(backoff.after(self.pauses).min(max_pause)).await;
    }
}
