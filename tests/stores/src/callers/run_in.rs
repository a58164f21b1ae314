//! The cases of runs in a transaction: claim, rows and result commit together, or nothing does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use idem_conformance::cancel::{MOST_POLLS, polled};
use idem_conformance::proxy::Proxy;
use idem_conformance::{Case, CaseError, CaseResult, Context, Promise};
use idem_core::engine::InterruptPolicy;
use idem_core::{
    BusyPolicy, Effect, Error, ErrorKind, ErrorPolicy, Failure, IdempotencyStore, Key, Outcome,
    Policy, Record, RunError,
};
use tokio::sync::Notify;
use tokio::task::{JoinSet, yield_now};

use super::cases::{Shop, cases};
use super::engine::body;
use super::{Body, Engine, Level, Ran};

cases! {
    RUN_IN_CASES,
    law 1 callers_of_one_key_in_two_engines_have_one_row_and_one_body_at_a_time,
    law 1 conflicting_runs_are_repeated_as_a_whole,
    law 1 a_conflict_that_does_not_end_shows_its_first_error,
    law 3 a_duplicate_beside_an_open_run_is_refused_or_waits,
    law 3 a_run_inside_of_a_run_is_answered,
    law 12 a_run_commits_row_and_record,
    law 12 a_run_that_fails_leaves_nothing_but_the_failure_that_the_policy_wants,
    law 12 a_run_whose_work_ended_its_transaction_is_not_sealed,
    law 12 a_statements_error_that_the_work_ignores_tears_nothing_apart,
    law 12 work_commits_row_and_record_once,
    law 12 transactions_of_another_store_are_refused,
    law 13 a_run_dropped_at_any_poll_leaves_row_and_record_or_neither,
    law 14 a_run_whose_connection_is_lost_at_any_message_has_one_row [Network],
}

const PAID: &str = "paid";
const REQUEST: &str = "EUR 12.50";

impl Shop {
    fn engine_of(&self, policy: Policy, level: Level) -> CaseResult<Arc<dyn Engine>> {
        let engine = self.caller.engine(None, policy, level);
        engine.ok_or_else(|| CaseError::new("the driver has no engine"))
    }

    fn engine(&self, policy: Policy) -> CaseResult<Arc<dyn Engine>> {
        self.engine_of(policy, Level::Default)
    }

    /// Checks that the key has a completed record and one row, or neither; returns which.
    async fn is_whole(&self, cx: &Context, key: &Key) -> CaseResult<bool> {
        let record = cx.store().get(key).await?;
        let is_completed = matches!(record, Some(Record::Completed(_)));
        let rows = self.paid(key.id()).await?;
        match (record.is_some(), is_completed, rows) {
            (true, true, 1) => Ok(true),
            (false, false, 0) => Ok(false),
            _ => Err(CaseError::new(format!("{rows} rows beside {record:?}"))),
        }
    }
}

/// Pays, and yields after it: a caller that counts polls can drop it there.
fn pays(key: &Key) -> Body {
    let id = key.id().to_owned();
    body(move |transaction| {
        let id = id.clone();
        Box::pin(async move {
            transaction.pay(&id).await?;
            yield_now().await;
            Ok(PAID.to_owned())
        })
    })
}

/// Pays, and then runs this statement, whose error it ignores, and pays under another id.
fn pays_and_goes_on(key: &Key, statement: &'static str) -> Body {
    let id = key.id().to_owned();
    body(move |transaction| {
        let id = id.clone();
        Box::pin(async move {
            transaction.pay(&id).await?;
            let _ = transaction.execute(statement).await;
            let _ = transaction.pay(&format!("after-{id}")).await;
            Ok(PAID.to_owned())
        })
    })
}

/// For calls that must not run the work.
fn never() -> Body {
    body(|_| Box::pin(async { Err("the work ran once more".into()) }))
}

fn value(ran: Ran) -> CaseResult<Outcome<String>> {
    ran.map_err(|error| CaseError::new(format!("the run failed: {error:?}")))
}

fn fresh(ran: Ran) -> CaseResult {
    let outcome = value(ran)?;
    assert!(!outcome.is_replayed(), "replayed");
    assert_eq!(outcome.into_inner(), PAID);
    Ok(())
}

fn replayed(ran: Ran) -> CaseResult {
    assert_eq!(value(ran)?.into_replayed().as_deref(), Some(PAID));
    Ok(())
}

/// Returns the error of the work; of the engine, where that refused it.
fn refused(ran: Ran) -> CaseResult<idem_core::BoxError> {
    match ran {
        Err(RunError::Work(error)) => Ok(error),
        Err(RunError::Store(error)) => Ok(error.into()),
        other => Err(CaseError::new(format!("not refused: {other:?}"))),
    }
}

fn waits() -> Policy {
    let limit = Duration::from_secs(120);
    Policy::default().with_on_busy(BusyPolicy::Wait { limit })
}

async fn a_run_commits_row_and_record(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 2).await?;
    let (engine, key) = (shop.engine(Policy::default())?, cx.key("one"));
    fresh(engine.run_in(&key, REQUEST, &pays(&key)).await)?;
    assert!(shop.is_whole(cx, &key).await?);
    for engine in [&engine, &shop.engine(Policy::default())?] {
        replayed(engine.run_in(&key, REQUEST, &never()).await)?;
        let other = engine.run_in(&key, "EUR 99", &never()).await;
        assert!(matches!(other, Err(RunError::Conflict(_))), "{other:?}");
    }
    assert!(shop.is_whole(cx, &key).await?);
    Ok(())
}

async fn a_run_that_fails_leaves_nothing_but_the_failure_that_the_policy_wants(
    cx: &Context,
) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let records = Policy::default()
        .with_on_error(ErrorPolicy::Record)
        .with_on_panic(InterruptPolicy::Record);
    for (panics, policy, code) in [
        (false, Policy::default(), None),
        (false, records.clone(), Some(Failure::FAILED)),
        (true, Policy::default(), None),
        (true, records, Some(Failure::PANICKED)),
    ] {
        let key = cx.key(format!("{panics}-{}", code.unwrap_or("none")));
        let (engine, id) = (shop.engine(policy)?, key.id().to_owned());
        let fails = body(move |transaction| {
            let id = id.clone();
            Box::pin(async move {
                transaction.pay(&id).await?;
                assert!(!panics, "no cover");
                Err("no cover".into())
            })
        });
        let run = {
            let (engine, key) = (Arc::clone(&engine), key.clone());
            tokio::spawn(async move { engine.run_in(&key, REQUEST, &fails).await })
        };
        match run.await {
            Ok(ran) => assert_eq!(refused(ran)?.to_string(), "no cover"),
            Err(failed) => assert!(panics && failed.is_panic(), "{failed}"),
        }
        assert_eq!(shop.paid(key.id()).await?, 0);
        let record = cx.store().get(&key).await?;
        let again = engine.run_in(&key, REQUEST, &pays(&key)).await;
        match (code, record) {
            (None, None) => {
                fresh(again)?;
                assert!(shop.is_whole(cx, &key).await?);
            }
            (Some(code), Some(Record::Failed(failed))) => {
                assert_eq!(failed.failure.code(), code);
                assert!(matches!(again, Err(RunError::Failed(_))), "{again:?}");
                assert_eq!(shop.paid(key.id()).await?, 0);
            }
            (_, record) => return Err(CaseError::new(format!("left {record:?}"))),
        }
    }
    Ok(())
}

async fn a_run_dropped_at_any_poll_leaves_row_and_record_or_neither(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    for polls in 0..MOST_POLLS {
        let (engine, key) = (shop.engine(waits())?, cx.key(format!("dropped-{polls}")));
        let work = pays(&key);
        let ran = Box::pin(polled(engine.run_in(&key, REQUEST, &work), polls)).await;
        let is_finished = ran.is_some();
        ran.map_or(Ok(()), fresh)?;
        // It waits for a commit that goes on, and for the only connection.
        value(engine.run_in(&key, REQUEST, &work).await)?;
        assert!(shop.is_whole(cx, &key).await?, "after {polls} polls");
        if is_finished {
            assert!(polls > 3, "a run has more than {polls} polls");
            return Ok(());
        }
    }
    Err(CaseError::new("the run does not end"))
}

async fn callers_of_one_key_in_two_engines_have_one_row_and_one_body_at_a_time(
    cx: &Context,
) -> CaseResult {
    const CALLERS: usize = 6;
    let (shop, key) = (Shop::open(cx, 4).await?, cx.key("one"));
    let (running, begun) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (ran, id) = (Arc::clone(&begun), key.id().to_owned());
    let work = body(move |transaction| {
        let (running, ran, id) = (Arc::clone(&running), Arc::clone(&ran), id.clone());
        Box::pin(async move {
            let others = running.fetch_add(1, Ordering::SeqCst);
            ran.fetch_add(1, Ordering::SeqCst);
            let paid = transaction.pay(&id).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            running.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(others, 0, "two bodies at once");
            paid.map(|()| PAID.to_owned())
        })
    });
    let mut tasks = JoinSet::new();
    for engine in [shop.engine(waits())?, shop.engine(waits())?] {
        for _ in 0..CALLERS {
            let (engine, key, work) = (Arc::clone(&engine), key.clone(), Arc::clone(&work));
            tasks.spawn(async move { engine.run_in(&key, REQUEST, &work).await });
        }
    }
    let mut fresh = 0;
    while let Some(ran) = tasks.join_next().await {
        let outcome = value(ran?)?;
        fresh += u32::from(!outcome.is_replayed());
        assert_eq!(outcome.into_inner(), PAID);
    }
    assert_eq!((fresh, begun.load(Ordering::SeqCst)), (1, 1));
    assert!(shop.is_whole(cx, &key).await?);
    Ok(())
}

/// The duplicate is in the same process, or in another one.
async fn a_duplicate_beside_an_open_run_is_refused_or_waits(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 3).await?;
    for is_same in [true, false] {
        let key = cx.key(format!("same-{is_same}"));
        let short = Duration::from_millis(300);
        let engine = shop.engine(waits())?;
        let waiting = match is_same {
            true => Arc::clone(&engine),
            false => shop.engine(waits())?,
        };
        let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, gate, id) = (Arc::clone(&began), Arc::clone(&go_on), key.id().to_owned());
        let blocked = body(move |transaction| {
            let (began, go_on, id) = (Arc::clone(&begins), Arc::clone(&gate), id.clone());
            Box::pin(async move {
                transaction.pay(&id).await?;
                began.notify_one();
                go_on.notified().await;
                Ok(PAID.to_owned())
            })
        });
        let spawn = |engine: Arc<dyn Engine>, work: Body| {
            let key = key.clone();
            tokio::spawn(async move { engine.run_in(&key, REQUEST, &work).await })
        };
        let first = spawn(engine, blocked);
        began.notified().await;
        let hasty = shop.engine(Policy::default().with_retry_timeout(short))?;
        let error = refused(hasty.run_in(&key, REQUEST, &never()).await)?;
        // Where a lock is waited for, the engine's own time may be up first.
        let may_repeat = error.downcast_ref().is_some_and(Error::is_retryable);
        assert!(may_repeat, "{error:?}");
        let second = spawn(waiting, never());
        tokio::time::sleep(short).await;
        assert!(!second.is_finished(), "not waited");
        go_on.notify_one();
        fresh(first.await?)?;
        replayed(second.await?)?;
        assert!(shop.is_whole(cx, &key).await?);
    }
    Ok(())
}

/// Inside of a run, another one of the same key or of another key, in the same engine or in another
/// one, on the only connection, must end in time.
async fn a_run_inside_of_a_run_is_answered(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let policy = Policy::default().with_retry_timeout(Duration::from_secs(4));
    let (engine, other) = (shop.engine(policy.clone())?, shop.engine(policy)?);
    for (number, inner) in [&engine, &other].into_iter().enumerate() {
        for is_same in [true, false] {
            let key = cx.key(format!("outer-{number}-{is_same}"));
            let inner_key = match is_same {
                true => key.clone(),
                false => cx.key(format!("inner-{number}")),
            };
            let (inner, id) = (Arc::clone(inner), key.id().to_owned());
            let work = body(move |transaction| {
                let (inner, inner_key, id) = (Arc::clone(&inner), inner_key.clone(), id.clone());
                Box::pin(async move {
                    transaction.pay(&id).await?;
                    match inner.run_in(&inner_key, REQUEST, &never()).await {
                        Err(RunError::Store(error)) if error.is_retryable() => Ok(PAID.to_owned()),
                        other => Err(format!("the inner run: {other:?}").into()),
                    }
                })
            });
            let begun = Instant::now();
            fresh(engine.run_in(&key, REQUEST, &work).await)?;
            assert!(begun.elapsed() < Duration::from_secs(60), "no end in time");
            assert!(shop.is_whole(cx, &key).await?);
        }
    }
    Ok(())
}

async fn conflicting_runs_are_repeated_as_a_whole(cx: &Context) -> CaseResult {
    const KEYS: usize = 6;
    let shop = Shop::open(cx, 4).await?;
    let policy = waits().with_retry_timeout(Duration::from_secs(120));
    let engine = shop.engine_of(policy, Level::Serializable)?;
    let mut tasks = JoinSet::new();
    for number in 0..KEYS {
        let (engine, key) = (Arc::clone(&engine), cx.key(format!("key-{number}")));
        tasks.spawn(async move { engine.run_in(&key, REQUEST, &pays(&key)).await });
    }
    while let Some(ran) = tasks.join_next().await {
        fresh(ran?)?;
    }
    let (rows, total) = shop.opens.totals(cx.namespace()).await?;
    assert_eq!((rows, total), (KEYS as i64, KEYS as i64), "rows and total");
    Ok(())
}

async fn a_conflict_that_does_not_end_shows_its_first_error(cx: &Context) -> CaseResult {
    let (shop, key) = (Shop::open(cx, 1).await?, cx.key("one"));
    let engine = shop.engine(Policy::default().with_retry_timeout(Duration::from_secs(3)))?;
    let (times, id) = (Arc::new(AtomicU32::new(0)), key.id().to_owned());
    let counted = Arc::clone(&times);
    let conflicts = body(move |transaction| {
        let (number, id) = (counted.fetch_add(1, Ordering::SeqCst), id.clone());
        Box::pin(async move {
            transaction.pay(&id).await?;
            let message = format!("conflict {number}");
            Err(Error::new(ErrorKind::Contention, Effect::None, message).into())
        })
    });
    let error = refused(engine.run_in(&key, REQUEST, &conflicts).await)?;
    assert!(error.to_string().contains("conflict 0"), "{error}");
    assert!(times.load(Ordering::SeqCst) > 1, "not repeated");
    assert!(!shop.is_whole(cx, &key).await?);
    Ok(())
}

/// Runs the body in a transaction of `run_in`, or in one that the work commits.
async fn run_or_commit(engine: &Arc<dyn Engine>, by_work: bool, key: &Key, body: &Body) -> Ran {
    match by_work {
        true => engine.commit(key, 1, body, |value| value).await,
        false => engine.run_in(key, REQUEST, body).await,
    }
}

/// Rows from before the statement may be committed; then no later call repeats them.
async fn a_run_whose_work_ended_its_transaction_is_not_sealed(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let traps = shop.opens.traps().iter().enumerate();
    for ((number, (statement, committed, later)), by_work) in
        traps.flat_map(|trap| [(trap, false), (trap, true)])
    {
        let key = cx.key(format!("{number}-{by_work}"));
        let engine = shop.engine(Policy::default())?;
        let work = pays_and_goes_on(&key, statement);
        let error = refused(run_or_commit(&engine, by_work, &key, &work).await)?;
        let kind = error.downcast_ref().map(Error::kind);
        let case = format!("{statement}, by the work: {by_work}");
        assert_eq!(kind, Some(ErrorKind::Misconfigured), "{case}: {error:?}");
        let rows = shop.paid(key.id()).await?;
        assert_eq!(rows, *committed, "rows before {case}");
        let after = shop.paid(&format!("after-{}", key.id())).await?;
        assert_eq!(after, *later, "rows after {case}");
        let again = run_or_commit(&engine, by_work, &key, &pays(&key)).await;
        let is_clean = committed + later == 0;
        match again {
            // A claim outside of the transaction may be failed, although nothing was committed.
            Err(RunError::Failed(_)) if by_work || !is_clean => {
                assert_eq!(shop.paid(key.id()).await?, *committed, "rows after a retry");
            }
            again => {
                assert!(is_clean, "{case}: {again:?}");
                fresh(again)?;
                assert!(shop.is_whole(cx, &key).await?, "{case}");
            }
        }
    }
    Ok(())
}

/// On PostgreSQL it has failed the transaction, elsewhere the statement.
async fn a_statements_error_that_the_work_ignores_tears_nothing_apart(cx: &Context) -> CaseResult {
    let (shop, key) = (Shop::open(cx, 1).await?, cx.key("one"));
    let engine = shop.engine(Policy::default())?;
    let work = pays_and_goes_on(&key, "SELECT * FROM there_is_no_such_table");
    let ran = engine.run_in(&key, REQUEST, &work).await;
    assert_eq!(shop.is_whole(cx, &key).await?, ran.is_ok(), "{ran:?}");
    value(engine.run_in(&key, REQUEST, &pays(&key)).await)?;
    assert!(shop.is_whole(cx, &key).await?);
    Ok(())
}

/// What the work returns of the value that it has committed.
type Change = fn(String) -> String;

async fn work_commits_row_and_record_once(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 2).await?;
    let engine = shop.engine(Policy::default())?;
    let same: Change = |value| value;
    let changed: Change = |value| format!("{value}, and changed");
    for (id, returned) in [("same", same), ("changed", changed)] {
        let key = cx.key(id);
        fresh(engine.commit(&key, 1, &pays(&key), returned).await)?;
        assert!(shop.is_whole(cx, &key).await?);
        replayed(engine.commit(&key, 1, &never(), returned).await)?;
    }
    let key = cx.key("twice");
    let twice = refused(engine.commit(&key, 2, &pays(&key), same).await)?;
    assert!(
        twice.to_string().contains("committed its result already"),
        "{twice}"
    );
    assert!(shop.is_whole(cx, &key).await?);
    replayed(engine.commit(&key, 1, &never(), same).await)?;
    Ok(())
}

async fn transactions_of_another_store_are_refused(cx: &Context) -> CaseResult {
    let (shop, key) = (Shop::open(cx, 1).await?, cx.key("one"));
    let other = Some(Arc::clone(cx.store()));
    let engine = shop.caller.engine(other, Policy::default(), Level::Default);
    let engine = engine.ok_or_else(|| CaseError::new("the driver has no engine"))?;
    for ran in [
        engine.run_in(&key, REQUEST, &never()).await,
        engine.commit(&key, 1, &never(), |value| value).await,
    ] {
        let error = refused(ran)?;
        let kind = error.downcast_ref().map(Error::kind);
        assert_eq!(kind, Some(ErrorKind::Misconfigured), "{error:?}");
    }
    assert!(!shop.is_whole(cx, &key).await?);
    Ok(())
}

/// The proxy cuts before each answer in turn. The engine repeats its own statements, and looks a commit
/// up whose answer was lost. Work whose own statement was cut gets that error, and leaves no row.
async fn a_run_whose_connection_is_lost_at_any_message_has_one_row(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, 1).await?;
    let server = cx.harness().server_address();
    let server = server.ok_or_else(|| CaseError::new("there is no address"))?;
    let proxy = Proxy::start(server).await?;
    let policy = waits().with_retry_timeout(Duration::from_secs(120));
    for messages in 0..100 {
        let through = Some(proxy.address());
        let far = shop.opens.open(cx.namespace(), through, 1).await?;
        let engine = far.engine(None, policy.clone(), Level::Default);
        let engine = engine.ok_or_else(|| CaseError::new("the driver has no engine"))?;
        let (key, before) = (cx.key(format!("cut-{messages}")), proxy.cuts());
        proxy.cut_after(messages);
        let ran = engine.run_in(&key, REQUEST, &pays(&key)).await;
        proxy.disarm();
        let ran = match ran {
            // The work met the end of its connection: nothing is committed, and the next one works.
            Err(RunError::Work(_)) if proxy.cuts() != before => {
                engine.run_in(&key, REQUEST, &pays(&key)).await
            }
            ran => ran,
        };
        fresh(ran)?;
        assert!(shop.is_whole(cx, &key).await?, "after {messages} messages");
        if proxy.cuts() == before {
            assert!(messages > 3, "a run has more than {messages} messages");
            return Ok(());
        }
    }
    Err(CaseError::new("the run does not end"))
}
