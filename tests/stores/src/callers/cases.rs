//! The cases of every driver: the record and the application's rows commit together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use idem_conformance::cancel::{MOST_POLLS, polled};
use idem_conformance::proxy::Proxy;
use idem_conformance::{
    CallerTransaction, Case, CaseError, CaseResult, Context, Promise, described,
};
use idem_core::{
    Advance, BoxError, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, IdempotencyStore, Record, Response,
};
use tokio::task::{JoinSet, yield_now};

use super::{Begun, Caller, InTransaction, Level, Opens, Work, opens};

const HOUR: Duration = Duration::from_secs(3600);

/// How long a payment is repeated. A server may take seconds to notice that a client is gone, whose
/// transaction holds the key.
const LIMIT: Duration = Duration::from_secs(60);

/// Makes the list of cases.
macro_rules! cases {
    ($list:ident, $(law $law:literal $name:ident $([$($need:ident),+])?,)+) => {
        /// The cases.
        pub const $list: &[Case] = &[$(Case {
            law: $law,
            name: stringify!($name),
            needs: &[Promise::Transactions, $($(Promise::$need),+)?],
            expensive: false,
            run: |cx| Box::pin($name(cx)),
        }),+];
    };
}
pub(super) use cases;

cases! {
    CASES,
    law 1 a_claim_in_a_transaction_is_told_the_same,
    law 1 transactions_are_repeated_as_a_whole,
    law 1 serializable_transactions_are_repeated_as_a_whole,
    law 5 a_lost_claim_rolls_the_row_back,
    law 12 record_and_row_commit_together,
    law 12 a_rollback_leaves_neither_record_nor_row,
    law 12 a_savepoint_takes_its_claim_back,
    law 12 an_error_of_the_application_leaves_nothing,
    law 12 the_transactions_own_wait_for_locks_is_unchanged,
    law 12 every_step_in_a_transaction_commits_or_does_not,
    law 13 a_transaction_dropped_at_any_poll_is_not_left_open,
    law 13 a_claim_dropped_before_its_refusal_costs_no_connection [Network],
    law 14 a_connection_lost_at_any_message_leaves_record_and_row_together [Network],
}

/// An application, and what it has committed.
pub(super) struct Shop {
    pub(super) opens: Arc<dyn Opens>,
    namespace: String,
    pub(super) caller: Arc<dyn Caller>,
}

impl Shop {
    pub(super) async fn open(cx: &Context, connections: usize) -> CaseResult<Self> {
        let opens = opens(cx)?;
        let caller = opens.open(cx.namespace(), None, connections).await?;
        let namespace = cx.namespace().to_owned();
        Ok(Self {
            opens,
            namespace,
            caller,
        })
    }

    fn begin(&self) -> Box<Begun> {
        Box::new(Begun::begin(Arc::clone(&self.caller), Level::Default))
    }

    pub(super) async fn paid(&self, id: &str) -> CaseResult<i64> {
        Ok(self.opens.paid(&self.namespace, id).await?)
    }
}

/// Claims, pays and completes; pays nothing for a duplicate.
struct PayOnce<'r> {
    request: &'r ClaimRequest,
    outcome: Option<ClaimOutcome>,
}

#[async_trait]
impl Work for PayOnce<'_> {
    /// Yields after each step: a caller that counts polls can drop it there, however fast the answers
    /// come.
    async fn run(&mut self, transaction: &mut dyn InTransaction) -> Result<(), BoxError> {
        let outcome = transaction.claim(self.request).await?;
        yield_now().await;
        if let ClaimOutcome::Acquired(claim) = &outcome {
            transaction.pay(self.request.key().id()).await?;
            yield_now().await;
            let response = Response::new(201, "paid");
            transaction.complete(claim, &response, HOUR).await?;
            yield_now().await;
        }
        self.outcome = Some(outcome);
        Ok(())
    }
}

/// Runs the payment in one transaction.
async fn pay_at_once(
    caller: &dyn Caller,
    level: Level,
    request: &ClaimRequest,
) -> Result<ClaimOutcome, BoxError> {
    let mut work = PayOnce {
        request,
        outcome: None,
    };
    caller.transact(level, &mut work).await?;
    work.outcome.ok_or_else(|| "the work was not done".into())
}

/// Repeats the whole transaction where the store says so.
async fn pay_once(
    caller: &dyn Caller,
    level: Level,
    request: &ClaimRequest,
) -> Result<ClaimOutcome, BoxError> {
    let begun = Instant::now();
    for tries in 0.. {
        match pay_at_once(caller, level, request).await {
            Err(error) if caller.is_retryable(&*error) && begun.elapsed() < LIMIT => {
                tokio::time::sleep(Duration::from_millis(1 + tries % 20)).await;
            }
            outcome => return outcome,
        }
    }
    Err("never".into())
}

fn acquired(outcome: ClaimOutcome) -> CaseResult<Claim> {
    let name = outcome.name();
    let claim = outcome.acquired();
    claim.ok_or_else(|| CaseError::new(format!("told {name}, not acquired")))
}

async fn record_and_row_commit_together(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 2).await?;
    let request = cx.request(&cx.key("one"));
    drop(acquired(
        pay_once(&*shop.caller, Level::Default, &request).await?,
    )?);
    let again = cx.request(request.key());
    let outcome = pay_once(&*shop.caller, Level::Default, &again).await?;
    assert_eq!(outcome.name(), "completed");
    assert_eq!(shop.paid("one").await?, 1);
    let record = cx.store().get(request.key()).await?;
    let Some(Record::Completed(completed)) = record else {
        return Err(CaseError::new("the record is not completed"));
    };
    assert_eq!(completed.response, Response::new(201, "paid"));
    Ok(())
}

async fn a_rollback_leaves_neither_record_nor_row(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let request = cx.request(&cx.key("one"));
    let mut transaction = shop.begin();
    let claim = acquired(transaction.claim(&request).await?)?;
    transaction.pay("one").await?;
    let response = Response::new(201, "paid");
    transaction.complete(&claim, &response, HOUR).await?;
    transaction.rollback().await?;
    assert_eq!(shop.paid("one").await?, 0);
    assert_eq!(cx.store().get(request.key()).await?, None);
    let other = cx.other_request(request.key());
    drop(acquired(
        pay_once(&*shop.caller, Level::Default, &other).await?,
    )?);
    assert_eq!(shop.paid("one").await?, 1);
    Ok(())
}

async fn a_savepoint_takes_its_claim_back(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let (kept, taken_back) = (cx.request(&cx.key("kept")), cx.request(&cx.key("back")));
    let mut transaction = shop.begin();
    let claim = acquired(transaction.claim(&kept).await?)?;
    transaction.execute("SAVEPOINT sp").await?;
    let inner = acquired(transaction.claim(&taken_back).await?)?;
    let response = Response::new(201, "done");
    transaction.complete(&inner, &response, HOUR).await?;
    transaction.execute("ROLLBACK TO SAVEPOINT sp").await?;
    transaction.complete(&claim, &response, HOUR).await?;
    transaction.commit().await?;
    assert_eq!(cx.store().get(taken_back.key()).await?, None);
    let record = cx.store().get(kept.key()).await?;
    assert!(matches!(record, Some(Record::Completed(_))));
    Ok(())
}

/// On PostgreSQL it has failed the transaction, elsewhere the statement.
async fn an_error_of_the_application_leaves_nothing(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let (before, after) = (cx.request(&cx.key("before")), cx.request(&cx.key("after")));
    let mut transaction = shop.begin();
    drop(acquired(transaction.claim(&before).await?)?);
    let refused = transaction.execute("SELECT * FROM there_is_no_such_table");
    assert!(refused.await.is_err(), "there is no such table");
    if let Err(error) = transaction.claim(&after).await {
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Other, Effect::None)
        );
        assert!(!shop.caller.is_retryable(&error));
    }
    transaction.rollback().await?;
    for request in [before, after] {
        assert_eq!(cx.store().get(request.key()).await?, None);
        drop(acquired(
            pay_once(&*shop.caller, Level::Default, &request).await?,
        )?);
    }
    Ok(())
}

async fn the_transactions_own_wait_for_locks_is_unchanged(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let Some((set, read)) = shop.opens.lock_wait() else {
        return Ok(());
    };
    let mut transaction = shop.begin();
    transaction.execute(set).await?;
    let before = transaction.text(read).await?;
    let claim = acquired(transaction.claim(&cx.request(&cx.key("one"))).await?)?;
    assert_eq!(transaction.text(read).await?, before, "after a claim");
    transaction.advance(&cx.key("source"), 1, HOUR).await?;
    assert_eq!(transaction.text(read).await?, before, "after an advance");
    let response = Response::new(200, "done");
    transaction.complete(&claim, &response, HOUR).await?;
    assert_eq!(transaction.text(read).await?, before, "after a completion");
    transaction.rollback().await?;
    Ok(())
}

/// The first round rolls back, so that each step would be seen that did not belong to its
/// transaction.
async fn every_step_in_a_transaction_commits_or_does_not(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let failed = cx.claim(&cx.request(&cx.key("failed"))).await?;
    let saved = cx.claim(&cx.request(&cx.key("saved"))).await?;
    let completed = cx.claim(&cx.request(&cx.key("completed"))).await?;
    let source = cx.key("source");
    let checkpoint = Checkpoint::new("halfway", "half")?;
    let store = cx.store();
    let (checkpoints, marks) = match (store.checkpoints(), store.watermarks()) {
        (Some(checkpoints), Some(marks)) => (checkpoints, marks),
        _ => return Err(CaseError::new("the store has no checkpoints or watermarks")),
    };
    for commits in [false, true] {
        let mut transaction = shop.begin();
        let failure = Failure::new("declined", "no cover");
        transaction.fail(&failed, &failure, HOUR).await?;
        transaction.checkpoint(&saved, &checkpoint).await?;
        let response = Response::new(200, "done");
        transaction.complete(&completed, &response, HOUR).await?;
        let advance = transaction.advance(&source, 7, HOUR).await?;
        assert_eq!(advance, Advance::Advanced);
        let repeated = transaction.advance(&source, 7, HOUR).await?;
        assert_ne!(repeated, Advance::Advanced, "the transaction sees its mark");
        match commits {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        let names = [&failed, &saved, &completed].map(async |claim| {
            let record = store.get(claim.key()).await?;
            Ok::<_, Error>(record.map(|record| match record {
                Record::InFlight(_) => "in flight",
                Record::Completed(_) => "completed",
                Record::Failed(_) => "failed",
            }))
        });
        let [one, two, three] = names;
        let names = [one.await?, two.await?, three.await?];
        let last = checkpoints.last_checkpoint(&saved).await?;
        let mark = marks.watermark(&source).await?;
        if commits {
            assert_eq!(names, ["failed", "in flight", "completed"].map(Some));
            assert_eq!((last.as_ref(), mark), (Some(&checkpoint), Some(7)));
        } else {
            assert_eq!(names, ["in flight"; 3].map(Some));
            assert_eq!((last, mark), (None, None));
        }
    }
    Ok(())
}

async fn a_lost_claim_rolls_the_row_back(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let key = cx.key("one");
    let lost = cx.stale_claim(&cx.request(&key)).await?;
    cx.hold(&cx.request(&key)).await?;
    let mut transaction = shop.begin();
    transaction.pay("one").await?;
    let response = Response::new(201, "paid");
    let error = transaction.complete(&lost, &response, HOUR).await;
    assert!(error.is_err_and(|error| error.is_claim_lost()));
    transaction.rollback().await?;
    assert_eq!(shop.paid("one").await?, 0);
    Ok(())
}

async fn a_claim_in_a_transaction_is_told_the_same(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    for expected in cx.claims_in_every_state("in a transaction").await? {
        let mut transaction = shop.begin();
        let outcome = transaction.claim(&expected.request).await?;
        transaction.commit().await?;
        let key = expected.request.key();
        assert_eq!(described(&outcome), expected.returned, "{key:?}");
    }
    Ok(())
}

async fn transactions_are_repeated_as_a_whole(cx: &Context) -> CaseResult {
    repeated_as_a_whole(cx, Level::Default).await
}

async fn serializable_transactions_are_repeated_as_a_whole(cx: &Context) -> CaseResult {
    repeated_as_a_whole(cx, Level::Serializable).await
}

/// Each transaction reads what the others write, so under SERIALIZABLE most of them fail at first.
async fn repeated_as_a_whole(cx: &Context, level: Level) -> CaseResult {
    const KEYS: usize = 8;
    let (shop, won) = (Shop::open(cx, 4).await?, Arc::new(AtomicU32::new(0)));
    let mut tasks = JoinSet::new();
    for number in 0..KEYS * 3 {
        let (caller, won) = (Arc::clone(&shop.caller), Arc::clone(&won));
        let request = cx.request(&cx.key(format!("key-{}", number % KEYS)));
        tasks.spawn(async move {
            let outcome = pay_once(&*caller, level, &request).await?;
            if let ClaimOutcome::Acquired(_) = outcome {
                won.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, BoxError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    assert_eq!(won.load(Ordering::Relaxed) as usize, KEYS, "winners");
    let (rows, total) = shop.opens.totals(cx.namespace()).await?;
    assert_eq!(rows, KEYS as i64, "rows");
    if level == Level::Serializable {
        assert_eq!(total, KEYS as i64, "the running total");
    }
    Ok(())
}

/// A transaction that was left open would swallow what its only connection does next, or hold the
/// key.
async fn a_transaction_dropped_at_any_poll_is_not_left_open(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    for polls in 0..MOST_POLLS {
        let id = format!("dropped-{polls}");
        let request = cx.request(&cx.key(&id));
        let paying = pay_at_once(&*shop.caller, Level::Default, &request);
        let paid = Box::pin(polled(paying, polls)).await;
        let is_finished = paid.is_some();
        if let Some(paid) = paid {
            drop(acquired(paid?)?);
        }
        let after = cx.request(&cx.key(format!("after-{polls}")));
        drop(acquired(
            pay_once(&*shop.caller, Level::Default, &after).await?,
        )?);
        let record = cx.store().get(after.key()).await?;
        assert!(record.is_some(), "not committed after {polls} polls");
        let outcome = pay_once(&*shop.caller, Level::Default, &cx.request(request.key())).await?;
        assert!(
            matches!(
                outcome,
                ClaimOutcome::Acquired(_) | ClaimOutcome::Completed(_)
            ),
            "told {outcome:?} after {polls} polls"
        );
        assert_eq!(shop.paid(&id).await?, 1, "rows after {polls} polls");
        if is_finished {
            assert!(polls > 3, "a payment has more than {polls} polls");
            return Ok(());
        }
    }
    Err(CaseError::new("the payment does not end"))
}

/// A driver that takes an error which nobody read for a broken connection has to replace it.
async fn a_claim_dropped_before_its_refusal_costs_no_connection(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let key = cx.key("held");
    let mut holder = shop.begin();
    drop(acquired(holder.claim(&cx.request(&key)).await?)?);
    let waiting = shop.opens.open(cx.namespace(), None, 1).await?;
    for (number, waited) in [0, 1, 3, 10, 30, 100].into_iter().enumerate() {
        let request = cx.request(&key);
        let claiming = pay_at_once(&*waiting, Level::Default, &request);
        let claimed = tokio::time::timeout(Duration::from_millis(waited), claiming).await;
        match claimed {
            Err(_) => {}
            Ok(Err(error)) if waiting.is_retryable(&*error) => {}
            Ok(told) => return Err(CaseError::new(format!("a key that is held: told {told:?}"))),
        }
        let other = cx.request(&cx.key(format!("other-{number}")));
        drop(acquired(
            pay_once(&*waiting, Level::Default, &other).await?,
        )?);
    }
    holder.rollback().await?;
    let outcome = pay_once(&*waiting, Level::Default, &cx.request(&key)).await?;
    drop(acquired(outcome)?);
    Ok(())
}

/// The proxy cuts before each answer in turn: before the transaction, in it, and after the commit
/// has reached the server, whose answer is lost.
async fn a_connection_lost_at_any_message_leaves_record_and_row_together(
    cx: &Context,
) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let server = cx.harness().server_address();
    let server = server.ok_or_else(|| CaseError::new("there is no address"))?;
    let proxy = Proxy::start(server).await?;
    let (mut lost_before, mut lost_commits, mut messages) = (0, 0, 0_u32);
    for attempt in 0..100 {
        let through = Some(proxy.address());
        let far = shop.opens.open(cx.namespace(), through, 1).await?;
        let id = format!("cut-{attempt}");
        let request = cx.request(&cx.key(&id));
        let before = proxy.cuts();
        proxy.cut_after(messages);
        let paid = pay_at_once(&*far, Level::Default, &request).await;
        proxy.disarm();
        drop(far);
        if let Err(error) = &paid {
            judge_lost(&**error)?;
        }
        let is_cut = proxy.cuts() > before;
        let again = cx.request(request.key());
        let outcome = pay_once(&*shop.caller, Level::Default, &again).await?;
        assert_eq!(shop.paid(&id).await?, 1, "rows after {messages} messages");
        match (paid, &outcome) {
            (Ok(_), ClaimOutcome::Completed(_)) => {}
            (Err(_), ClaimOutcome::Completed(_)) => lost_commits += 1,
            (Err(_), ClaimOutcome::Acquired(_)) => lost_before += 1,
            (paid, other) => {
                let message = format!("{paid:?}, then told {other:?} after {messages} messages");
                return Err(CaseError::new(message));
            }
        }
        if is_cut {
            messages += 1;
        } else if lost_before > 2 && lost_commits > 0 {
            return Ok(());
        } else {
            // One answer may arrive as two messages, and the next time as one: the commit's was
            // stepped over.
            messages = messages.saturating_sub(2);
        }
    }
    let seen = format!("cut {lost_before} times before the commit, and {lost_commits} after it");
    Err(CaseError::new(seen))
}

/// Checks what the store says about a lost connection. An error of the driver says what it wants.
fn judge_lost(error: &(dyn std::error::Error + 'static)) -> CaseResult {
    let Some(error) = error.downcast_ref::<Error>() else {
        return Ok(());
    };
    if error.kind() != ErrorKind::Unavailable || !error.is_retryable() {
        return Err(CaseError::new(format!("not unavailable: {error:?}")));
    }
    // A claim may read first.
    if error.operation() == "complete_in" && error.effect() != Effect::Unknown {
        return Err(CaseError::new(format!(
            "no effect of a lost write: {error:?}"
        )));
    }
    Ok(())
}
