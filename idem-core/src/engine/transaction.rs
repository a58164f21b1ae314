//! Runs whose rows and record commit in one transaction.

use std::any::Any;
use std::future::Future;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::also::first_key;
use super::codec::{Codec, Json, Raw};
use super::context::{Context, in_time};
use super::ending::Ending;
use super::observe::Decision;
use super::run::{after_error, cancelled, caught, encode, held, panicked};
use super::transactional::{Lent, Transactional, Tx, transaction_ended};
use super::wait::{Asking, Asks, Claimed, claim};
use super::waiting::OpenKey;
use super::{Exclusion, Idempotency, Outcome, Policy, RunError, Work};
use crate::backend::{LockedKeys, MAX_LOCK_WAIT, RetryPauses};
use crate::backoff::Backoff;
use crate::{
    BoxError, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, FailedPolicy, Failure,
    Fingerprint, Key, Record, Response, Result,
};

impl Idempotency {
    /// Runs the work in a transaction of the database that holds the records: the claim, the work's
    /// rows and its result commit together, or nothing does. This is exactly once.
    ///
    /// There is no lease: a process that is killed frees its key with its connection. An error, a
    /// panic or a dropped future rolls everything back; the policy decides whether a failure is
    /// then recorded. After a deadlock, a serialization failure or a lock that was not free in time
    /// the work runs again in a new transaction, with the same key, until the policy's
    /// [retry time-out](crate::Policy::with_retry_timeout) has passed; then the caller gets the
    /// first of these errors.
    ///
    /// A duplicate is answered without a transaction. One that meets the open transaction follows
    /// the policy ([`BusyPolicy`](crate::BusyPolicy)); when it is refused, that is
    /// [`RunError::Store`] with [`Contention`](ErrorKind::Contention).
    ///
    /// The work acts through its [`Tx`] alone: what it sends elsewhere is neither rolled back nor
    /// sent once only. Work that calls other systems first uses [`run`](Self::run) and
    /// [`Work::commit`].
    ///
    /// # Errors
    ///
    /// See [`RunError`]. After [`RunError::Work`] nothing is committed. [`RunError::NotStored`]
    /// says that the answer to the commit was lost, and that nobody could say what became of it.
    ///
    /// # Panics
    ///
    /// With the panic of the work, after the rollback.
    ///
    /// # Cancellation
    ///
    /// Nothing is committed, unless the commit was under way; then either all of it is or nothing.
    pub async fn run_in<X, R, T, F, Fut>(
        &self,
        transactions: &X,
        key: &Key,
        request: &R,
        work: F,
    ) -> Result<Outcome<T>, RunError<BoxError, T>>
    where
        X: Transactional,
        R: Serialize + Sync + ?Sized,
        T: Serialize + DeserializeOwned + Send,
        F: FnMut(Tx<X::Transaction>, Work) -> Fut + Send,
        Fut: Future<Output = Result<T, BoxError>> + Send,
    {
        let policy = self.policy_for(key);
        let fingerprint = Fingerprint::of_checked(request, |bytes| policy.check_request(bytes));
        let fingerprint = fingerprint.map_err(RunError::Store)?;
        self.run_with_in(transactions, key, fingerprint, work).await
    }

    /// Runs work in a transaction as [`run_in`](Self::run_in) does, for a request whose fingerprint is
    /// already known, or made in another way.
    ///
    /// # Errors
    ///
    /// As for [`run_in`](Self::run_in).
    ///
    /// # Panics
    ///
    /// As for [`run_in`](Self::run_in).
    ///
    /// # Cancellation
    ///
    /// As for [`run_in`](Self::run_in).
    pub async fn run_with_in<X, T, F, Fut>(
        &self,
        transactions: &X,
        key: &Key,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<T>, RunError<BoxError, T>>
    where
        X: Transactional,
        T: Serialize + DeserializeOwned + Send,
        F: FnMut(Tx<X::Transaction>, Work) -> Fut + Send,
        Fut: Future<Output = Result<T, BoxError>> + Send,
    {
        let context = self.context(key, self.policy_for(key));
        let context = context.map_err(RunError::Store)?;
        let run = run_in::<Json, _, _, _, _>(&context, transactions, key, fingerprint, work);
        context.observers.around(run).await
    }

    /// Runs work in a transaction as [`run_in`](Self::run_in) does, under this policy. The work makes
    /// a whole [`Response`], which is stored and replayed byte for byte: for HTTP and other edges.
    ///
    /// # Errors
    ///
    /// As for [`run_in`](Self::run_in), but never [`RunError::Codec`].
    ///
    /// # Panics
    ///
    /// As for [`run_in`](Self::run_in).
    ///
    /// # Cancellation
    ///
    /// As for [`run_in`](Self::run_in).
    pub async fn run_response_in<X, F, Fut>(
        &self,
        policy: Arc<Policy>,
        transactions: &X,
        key: &Key,
        fingerprint: Fingerprint,
        work: F,
    ) -> Result<Outcome<Response>, RunError<BoxError, Response>>
    where
        X: Transactional,
        F: FnMut(Tx<X::Transaction>, Work) -> Fut + Send,
        Fut: Future<Output = Result<Response, BoxError>> + Send,
    {
        let context = self.context(key, policy).map_err(RunError::Store)?;
        let run = run_in::<Raw, _, _, _, _>(&context, transactions, key, fingerprint, work);
        context.observers.around(run).await
    }
}

impl Work {
    /// Commits rows together with the result of this run: for work that calls other systems first,
    /// under the claim of [`run`](Idempotency::run). The work returns the value that this returns.
    ///
    /// The engine sends nothing afterwards. After a deadlock, a serialization failure or a lock
    /// that was not free in time, `body` runs again in a new transaction, until the policy's retry
    /// time-out has passed. Without a key the transaction just commits.
    ///
    /// # Errors
    ///
    /// Those of `body`; [`ClaimLost`](ErrorKind::ClaimLost) when another attempt has taken the key
    /// over. Nothing is committed then. An error of the store with an unknown effect says that the
    /// answer to the commit was lost, and that nobody could say what became of it.
    /// [`Misconfigured`](ErrorKind::Misconfigured) where the rows could be written twice: after
    /// such an error, after a commit that was dropped under way, and beside another commit.
    ///
    /// # Cancellation
    ///
    /// Nothing is committed, unless the commit was under way. Then either all of it is or nothing,
    /// and the engine refuses the work's next commit.
    pub async fn commit<X, T, F, Fut>(&self, transactions: &X, body: F) -> Result<T, BoxError>
    where
        X: Transactional,
        T: Serialize + DeserializeOwned + Send,
        F: FnMut(Tx<X::Transaction>) -> Fut + Send,
        Fut: Future<Output = Result<T, BoxError>> + Send,
    {
        self.commit_as::<Json, _, _, _, _>(transactions, body).await
    }

    /// Commits rows together with a whole [`Response`], as [`commit`](Self::commit) does with a
    /// value: for runs of [`run_response`](Idempotency::run_response), which HTTP layers make.
    ///
    /// # Errors
    ///
    /// As for [`commit`](Self::commit).
    ///
    /// # Cancellation
    ///
    /// As for [`commit`](Self::commit).
    pub async fn commit_response<X, F, Fut>(
        &self,
        transactions: &X,
        body: F,
    ) -> Result<Response, BoxError>
    where
        X: Transactional,
        F: FnMut(Tx<X::Transaction>) -> Fut + Send,
        Fut: Future<Output = Result<Response, BoxError>> + Send,
    {
        self.commit_as::<Raw, _, _, _, _>(transactions, body).await
    }

    /// Returns the result that [`commit`](Self::commit) has committed: later callers get it, whatever
    /// the work returns. `None` before.
    #[must_use]
    pub fn committed(&self) -> Option<&Response> {
        self.lease()?.sealed()
    }

    pub(super) async fn commit_as<C, X, T, F, Fut>(
        &self,
        transactions: &X,
        mut body: F,
    ) -> Result<T, BoxError>
    where
        C: Codec<T>,
        X: Transactional,
        T: Send,
        F: FnMut(Tx<X::Transaction>) -> Fut + Send,
        Fut: Future<Output = Result<T, BoxError>> + Send,
    {
        if self.is_in_transaction() {
            let message = "the work runs in a transaction already; write the rows there";
            return Err(misused(message).into());
        }
        let lease = self.lease();
        let mut commit = None;
        if let Some(lease) = lease {
            is_of_the_store(&lease.context, transactions)?;
            if lease.sealed().is_some() {
                return Err(misused("the work has committed its result already").into());
            }
            let message = "another commit of the work is under way, or may have taken effect";
            commit = Some(lease.begin_commit().ok_or_else(|| misused(message))?);
        }
        let mut may_count = |may| commit.iter_mut().for_each(|it| it.may_count = may);
        let limit = lease.map(|lease| lease.context.policy.retry_timeout());
        let mut repeats = Repeats::new(limit.unwrap_or(Policy::DEFAULT_RETRY_TIMEOUT));
        loop {
            let begun = transactions.begin().await;
            let worked = match begun {
                Ok(begun) => worked(transactions, begun, &mut body).await,
                Err(error) => Err(Stopped::Failed(error.into())),
            };
            let ended = match worked {
                Ok((transaction, value)) => match lease {
                    Some(lease) => {
                        let (context, claim) = (&lease.context, lease.claim());
                        let response = encoded::<C, T>(context, &value);
                        may_count(true);
                        let sealed = committed(
                            context,
                            transactions,
                            transaction,
                            Hold::Claim(&claim),
                            response,
                        );
                        sealed.await.map(|response| (value, Some(response)))
                    }
                    None => match transactions.commit(transaction).await {
                        Ok(()) => Ok((value, None)),
                        Err(error) => Err(NotCommitted::Unknown(error)),
                    },
                },
                Err(Stopped::Panicked(panic)) => resume_unwind(panic),
                Err(Stopped::Failed(error)) => Err(NotCommitted::RolledBack(error)),
            };
            match ended {
                Ok((value, response)) => {
                    if let (Some(lease), Some(response)) = (lease, response) {
                        lease.set_sealed(response);
                    }
                    return Ok(value);
                }
                Err(NotCommitted::Unknown(error)) => return Err(error.into()),
                Err(NotCommitted::RolledBack(error)) => {
                    may_count(false);
                    repeats.after(transactions, error).await?;
                }
            }
        }
    }
}

/// Claims, works, seals and commits, until nothing gets in the way.
pub(super) async fn run_in<C, X, T, F, Fut>(
    context: &Context,
    transactions: &X,
    key: &Key,
    fingerprint: Fingerprint,
    mut work: F,
) -> Result<Outcome<T>, RunError<BoxError, T>>
where
    C: Codec<T>,
    X: Transactional,
    T: Send,
    F: FnMut(Tx<X::Transaction>, Work) -> Fut + Send,
    Fut: Future<Output = Result<T, BoxError>> + Send,
{
    is_of_the_store(context, transactions).map_err(RunError::Store)?;
    let mut request = context.policy.request(key.clone(), fingerprint);
    let mut repeats = Repeats::new(context.policy.retry_timeout());
    loop {
        let mut asking = Asking::new(context, &request, InTransaction(transactions));
        let claimed = asking.run(Instant::now()).await;
        if let Ok(Claimed::Failed(failed)) = &claimed
            && let Some(first) = first_key(failed).filter(|first| first != request.key())
        {
            request = context.policy.request(first, fingerprint);
            continue;
        }
        if repeats.first.is_none() {
            let decision = claimed.as_ref().map(|it| it.decision(Open::is_takeover));
            let decision = decision.unwrap_or(Decision::Unknown);
            context.observers.decided(request.key(), decision);
        }
        let open = match held::<C, _, _, _>(claimed) {
            ControlFlow::Continue(open) => open,
            ControlFlow::Break(answer) => return answer,
        };
        let on_drop = OnDrop {
            context,
            request: Some(&request),
        };
        let handle = Work::in_transaction(request.key().clone());
        let worked = worked(transactions, open.transaction, |tx| work(tx, handle)).await;
        on_drop.disarmed();
        let error = match worked {
            Ok((transaction, value)) => {
                let response = encoded::<C, T>(context, &value);
                let hold = open
                    .claim
                    .as_ref()
                    .map_or(Hold::Lock(&request), Hold::Claim);
                match committed(context, transactions, transaction, hold, response).await {
                    Ok(_) => {
                        context.observers.sealed(request.key(), None);
                        return Ok(Outcome::Fresh(value));
                    }
                    Err(NotCommitted::Unknown(source)) => {
                        return Err(RunError::NotStored { value, source });
                    }
                    // Nobody else can take over a claim that is not committed.
                    Err(NotCommitted::RolledBack(error))
                        if error.downcast_ref().is_some_and(Error::is_claim_lost) =>
                    {
                        transaction_ended(Effect::None).with_source(error).into()
                    }
                    Err(NotCommitted::RolledBack(error)) => error,
                }
            }
            Err(Stopped::Failed(error)) => error,
            Err(Stopped::Panicked(panic)) => {
                drop(open.key);
                let ending = Ending::interrupted(context.policy.on_panic(), panicked);
                record(context, &request, ending).await;
                resume_unwind(panic)
            }
        };
        drop(open.key);
        if let Err(error) = repeats.after(transactions, error).await {
            // Another process may have committed the key, and so have made the work fail.
            if context.policy.exclusion() == Exclusion::Optimistic
                && is_taken(context, transactions, &request).await
            {
                continue;
            }
            record(context, &request, after_error(context, &error)).await;
            return Err(RunError::Work(error));
        }
    }
}

/// A claim that was taken in an open transaction.
struct Open<T> {
    transaction: T,
    /// `None` where the transaction holds the key by a lock.
    claim: Option<Claim>,
    /// Keeps other runs of this process away, and wakes them at the end.
    key: OpenKey,
}

impl<T> Open<T> {
    fn is_takeover(&self) -> bool {
        self.claim.as_ref().is_some_and(Claim::is_takeover)
    }
}

/// Looks the key up, and claims it in a transaction if it may be free.
struct InTransaction<'x, X>(&'x X);

impl<X: Transactional> Asks for InTransaction<'_, X> {
    type Held = Open<X::Transaction>;

    async fn ask(
        &self,
        context: &Context,
        request: &ClaimRequest,
        _: Instant,
    ) -> Result<Claimed<Self::Held>> {
        let key = context.shared.waiting.begin(request.key());
        let key = key.ok_or_else(LockedKeys::error)?;
        let Self(transactions) = self;
        let exclusion = context.policy.exclusion();
        let found = transactions.look_up(context.store(), request.key(), exclusion);
        match found.await? {
            Some(record) => {
                if let Some(lost) = lost(record, request) {
                    return Ok(lost);
                }
            }
            None => match transactions.begin_for(request, exclusion).await {
                Ok(Some(transaction)) => {
                    return Ok(Claimed::Held(Open {
                        transaction,
                        claim: None,
                        key,
                    }));
                }
                Ok(None) => {}
                Err(error) => {
                    let found = match error.kind() {
                        ErrorKind::Contention => context.store().get(request.key()).await?,
                        _ => None,
                    };
                    return found.and_then(|it| lost(it, request)).ok_or(error);
                }
            },
        }
        let mut transaction = transactions.begin().await?;
        match transactions
            .claim(&mut transaction, request)
            .await
            .map(Claimed::lost)
        {
            Ok(Err(claim)) => Ok(Claimed::Held(Open {
                transaction,
                claim: Some(claim),
                key,
            })),
            // The claim may have failed an abandoned record, which has to stay so.
            Ok(Ok(lost @ Claimed::Failed(_))) => {
                transactions.commit(transaction).await?;
                Ok(lost)
            }
            Ok(Ok(lost)) => {
                transactions.roll_back(transaction).await;
                Ok(lost)
            }
            Err(error) => {
                transactions.roll_back(transaction).await;
                Err(error.with_effect(Effect::None))
            }
        }
    }

    fn contended(&self, retry_timeout: Duration) -> Duration {
        retry_timeout.min(MAX_LOCK_WAIT)
    }
}

/// Returns the answer that a committed record gives, unless a claim may acquire it or has to fail
/// it.
fn lost<H>(record: Record, request: &ClaimRequest) -> Option<Claimed<H>> {
    let own = record.info().fingerprint;
    let fingerprint = match own.is_unknown() {
        true => own,
        false => *request.fingerprint(),
    };
    let outcome = ClaimOutcome::from_record(record, &fingerprint);
    match &outcome {
        ClaimOutcome::InFlight(held) if held.is_stale() => None,
        ClaimOutcome::Failed(_) if request.on_failed() == FailedPolicy::Retry => None,
        _ => Claimed::lost(outcome).ok(),
    }
}

/// Returns whether a committed record answers the request.
async fn is_taken<X: Transactional>(
    context: &Context,
    transactions: &X,
    request: &ClaimRequest,
) -> bool {
    let found = transactions.look_up(context.store(), request.key(), Exclusion::Optimistic);
    let record = found.await.ok().flatten();
    record.is_some_and(|record| lost::<()>(record, request).is_some())
}

/// Why work in a transaction gave no value. The transaction is rolled back.
enum Stopped {
    Failed(BoxError),
    Panicked(Box<dyn Any + Send>),
}

/// Lends the transaction to the work, and returns it with the work's value.
async fn worked<X, T, F, Fut>(
    transactions: &X,
    transaction: X::Transaction,
    work: F,
) -> Result<(X::Transaction, T), Stopped>
where
    X: Transactional,
    F: FnOnce(Tx<X::Transaction>) -> Fut + Send,
    Fut: Future<Output = Result<T, BoxError>> + Send,
{
    let lent = Lent::new(transaction);
    let worked = match lent.lend() {
        Some(tx) => caught(work, tx).await,
        None => Ok(Err(misused("the transaction is in use").into())),
    };
    let transaction = lent.take();
    match (worked, transaction) {
        (Ok(Ok(value)), Some(transaction)) => Ok((transaction, value)),
        (Ok(Ok(_)), None) => {
            let message =
                "the work has returned, and a task that it spawned still uses its transaction";
            Err(Stopped::Failed(misused(message).into()))
        }
        (worked, transaction) => {
            if let Some(transaction) = transaction {
                transactions.roll_back(transaction).await;
            }
            Err(match worked {
                Ok(Ok(_)) => Stopped::Failed("".into()),
                Ok(Err(error)) => Stopped::Failed(error),
                Err(panic) => Stopped::Panicked(panic),
            })
        }
    }
}

/// Why a transaction is not known to be committed.
enum NotCommitted {
    /// Nothing is committed.
    RolledBack(BoxError),
    /// The answer was lost, and nobody could say what became of it.
    Unknown(Error),
}

fn encoded<C: Codec<T>, T>(context: &Context, value: &T) -> Result<Response> {
    encode::<C, T>(value, &context.policy.limits(context.store().limits()))
}

/// How an open transaction holds its key.
#[derive(Clone, Copy)]
enum Hold<'r> {
    Claim(&'r Claim),
    Lock(&'r ClaimRequest),
}

/// Seals the claim with the response, and commits. Returns the response.
async fn committed<X: Transactional>(
    context: &Context,
    transactions: &X,
    mut transaction: X::Transaction,
    hold: Hold<'_>,
    response: Result<Response>,
) -> Result<Response, NotCommitted> {
    let policy = &context.policy;
    let seal = async {
        let response = response?;
        let tx = &mut transaction;
        let claim = match hold {
            Hold::Claim(claim) => {
                let sealed = transactions.seal(tx, claim, &response, policy.retention());
                sealed.await.map(|()| claim.clone())
            }
            Hold::Lock(request) => {
                let inserted = transactions.insert(tx, request, &response, policy.retention());
                inserted.await?.ok_or_else(overtaken)
            }
        };
        Ok((claim?, response))
    };
    let sealed = in_time(policy.try_limit(), "seal", seal).await;
    let (claim, response) = match sealed {
        Ok(sealed) => sealed,
        Err(error) => {
            transactions.roll_back(transaction).await;
            fail_if_ended(context, hold, &error).await;
            return Err(NotCommitted::RolledBack(error.into()));
        }
    };
    let sent = Instant::now();
    let commit = transactions.commit(transaction);
    match in_time(policy.try_limit(), "commit", commit).await {
        Ok(()) => Ok(response),
        Err(error) if error.effect() == Effect::None || is_ended(&error) => {
            fail_if_ended(context, hold, &error).await;
            Err(NotCommitted::RolledBack(error.into()))
        }
        Err(error) => match is_committed(context, &claim, sent).await {
            Some(true) => Ok(response),
            Some(false) => Err(NotCommitted::RolledBack(
                error.with_effect(Effect::None).into(),
            )),
            None => Err(NotCommitted::Unknown(error)),
        },
    }
}

fn is_ended(error: &Error) -> bool {
    error.kind() == ErrorKind::Misconfigured && error.effect() == Effect::Unknown
}

/// Fails a claim that the work may have committed with some of its rows, which a later call must
/// not repeat.
async fn fail_if_ended(context: &Context, hold: Hold<'_>, error: &Error) {
    if !is_ended(error) {
        return;
    }
    let failure = Failure::new(Failure::NOT_STORED, error.to_string());
    let policy = &context.policy;
    match hold {
        Hold::Lock(request) => record(context, request, Ending::Fail(failure)).await,
        Hold::Claim(claim) => {
            let failed = context
                .store()
                .fail(claim, &failure, policy.failure_retention());
            // Otherwise the claim was rolled back, or ends with its lease; the caller needs the error.
            let _ = in_time(policy.try_limit(), "fail", failed).await;
        }
    }
}

/// Finds out whether a transaction has committed that has sealed this claim; `None` where nobody
/// can say so in time.
///
/// A renewal waits for the lock that the transaction holds until it has ended. When it succeeds, or
/// finds no claim, nothing was sealed. When the claim is sealed, the record tells by which attempt.
async fn is_committed(context: &Context, claim: &Claim, sent: Instant) -> Option<bool> {
    let policy = &context.policy;
    let mut backoff = Backoff::new(policy.seal_limit());
    loop {
        let renewal = context.store().renew(claim, policy.lease());
        let error = match in_time(policy.try_limit(), "renew", renewal).await {
            Ok(_) => return Some(false),
            Err(error) if error.is_claim_lost() => {
                let record = context.store().get(claim.key());
                match in_time(policy.try_limit(), "get", record).await {
                    // The record may have expired since.
                    Ok(None) if sent.elapsed() >= policy.retention() => return None,
                    Ok(record) => {
                        let is_own = |record| matches!(record, Record::Completed(it) if it.info.token == claim.token());
                        return Some(record.is_some_and(is_own));
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        context.observers.retried(claim.key(), "renew", &error);
        if !backoff.pause().await {
            return None;
        }
    }
}

/// Decides whether a transaction is repeated as a whole.
struct Repeats {
    pauses: RetryPauses,
    /// The first error that called for it: it says most.
    first: Option<BoxError>,
}

impl Repeats {
    fn new(limit: Duration) -> Self {
        Self {
            pauses: RetryPauses::new(limit),
            first: None,
        }
    }

    /// Pauses after an error that calls for another try.
    ///
    /// # Errors
    ///
    /// Any other error; the first one when the time is up.
    async fn after<X: Transactional>(
        &mut self,
        transactions: &X,
        error: BoxError,
    ) -> Result<(), BoxError> {
        let own = error.downcast_ref::<Error>();
        if !own.is_some_and(Error::is_retryable) && !transactions.is_retryable(&*error) {
            return Err(error);
        }
        self.first.get_or_insert(error);
        match self.pauses.wait().await {
            true => Ok(()),
            false => Err(self.first.take().unwrap_or_else(|| "".into())),
        }
    }
}

/// Records a failure after the rollback, where the policy wants it.
async fn record(context: &Context, request: &ClaimRequest, ending: Ending) {
    if let Ending::Fail(_) = ending {
        // Another attempt of its own: the one of the transaction is gone.
        let request = context
            .policy
            .request(request.key().clone(), *request.fingerprint());
        if let Ok(Claimed::Held(held)) = claim(context, &request).await {
            // If this fails, the key is free after a lease; the caller needs the work's error.
            let _ = held.settle(ending).await;
        }
    }
}

/// Records that the caller went away, where the policy wants it.
struct OnDrop<'r> {
    context: &'r Context,
    request: Option<&'r ClaimRequest>,
}

impl OnDrop<'_> {
    fn disarmed(mut self) {
        self.request = None;
    }
}

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.cloned() else {
            return;
        };
        let ending = Ending::interrupted(self.context.policy.on_cancel(), cancelled);
        if let Ending::Fail(_) = ending {
            let context = self.context.clone();
            let record = async move { record(&context, &request, ending).await };
            self.context
                .runtime
                .spawn(self.context.observers.around(record));
        }
    }
}

/// Refuses transactions of another store: its rows and this store's records would not commit
/// together.
fn is_of_the_store<X: Transactional>(context: &Context, transactions: &X) -> Result<()> {
    if transactions.is_of(context.store()) {
        return Ok(());
    }
    Err(misused(
        "the transactions were made from another store than the engine's; make both from clones of one store, \
         and not from a wrapper around it",
    ))
}

/// Returns the error of a transaction whose key got a record meanwhile: the next lookup finds it.
fn overtaken() -> Error {
    let message = "another caller has completed the key meanwhile";
    Error::new(ErrorKind::Contention, Effect::None, message)
}

fn misused(message: &'static str) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}
