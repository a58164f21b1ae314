//! Operations in a caller's transaction, and transactions that are repeated as a whole.

use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_core::backend::{FinalResult, RetryPauses};
use idem_core::engine::{Transactional, as_store, transaction_ended};
use idem_core::{
    Advance, BoxError, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, IdempotencyStore, Key, Response, Result,
};
use mongodb::bson::doc;
use mongodb::error::{Error as MongoError, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::{ReadConcern, ReadPreference, SelectionCriteria, TransactionOptions};
use mongodb::{Client, ClientSession};
use tokio::time::Instant;

use crate::config::{Durability, MAX_TIMEOUT};
use crate::error::{Access, classify, is_transaction_retryable, no_transactions};
use crate::session::Session;
use crate::store::{BACKEND, MongoStore};

/// The record and the caller's own documents commit together: the only true exactly-once. MongoDB
/// has transactions on replica sets (also of one member) and sharded clusters; elsewhere beginning
/// one returns `Misconfigured`.
///
/// There are two ways:
///
/// * Claim outside, and run only [`complete_in`](Self::complete_in) in the transaction that writes
///   the business documents. Other callers see the key in flight while the work runs.
/// * Run both [`claim_in`](Self::claim_in) and `complete_in` in it. Other claims of the key get
///   `Contention` within about 0.3 s, or the outcome by the committed record. An abort leaves no
///   trace of the claim.
///
/// Start a transaction on the session before the first of these calls; without one each statement
/// commits by itself. The read and write concern are the transaction's, so start it with `snapshot`
/// or `majority` and a majority write concern, as [`Transactions`] does. An error of the server
/// fails the transaction, a lost race with `Contention`: abort it and repeat it as a whole, with
/// the same key.
impl MongoStore {
    /// Runs [`claim`](idem_core::IdempotencyStore::claim) in the transaction of the caller's
    /// session.
    ///
    /// # Errors
    ///
    /// As for `claim`; also `Contention` when the key was claimed after the transaction's snapshot
    /// was taken, and `Misconfigured` on a deployment without transactions.
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: abort it.
    pub async fn claim_in(
        &self,
        session: &mut ClientSession,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        self.operations.estimator.always_expect(request.key());
        let at = |error: Error| error.at(BACKEND, "claim_in");
        let mut session = self.session_in(session).await.map_err(at)?;
        self.operations
            .claim(&mut session, request)
            .await
            .map_err(at)
    }

    /// Runs [`complete`](idem_core::IdempotencyStore::complete) in the transaction of the caller's
    /// session. When it returns `ClaimLost`, abort: another attempt does the work.
    ///
    /// A commit without an answer may have taken effect. Claim again before you repeat such a
    /// transaction. With the claim of before, this method finds the same result and returns `Ok`, so
    /// your documents would be committed twice.
    ///
    /// # Errors
    ///
    /// As for `complete`, and as for [`claim_in`](Self::claim_in).
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: abort it.
    pub async fn complete_in(
        &self,
        session: &mut ClientSession,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        self.operations.estimator.always_expect(claim.key());
        let at = |error: Error| error.at(BACKEND, "complete_in");
        let limits = self.operations.config.limits();
        let result = FinalResult::completed(response, retention, &limits).map_err(at)?;
        let mut session = self.session_in(session).await.map_err(at)?;
        self.operations
            .finish(&mut session, claim, &result)
            .await
            .map_err(at)
    }

    /// Runs [`fail`](idem_core::IdempotencyStore::fail) in the transaction of the caller's session.
    ///
    /// # Errors
    ///
    /// As for `fail`, and as for [`claim_in`](Self::claim_in).
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: abort it.
    pub async fn fail_in(
        &self,
        session: &mut ClientSession,
        claim: &Claim,
        failure: &Failure,
        retention: Duration,
    ) -> Result<()> {
        self.operations.estimator.always_expect(claim.key());
        let at = |error: Error| error.at(BACKEND, "fail_in");
        let limits = self.operations.config.limits();
        let result = FinalResult::failed(failure, retention, &limits).map_err(at)?;
        let mut session = self.session_in(session).await.map_err(at)?;
        self.operations
            .finish(&mut session, claim, &result)
            .await
            .map_err(at)
    }

    /// Runs [`checkpoint`](idem_core::CheckpointStore::checkpoint) in the transaction of the
    /// caller's session: the step's own documents and the checkpoint commit together. When it
    /// returns `ClaimLost`, abort: another attempt does the work.
    ///
    /// # Errors
    ///
    /// As for `checkpoint`, and as for [`claim_in`](Self::claim_in).
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: abort it.
    pub async fn checkpoint_in(
        &self,
        session: &mut ClientSession,
        claim: &Claim,
        checkpoint: &Checkpoint,
    ) -> Result<()> {
        self.operations.estimator.always_expect(claim.key());
        let at = |error: Error| error.at(BACKEND, "checkpoint_in");
        let stored = self.operations.encoded_checkpoint(checkpoint).map_err(at)?;
        let mut session = self.session_in(session).await.map_err(at)?;
        self.operations
            .checkpoint(&mut session, claim, &stored)
            .await
            .map_err(at)
    }

    /// Runs [`advance`](idem_core::WatermarkStore::advance) in the transaction of the caller's
    /// session.
    ///
    /// # Errors
    ///
    /// As for `advance`, and as for [`claim_in`](Self::claim_in).
    ///
    /// # Cancellation
    ///
    /// The transaction is in an unknown state: abort it.
    pub async fn advance_in(
        &self,
        session: &mut ClientSession,
        source: &Key,
        version: u64,
        retention: Duration,
    ) -> Result<Advance> {
        let at = |error: Error| error.at(BACKEND, "advance_in");
        let mut session = self.session_in(session).await.map_err(at)?;
        self.operations
            .advance(&mut session, source, version, retention)
            .await
            .map_err(at)
    }

    /// Returns whether the deployment has transactions.
    pub(crate) async fn has_transactions(&self) -> Result<bool> {
        knows_transactions(self.client(), &self.operations.has_transactions).await
    }

    async fn session_in<'t>(&self, session: &'t mut ClientSession) -> Result<Session<'t>> {
        let operations = &self.operations;
        has_transactions(self.client(), &operations.has_transactions).await?;
        Ok(Session::in_transaction(session, &operations.config))
    }
}

/// Refuses a deployment without transactions; checks with the server once. The driver begins a
/// transaction on any deployment. A server without transactions refuses only its first statement,
/// with a message about retryable writes.
async fn has_transactions(client: &Client, known: &AtomicBool) -> Result<()> {
    match knows_transactions(client, known).await? {
        true => Ok(()),
        false => Err(no_transactions()),
    }
}

/// Returns whether the deployment has transactions.
async fn knows_transactions(client: &Client, known: &AtomicBool) -> Result<bool> {
    if known.load(Ordering::Relaxed) {
        return Ok(true);
    }
    let admin = client.database("admin");
    let hello = tokio::spawn(async move { admin.run_command(doc! { "hello": 1 }).await });
    let hello = hello.await.map_err(task_failed)?;
    let hello = hello.map_err(|error| classify(error, Access::Read))?;
    let has_transactions = crate::inspect::has_transactions(&hello);
    known.fetch_or(has_transactions, Ordering::Relaxed);
    Ok(has_transactions)
}

/// Runs transactions, and repeats each as a whole after an error with the label
/// `TransientTransactionError`, such as a write conflict (112).
#[derive(Debug, Clone)]
pub struct Transactions {
    store: MongoStore,
    durability: Durability,
    limit: Duration,
}

impl Transactions {
    /// Creates transactions of the store's client: on a snapshot, with the store's durability, each
    /// repeated for at most 10 s.
    #[must_use]
    pub fn new(store: &MongoStore) -> Self {
        Self {
            store: store.clone(),
            durability: store.operations.config.durability(),
            limit: Duration::from_secs(10),
        }
    }

    /// Sets the durability of a commit.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets for how long a transaction is repeated; at most a day.
    #[must_use]
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit.min(MAX_TIMEOUT);
        self
    }

    fn options(&self) -> TransactionOptions {
        TransactionOptions::builder()
            .read_concern(ReadConcern::snapshot())
            .write_concern(self.durability.write_concern(self.limit))
            .selection_criteria(SelectionCriteria::ReadPreference(ReadPreference::Primary))
            .build()
    }

    /// Returns a transaction to repeat until it commits, with a deadline and a growing pause.
    ///
    /// ```no_run
    /// # async fn pay(store: &idem_mongo::MongoStore, request: &idem_core::ClaimRequest)
    /// #     -> Result<idem_core::ClaimOutcome, idem_core::BoxError> {
    /// # async fn work(_: &mut mongodb::ClientSession) -> Result<idem_core::ClaimOutcome, idem_core::BoxError> { Err("…".into()) }
    /// let transactions = idem_mongo::Transactions::new(store);
    /// let mut attempts = transactions.attempts();
    /// loop {
    ///     let mut session = attempts.begin().await?;
    ///     let result = work(&mut session).await; // claim_in, the business documents, complete_in
    ///     if let Some(result) = attempts.finish(session, result).await {
    ///         return result;
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// The work writes only through its session, and uses one key: after a commit whose answer was
    /// lost the caller runs it again and meets the record.
    #[must_use]
    pub fn attempts(&self) -> TransactionRetry {
        TransactionRetry {
            transactions: self.clone(),
            pauses: RetryPauses::new(self.limit),
        }
    }

    async fn begun(&self) -> Result<ClientSession> {
        let at = |error: Error| error.at(BACKEND, "begin");
        let (client, options) = (self.store.client().clone(), self.options());
        has_transactions(&client, &self.store.operations.has_transactions)
            .await
            .map_err(at)?;
        let begun = tokio::spawn(async move {
            let mut session = client.start_session().await?;
            session.start_transaction().with_options(options).await?;
            Ok::<_, MongoError>(session)
        });
        let begun = begun.await.map_err(|failed| at(task_failed(failed)))?;
        begun.map_err(|error| at(classify(error, Access::Read)))
    }
}

impl Transactional for Transactions {
    type Transaction = ClientSession;

    fn is_of(&self, store: &dyn IdempotencyStore) -> bool {
        as_store::<MongoStore>(store)
            .is_some_and(|store| Arc::ptr_eq(&store.operations, &self.store.operations))
    }

    async fn begin(&self) -> Result<ClientSession> {
        self.begun().await
    }

    async fn claim(
        &self,
        session: &mut ClientSession,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        self.store.claim_in(session, request).await
    }

    async fn seal(
        &self,
        session: &mut ClientSession,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        // The driver refuses to start a transaction in an open one, without a message to the server.
        if session.start_transaction().await.is_ok() {
            let _ = session.abort_transaction().await;
            return Err(transaction_ended(Effect::Unknown).at(BACKEND, "complete_in"));
        }
        self.store
            .complete_in(session, claim, response, retention)
            .await
    }

    async fn commit(&self, session: ClientSession) -> Result<()> {
        let committed = commit(session, Instant::now() + self.limit).await;
        committed.map_err(|error| error.at(BACKEND, "commit"))
    }

    async fn roll_back(&self, session: ClientSession) {
        abort(session).await;
    }

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}

/// The caller does not need the error of a failed abort: the server aborts the transaction then.
async fn abort(mut session: ClientSession) {
    let _ = tokio::spawn(async move { session.abort_transaction().await }).await;
}

const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// The attempts at one transaction: see [`Transactions::attempts`].
#[derive(Debug)]
pub struct TransactionRetry {
    transactions: Transactions,
    pauses: RetryPauses,
}

impl TransactionRetry {
    /// Returns a session with a started transaction, for the first or the next attempt.
    ///
    /// # Errors
    ///
    /// `Misconfigured` on a deployment without transactions (a standalone server); `Unavailable`.
    ///
    /// # Cancellation
    ///
    /// Nothing is left open.
    pub async fn begin(&mut self) -> Result<ClientSession> {
        self.transactions.begun().await
    }

    /// Commits if the result is `Ok` and aborts otherwise. Returns `None`, after a pause, when a
    /// concurrent transaction interfered and the limit has not passed: begin again.
    ///
    /// # Errors
    ///
    /// The errors of the work and of the commit; once the limit has passed, the last repeatable
    /// one.
    ///
    /// # Cancellation
    ///
    /// The transaction is aborted, except when the commit was under way, which then goes on.
    pub async fn finish<T, E: Into<BoxError>>(
        &mut self,
        session: ClientSession,
        result: Result<T, E>,
    ) -> Option<Result<T, BoxError>> {
        let result = match result.map_err(Into::into) {
            Ok(value) => match commit(session, self.pauses.deadline()).await {
                Ok(()) => Ok(value),
                Err(error) => Err(error.at(BACKEND, "commit").into()),
            },
            Err(error) => {
                abort(session).await;
                Err(error)
            }
        };
        self.pauses.settle(result, is_transaction_retryable).await
    }
}

/// Repeats a commit with an unknown outcome; the server recognizes it as the same one.
async fn commit(mut session: ClientSession, deadline: Instant) -> Result<()> {
    let committing = tokio::spawn(async move {
        loop {
            match session.commit_transaction().await {
                Err(error)
                    if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT)
                        && Instant::now() < deadline =>
                {
                    tokio::time::sleep(FIRST_PAUSE).await;
                }
                done => return done,
            }
        }
    });
    let committed = committing.await.map_err(task_failed)?;
    committed.map_err(|error| classify(error, Access::Write))
}

fn task_failed(failed: tokio::task::JoinError) -> Error {
    let ended = "the driver's task ended early";
    Error::new(ErrorKind::Other, Effect::Unknown, ended).with_source(failed)
}
