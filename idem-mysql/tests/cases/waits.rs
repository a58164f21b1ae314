//! What a claim does while somebody else's transaction holds the key.

use std::time::Duration;

use idem_conformance::{Case, CaseError, CaseResult, Context};
use idem_core::{
    BatchStore, ClaimOutcome, Completion, Effect, ErrorKind, IdempotencyStore, Response,
    StalePolicy,
};
use idem_mysql::MySqlStore;
use sqlx::mysql::{MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Executor, Row};

use super::case;
use crate::support;

pub(super) const A_CLAIM_WAITS_FOR_THE_TRANSACTION_THAT_CLAIMED: Case =
    case(2, "a_claim_waits_for_the_transaction_that_claimed", |cx| {
        Box::pin(a_claim_waits_for_the_transaction_that_claimed(cx))
    });
pub(super) const A_WAIT_THAT_IS_TOO_LONG_IS_AN_UNKNOWN_EFFECT: Case =
    case(14, "a_wait_that_is_too_long_is_an_unknown_effect", |cx| {
        Box::pin(a_wait_that_is_too_long_is_an_unknown_effect(cx))
    });

pub(super) const LOCK_WAITS_ARE_REPEATED_AND_COUNTED: Case =
    case(1, "lock_waits_are_repeated_and_counted", |cx| {
        Box::pin(lock_waits_are_repeated_and_counted(cx))
    });
pub(super) const DEADLOCKS_ARE_REPEATED_AND_COUNTED: Case =
    case(1, "deadlocks_are_repeated_and_counted", |cx| {
        Box::pin(deadlocks_are_repeated_and_counted(cx))
    });
pub(super) const PURGE_PASSES_OVER_WHAT_IS_LOCKED: Case =
    case(16, "purge_passes_over_what_is_locked", |cx| {
        Box::pin(purge_passes_over_what_is_locked(cx))
    });
pub(super) const A_CLAIM_THAT_LAPSED_UNSEEN_IS_FAILED_AND_NOT_TAKEN_OVER: Case = case(
    5,
    "a_claim_that_lapsed_unseen_is_failed_and_not_taken_over",
    |cx| Box::pin(a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx)),
);

/// The claim that waits has not seen the record, so only the statement that writes can know that the work must not
/// run again.
async fn a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one")).with_lease(cx.short());
    let request = request.with_on_stale(StalePolicy::Fail);
    let mut transaction = store.pool().begin().await?;
    let _claim = store.claim_in(&mut transaction, &request).await?;
    // Time is the subject: the lease has to end while the record is not committed.
    tokio::time::sleep(cx.short() * 2).await;
    let (other, request) = (cx.open().await?, cx.request(request.key()));
    let waiting = tokio::spawn(async move { other.claim(&request).await });
    until_blocked(&store, cx.namespace()).await?;
    transaction.commit().await?;
    let outcome = waiting.await??;
    assert!(
        matches!(outcome, ClaimOutcome::Failed(_)),
        "{}",
        outcome.name()
    );
    Ok(())
}

pub(super) const HOUR: Duration = Duration::from_secs(3600);

async fn a_claim_waits_for_the_transaction_that_claimed(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for commits in [true, false] {
        let key = cx.key(format!("commits-{commits}"));
        let mut transaction = store.pool().begin().await?;
        let claim = store.claim_in(&mut transaction, &cx.request(&key)).await?;
        let claim = claim.acquired().expect("a fresh key");
        let (other, request) = (cx.open().await?, cx.request(&key));
        let waiting = tokio::spawn(async move { other.claim(&request).await });
        until_blocked(&store, cx.namespace()).await?;
        let response = Response::new(200, "done");
        store
            .complete_in(&mut transaction, &claim, &response, HOUR)
            .await?;
        if commits {
            transaction.commit().await?;
            let outcome = waiting.await??;
            assert!(
                matches!(outcome, ClaimOutcome::Completed(_)),
                "{}",
                outcome.name()
            );
        } else {
            transaction.rollback().await?;
            let outcome = waiting.await??;
            assert!(
                matches!(outcome, ClaimOutcome::Acquired(_)),
                "{}",
                outcome.name()
            );
        }
    }
    Ok(())
}

/// Waits until a statement on the records of this database waits for a row's lock, as the server's report shows it.
pub(super) async fn until_blocked(store: &MySqlStore, database: &str) -> CaseResult {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let table = format!("`{database}`.`idem_records`");
    while tokio::time::Instant::now() < deadline {
        let report = sqlx::raw_sql("SHOW ENGINE INNODB STATUS");
        let row = report.fetch_one(store.pool()).await?;
        let report: Vec<u8> = row.try_get_unchecked(2)?;
        let report = String::from_utf8_lossy(&report);
        let mut lines = report.lines();
        if lines.any(|line| line.contains(&table) && line.contains("waiting")) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(CaseError::new("nothing waits for the lock"))
}

async fn a_wait_that_is_too_long_is_an_unknown_effect(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let config = store.config().clone().with_timeout(Duration::from_secs(2));
    let hasty =
        MySqlStore::with_config(harness.store(cx.namespace()).await?.pool().clone(), config);
    let request = cx.request(&cx.key("one"));
    let mut transaction = store.pool().begin().await?;
    let first = store
        .claim_in(&mut transaction, &cx.request(request.key()))
        .await?;
    let error = hasty.claim(&request).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown)
    );
    // The statement still waits on the server; when the first claim is rolled back, it may take effect.
    drop(first);
    transaction.rollback().await?;
    let claim = store.claim(&request).await?.acquired();
    assert!(
        claim.is_some(),
        "the same attempt gets what it may have claimed"
    );
    let other = store.claim(&cx.request(request.key())).await?;
    assert!(
        matches!(other, ClaimOutcome::InFlight(_)),
        "{}",
        other.name()
    );
    Ok(())
}

/// One completion of two waits for a lock until the server gives up, and is sent again.
async fn lock_waits_are_repeated_and_counted(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let hasty = waiting_for(cx, 1).await?;
    let mut other = store.pool().begin().await?;
    let completions = two_completions(cx).await?;
    lock(cx, &mut other, "two").await?;
    let waiting = {
        let hasty = hasty.clone();
        tokio::spawn(async move { hasty.complete_many(&completions).await })
    };
    until(|| hasty.contention().lock_waits > 0).await?;
    other.rollback().await?;
    all(waiting.await?)
}

async fn deadlocks_are_repeated_and_counted(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let patient = waiting_for(cx, 30).await?;
    let mut other = store.pool().begin().await?;
    let completions = two_completions(cx).await?;
    // More rows than the completions change, so that the server breaks the deadlock at their cost.
    for row in 0..20 {
        let request = cx.request(&cx.key(format!("row-{row}")));
        let _claim = store.claim_in(&mut other, &request).await?;
    }
    lock(cx, &mut other, "two").await?;
    let waiting = {
        let patient = patient.clone();
        tokio::spawn(async move { patient.complete_many(&completions).await })
    };
    until_blocked(&store, cx.namespace()).await?;
    lock(cx, &mut other, "one").await?;
    until(|| patient.contention().deadlocks > 0).await?;
    other.commit().await?;
    all(waiting.await?)
}

/// Completions of the keys `one` and `two`, which are sealed in this order.
async fn two_completions(cx: &Context) -> CaseResult<Vec<Completion>> {
    let mut completions = Vec::new();
    for id in ["one", "two"] {
        completions.push(Completion {
            claim: cx.claim(&cx.request(&cx.key(id))).await?,
            response: Response::new(200, "done"),
            retention: HOUR,
        });
    }
    Ok(completions)
}

fn all(answers: Vec<idem_core::Result<()>>) -> CaseResult {
    answers.into_iter().try_for_each(|answer| Ok(answer?))
}

async fn lock(cx: &Context, connection: &mut MySqlConnection, id: &str) -> CaseResult {
    let table = format!("`{}`.idem_records", cx.namespace());
    let scope = cx.key(id).scope().to_owned();
    let key = format!("scope = '{scope}' AND operation = 'payments.create' AND id = '{id}'");
    let sql = format!("SELECT 1 FROM {table} WHERE {key} FOR UPDATE");
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await?;
    Ok(())
}

/// A store whose sessions wait for a lock for so many seconds.
async fn waiting_for(cx: &Context, seconds: u32) -> CaseResult<MySqlStore> {
    let harness = support::harness(cx)?;
    let pool = MySqlPoolOptions::new().after_connect(move |connection, _| {
        Box::pin(async move {
            let wait = format!("SET SESSION innodb_lock_wait_timeout = {seconds}");
            connection.execute(AssertSqlSafe(wait)).await.map(drop)
        })
    });
    let store = harness
        .store_with(pool, harness.options()?, cx.namespace())
        .await?;
    let config = store.config().clone().with_timeout(Duration::from_secs(60));
    Ok(MySqlStore::with_config(store.pool().clone(), config))
}

pub(super) async fn until(condition: impl Fn() -> bool) -> CaseResult {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !condition() {
        if tokio::time::Instant::now() > deadline {
            return Err(CaseError::new("it did not happen"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// A transaction that takes an expired key anew holds up nobody's purge.
async fn purge_passes_over_what_is_locked(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for id in ["one", "two", "three"] {
        let claim = cx.claim(&cx.request(&cx.key(id))).await?;
        store.release(&claim).await?;
    }
    let mut transaction = store.pool().begin().await?;
    let taken = cx.request(&cx.key("two"));
    let claim = store.claim_in(&mut transaction, &taken).await?.acquired();
    assert_eq!(store.purge(10).await?, 2, "all but the locked one");
    transaction.commit().await?;
    assert_eq!(store.purge(10).await?, 0, "the claim is live");
    Ok(store.release(&claim.expect("released before")).await?)
}
