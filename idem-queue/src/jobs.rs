//! [`Jobs`]: jobs that are enqueued once per intent and window.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use idem_core::engine::Handoff;
use idem_core::{
    ErrorKind, Failure, Idempotency, Metadata, Outcome, RecordInfo, Result, RunError, Work,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Enqueued, Intent, Ran, Ticket};

/// The entry of a record's metadata that holds the job's id.
const JOB: &str = "idem.job";

/// Prevents ghost jobs: jobs enqueued again by a second click, a client's retry, or a second tab.
/// The first call enqueues a job. Later calls receive its id while it waits, while it runs, and for
/// the window of the intent after it was done. A job that failed or was cancelled is no duplicate:
/// the next call enqueues another.
///
/// The window is the retention in the policy for the intent's name: see
/// [`Policy::ghost_job`](idem_core::Policy::ghost_job).
///
/// ```
/// use idem_core::key::Target;
/// use idem_core::{Idempotency, MemoryStore, Policy};
/// use idem_queue::{Enqueued, Intent, Jobs, Ran};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idem = Idempotency::new(MemoryStore::new()).with_operation_policy("build", Policy::build());
/// let jobs = Jobs::new(idem);
/// let intent = Intent::new("user-7", Target::Name("My  Project"), "build")?;
/// let push = async |_ticket| Ok::<_, std::io::Error>(()); // into the queue
/// let Enqueued::New(ticket) = jobs.enqueue(&intent, "job 1", push).await? else { panic!() };
/// let again = jobs.enqueue(&intent, "job 2", push).await?;
/// assert_eq!(again, Enqueued::Duplicate { job: "job 1".to_owned(), is_done: false });
///
/// let ran = jobs.run(&ticket, async |_work| Ok::<_, std::io::Error>("artifact 9".to_owned())).await?;
/// assert_eq!(ran, Ran::Done("artifact 9".to_owned()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Jobs {
    idempotency: Idempotency,
    longest_wait: Duration,
}

impl Jobs {
    /// The default longest wait: 10 minutes.
    pub const DEFAULT_LONGEST_WAIT: Duration = Duration::from_secs(600);

    /// Creates jobs under these policies.
    #[must_use]
    pub fn new(idempotency: Idempotency) -> Self {
        Self {
            idempotency,
            longest_wait: Self::DEFAULT_LONGEST_WAIT,
        }
    }

    /// Sets how long a job may wait in the queue before another may replace it. At most
    /// [`MAX_LEASE`](idem_core::limits::MAX_LEASE): [`enqueue`](Self::enqueue) refuses a longer
    /// wait. Default: 10 minutes.
    #[must_use]
    pub fn with_longest_wait(mut self, wait: Duration) -> Self {
        self.longest_wait = wait;
        self
    }

    /// Enqueues a job with this id, except when there is one for the same intent.
    ///
    /// `push` puts the ticket into the queue. A process killed before `push` blocks the intent for
    /// the policy's lease; one killed after it has enqueued a job.
    ///
    /// # Errors
    ///
    /// [`RunError::Work`] with the error of `push`, after which the intent is free; errors of the
    /// store.
    ///
    /// # Cancellation
    ///
    /// The intent is free. If the ticket was pushed, its job is superseded.
    pub async fn enqueue<E, F, Fut>(
        &self,
        intent: &Intent,
        job: &str,
        push: F,
    ) -> Result<Enqueued, RunError<E, ()>>
    where
        F: FnOnce(Ticket) -> Fut + Send,
        Fut: Future<Output = Result<(), E>> + Send,
    {
        let fingerprint = intent.fingerprint();
        let ticket = |claim| Ticket {
            job: job.to_owned(),
            claim,
            fingerprint,
        };
        let metadata = Metadata::new().with(JOB, job);
        let push = async |claim| push(ticket(claim)).await;
        let handed = self
            .idempotency
            .hand_off(intent.key(), fingerprint, metadata, self.longest_wait, push)
            .await;
        match handed {
            Ok(Handoff::New(claim)) => Ok(Enqueued::New(ticket(claim))),
            Ok(Handoff::Done(completed)) => Ok(duplicate(&completed.info, true)),
            Err(RunError::InFlight(in_flight)) => Ok(duplicate(&in_flight.info, false)),
            Err(RunError::Failed(failed)) if is_over(failed.failure.code()) => {
                Ok(duplicate(&failed.info, true))
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a job taken from the queue, and renews its claim meanwhile. After an error the job is
    /// no longer a duplicate.
    ///
    /// Work that writes rows ends with [`Work::commit`]: rows and result commit together.
    ///
    /// If the queue may deliver a message twice at the same time, put a
    /// [`Consumer`](crate::Consumer) around this call.
    ///
    /// # Errors
    ///
    /// As for [`Idempotency::run`].
    ///
    /// # Panics
    ///
    /// Panics when the work panics.
    pub async fn run<T, E, F, Fut>(
        &self,
        ticket: &Ticket,
        work: F,
    ) -> Result<Ran<T>, RunError<E, T>>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Display + Send,
        F: FnOnce(Work) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let run = self
            .idempotency
            .resume(&ticket.claim, ticket.fingerprint, work);
        match run.await.map(Outcome::into_inner) {
            Ok(value) => Ok(Ran::Done(value)),
            Err(RunError::Store(error)) if error.kind() == ErrorKind::ClaimLost => {
                Ok(Ran::Superseded)
            }
            Err(error) => Err(error),
        }
    }

    /// Cancels a job that has not begun. The job is no longer a duplicate, and its ticket is void.
    ///
    /// # Errors
    ///
    /// [`ClaimLost`](ErrorKind::ClaimLost) when the job is done or superseded; errors of the store.
    pub async fn cancel(&self, ticket: &Ticket) -> Result<()> {
        self.idempotency.store().release(&ticket.claim).await
    }
}

/// Returns whether the job was done, although its value was not stored.
fn is_over(code: &str) -> bool {
    code == Failure::NOT_STORED
}

fn duplicate(info: &RecordInfo, is_done: bool) -> Enqueued {
    Enqueued::Duplicate {
        job: info.metadata.get(JOB).unwrap_or_default().to_owned(),
        is_done,
    }
}
