//! [`Consumer`]: from a delivery to the disposition for the broker.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use idem_core::engine::{Transactional, Tx};
use idem_core::{BoxError, Error, ErrorKind, Failure, Idempotency, RunError, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failing::{failure, record, tries};
use crate::{Backoff, Disposition, Handled, Message, Reason, WorkError};

/// Works on each message once, however often and to however many consumers the broker delivers it.
///
/// It contains no broker client: pass it a delivery, do the work in the closure, and send the
/// broker the disposition in [`Handled`]. The message is acknowledged only after its result is
/// stored.
///
/// # If it ends in between
///
/// | killed, or its answer lost | the next delivery of the message |
/// | --- | --- |
/// | before the claim | is the first |
/// | while it works | is requeued until the lease ends; then the work runs again, with [`Work::is_takeover`] true |
/// | after the seal, before the broker received the `Ack` | is a duplicate: acknowledged, nothing runs |
/// | paused past its lease, and taken over | the late consumer's seal is refused: it requeues what the other has done |
///
/// So the work may *begin* twice, and its result is *stored* once. For an effect that happens once,
/// the work runs in a transaction ([`handle_in`](Self::handle_in)), commits its rows and the result
/// after it has called other systems ([`Work::commit`]), or passes on a derived key
/// ([`Work::derive`]).
///
/// # How often a message is tried
///
/// The limit counts tries: deliveries in which the work began. A delivery that met another one at
/// work, or a store that was out of reach, is no try. A released claim leaves no trace, so from the
/// second delivery on the consumer counts in a record of its own, under a key derived from the
/// message's, by one more claim. Where that record cannot be written, or the first try killed its
/// consumer, a message may be tried once more than the limit; it is never rejected early. Let the
/// broker deliver without a limit, or with a higher one.
///
/// # Cancellation
///
/// Dropping the future at any poll drops the work, and releases the message or does what the policy
/// says.
#[derive(Debug, Clone)]
#[doc(alias("dedup", "inbox"))]
pub struct Consumer {
    idempotency: Idempotency,
    max_tries: u64,
    backoff: Backoff,
}

/// The shortest and the longest delay of a message that another consumer works on.
const IN_FLIGHT: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));

impl Consumer {
    /// The default limit of tries: 10.
    pub const MAX_DELIVERIES: u64 = 10;

    /// The failure that is recorded for a message that was tried too often.
    pub const POISON: &'static str = "idem.poison";

    /// Runs work under these policies. Errors have to be released
    /// ([`ErrorPolicy::Release`](idem_core::ErrorPolicy)), which is the default: the consumer
    /// itself records permanent errors.
    #[must_use]
    pub fn new(idempotency: Idempotency) -> Self {
        Self {
            idempotency,
            max_tries: Self::MAX_DELIVERIES,
            backoff: Backoff::default(),
        }
    }

    /// Sets the try at which a temporary error is final, and after which a message is not tried
    /// again, such as one that kills its consumer. At least 1. Default:
    /// [`MAX_DELIVERIES`](Self::MAX_DELIVERIES). Deliveries in which the work did not begin do not
    /// count.
    #[must_use]
    pub fn with_max_deliveries(mut self, deliveries: u64) -> Self {
        self.max_tries = deliveries.max(1);
        self
    }

    /// Sets how long a message rests after a temporary error.
    #[must_use]
    pub fn with_backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Returns the store and its policies.
    #[must_use]
    pub fn idempotency(&self) -> &Idempotency {
        &self.idempotency
    }

    /// Does the work of one delivery, except when it was done before.
    ///
    /// # Panics
    ///
    /// Panics when the work panics, after following the policy.
    pub async fn handle<T, F, Fut>(&self, message: &Message, work: F) -> Handled<T>
    where
        T: Serialize + DeserializeOwned + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, WorkError>> + Send,
    {
        let step = |claimed: Work| self.step(message.deliveries(), claimed, work);
        let run = self
            .idempotency
            .run_with(message.key(), message.fingerprint(), step);
        match Box::pin(run).await {
            Ok(outcome) => Handled::done(outcome),
            Err(error) => self.not_done(message.deliveries(), error),
        }
    }

    /// Does the work of one delivery in a transaction of the database that holds the records, except
    /// when it was done before. Claim, rows and result commit together, or nothing does: see
    /// [`Idempotency::run_in`]. After a deadlock, a serialization failure or a lock that was not free
    /// in time the work runs again, in this delivery.
    ///
    /// [`WorkError::Permanent`], and a temporary error at the last try, are recorded after the
    /// rollback. A message that kills its consumer or panics leaves no trace, so it is never poison:
    /// let the broker limit its deliveries.
    ///
    /// # Panics
    ///
    /// Panics when the work panics, after the rollback.
    pub async fn handle_in<X, T, F, Fut>(
        &self,
        transactions: &X,
        message: &Message,
        mut work: F,
    ) -> Handled<T>
    where
        X: Transactional,
        T: Serialize + DeserializeOwned + Send,
        F: FnMut(Tx<X::Transaction>, Work) -> Fut + Send,
        Fut: Future<Output = Result<T, WorkError>> + Send,
    {
        let (key, fingerprint) = (message.key(), message.fingerprint());
        let work = |tx, claimed| {
            let working = work(tx, claimed);
            async move { working.await.map_err(BoxError::from) }
        };
        let run = self
            .idempotency
            .run_with_in(transactions, key, fingerprint, work);
        let (code, error) = match Box::pin(run).await {
            Ok(outcome) => return Handled::done(outcome),
            Err(RunError::Work(error)) => match WorkError::from(error) {
                WorkError::Permanent(error) => (Failure::FAILED, error),
                WorkError::Temporary(error) => {
                    let tries = u64::from(tries(&self.idempotency, key).await);
                    if tries.min(message.deliveries()) < self.max_tries {
                        let error = RunError::Work(Ended::Temporary(error));
                        return self.not_done(message.deliveries(), error);
                    }
                    (Self::POISON, error)
                }
            },
            Err(error) => {
                let error = error.map_work(Ended::Temporary);
                return self.not_done(message.deliveries(), error);
            }
        };
        let text = error.to_string();
        let record = async |claimed: Work| Err(self.fail(&claimed, code, &text).await);
        let recorded = self.idempotency.run_with(key, fingerprint, record).await;
        match recorded {
            Ok(outcome) => Handled::done(outcome),
            Err(error) => self.not_done(message.deliveries(), error),
        }
    }

    /// Runs under the claim.
    async fn step<T, F, Fut>(&self, deliveries: u64, claimed: Work, work: F) -> Result<T, Ended>
    where
        T: Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, WorkError>> + Send,
    {
        let tries = match deliveries {
            1 => 1,
            _ => {
                let counted = tries(&self.idempotency, claimed.key()).await;
                u64::from(counted.max(claimed.attempts())).min(deliveries)
            }
        };
        if tries > self.max_tries {
            let text = format!("tried {} times and never done", tries - 1);
            return Err(self.fail(&claimed, Self::POISON, &text).await);
        }
        match work(claimed.clone()).await {
            Ok(value) => Ok(value),
            Err(WorkError::Temporary(error)) if tries < self.max_tries => {
                if deliveries == 1 {
                    self::tries(&self.idempotency, claimed.key()).await;
                }
                Err(Ended::Temporary(error))
            }
            Err(WorkError::Temporary(error)) => {
                Err(self.fail(&claimed, Self::POISON, &error.to_string()).await)
            }
            Err(WorkError::Permanent(error)) => {
                let text = error.to_string();
                Err(self.fail(&claimed, Failure::FAILED, &text).await)
            }
        }
    }

    /// Records the failure. The engine's release of the claim then has no effect, because it is
    /// sealed.
    async fn fail(&self, claimed: &Work, code: &'static str, text: &str) -> Ended {
        let failure = failure(code, text, &self.idempotency);
        match record(&self.idempotency, claimed, &failure).await {
            Ok(()) => Ended::Failed(code),
            Err(error) => Ended::Unrecorded(error),
        }
    }

    fn not_done<T>(&self, deliveries: u64, error: RunError<Ended, T>) -> Handled<T> {
        let later = Disposition::Requeue {
            delay: self.backoff.after(deliveries),
        };
        let lease = error.retry_after().unwrap_or_default();
        let (disposition, reason) = match error {
            RunError::InFlight(_) => {
                let delay = lease.clamp(IN_FLIGHT.0, IN_FLIGHT.1);
                (Disposition::Requeue { delay }, Reason::InFlight)
            }
            RunError::Conflict(_) => (Disposition::Reject, Reason::Conflict),
            RunError::Failed(failed) => {
                let code = failed.failure.code().to_owned();
                (Disposition::Reject, Reason::Failed { code })
            }
            RunError::Work(Ended::Failed(code)) => {
                let code = code.to_owned();
                (Disposition::Reject, Reason::Failed { code })
            }
            RunError::Work(Ended::Temporary(error)) => (later, Reason::Temporary(error)),
            RunError::Work(Ended::Unrecorded(source)) | RunError::NotStored { source, .. } => {
                (later, Reason::NotStored(source))
            }
            // The result is stored, so the work is done, even if this program cannot read its
            // value.
            RunError::Codec(error) => (Disposition::Ack, Reason::Unreadable(error)),
            RunError::Store(error) if error.kind() == ErrorKind::Corrupt => {
                (later, Reason::OutcomeUnknown(error))
            }
            RunError::Store(error) => (later, Reason::Store(error)),
            other => {
                let text = other.map_work(|ended| ended.to_string()).to_string();
                (later, Reason::Store(Error::corrupt(text)))
            }
        };
        Handled::not(disposition, reason)
    }
}

/// How work ended that was not sealed with a value.
enum Ended {
    Temporary(BoxError),
    Failed(&'static str),
    Unrecorded(Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temporary(error) => error.fmt(f),
            Self::Failed(code) => f.write_str(code),
            Self::Unrecorded(error) => error.fmt(f),
        }
    }
}
