//! Operations while another caller's transaction holds the key.

use std::time::Duration;

use idem_conformance::{Case, CaseError, CaseResult, Context, in_time};
use idem_core::{
    BatchStore, ClaimOutcome, Effect, ErrorKind, Finish, IdempotencyStore, IdempotencyStoreExt,
    Response, StalePolicy,
};
use idem_mysql::MySqlStore;
use sqlx::mysql::{MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};

use super::case;
use crate::support;

pub(super) const A_CLAIM_BESIDE_THE_TRANSACTION_THAT_CLAIMED_IS_CONTENDED: Case = case(
    2,
    "a_claim_beside_the_transaction_that_claimed_is_contended",
    |cx| Box::pin(a_claim_beside_the_transaction_that_claimed_is_contended(cx)),
);
pub(super) const A_TRANSACTION_BESIDE_ANOTHER_IS_CONTENDED: Case =
    case(2, "a_transaction_beside_another_is_contended", |cx| {
        Box::pin(a_transaction_beside_another_is_contended(cx))
    });
pub(super) const A_WAIT_THAT_IS_TOO_LONG_IS_AN_UNKNOWN_EFFECT: Case =
    case(14, "a_wait_that_is_too_long_is_an_unknown_effect", |cx| {
        Box::pin(a_wait_that_is_too_long_is_an_unknown_effect(cx))
    });

pub(super) const LOCKS_THAT_ARE_MET_ARE_COUNTED: Case =
    case(1, "locks_that_are_met_are_counted", |cx| {
        Box::pin(locks_that_are_met_are_counted(cx))
    });
pub(super) const NO_BATCH_WAITS_IN_A_CIRCLE: Case = case(1, "no_batch_waits_in_a_circle", |cx| {
    Box::pin(no_batch_waits_in_a_circle(cx))
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

/// A claim that meets the lock has not seen the record, so only the statement that writes can know
/// that the work must not run again.
async fn a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one")).with_lease(cx.short());
    let request = request.with_on_stale(StalePolicy::Fail);
    let mut transaction = store.pool().begin().await?;
    let _claim = store.claim_in(&mut transaction, &request).await?;
    // Time is the subject: the lease has to end while the record is not committed.
    tokio::time::sleep(cx.short() * 2).await;
    let (other, request) = (store.clone(), cx.request(request.key()));
    let waiting = tokio::spawn(async move { other.claim_retrying(&request, RETRY_TIMEOUT).await });
    until(|| store.contention().lock_waits > 0).await?;
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

/// How long a case repeats a call.
pub(super) const RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// Much longer than a claim waits for a lock, and much shorter than its wait without a bound of its
/// own.
const BOUND: Duration = Duration::from_secs(5);

fn is_contended<T: std::fmt::Debug>(answer: idem_core::Result<T>) {
    let error = answer.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Contention, Effect::None),
        "{error}"
    );
}

/// For any lock wait and isolation level of the caller's sessions: 50 s is the default wait.
const PATIENT: &[&str] = &[
    "SET SESSION innodb_lock_wait_timeout = 50",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
];

async fn a_claim_beside_the_transaction_that_claimed_is_contended(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let own = harness.store(cx.namespace()).await?;
    let mut stores = vec![own.clone()];
    for setting in PATIENT {
        let pool = MySqlPoolOptions::new().after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(*setting).await.map(drop) })
        });
        let options = harness.options()?;
        stores.push(harness.store_with(pool, options, cx.namespace()).await?);
    }
    for commits in [true, false] {
        let key = cx.key(format!("commits-{commits}"));
        let mut transaction = own.pool().begin().await?;
        let claim = own.claim_in(&mut transaction, &cx.request(&key)).await?;
        let claim = claim.acquired().expect("a fresh key");
        for store in &stores {
            let begun = tokio::time::Instant::now();
            is_contended(store.claim(&cx.request(&key)).await);
            is_contended(store.renew(&claim, HOUR).await);
            in_time(begun.elapsed(), BOUND)?;
        }
        let response = Response::new(200, "done");
        own.complete_in(&mut transaction, &claim, &response, HOUR)
            .await?;
        match commits {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        for store in &stores {
            let request = cx.request(&key);
            let outcome = store.claim_retrying(&request, RETRY_TIMEOUT).await?;
            match (commits, outcome) {
                (true, ClaimOutcome::Completed(_)) => {}
                (false, ClaimOutcome::Acquired(claim)) => store.release(&claim).await?,
                (_, outcome) => return Err(CaseError::new(outcome.name())),
            }
        }
    }
    Ok(())
}

/// In a transaction of any isolation level; afterwards the session's settings are as before.
async fn a_transaction_beside_another_is_contended(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    let mut first = store.pool().begin().await?;
    let claim = store.claim_in(&mut first, &request).await?.acquired();
    for setting in PATIENT {
        // On MySQL a plain read under SERIALIZABLE waits.
        if cx.harness().name() == "mysql" && setting.contains("SERIALIZABLE") {
            continue;
        }
        let mut connection = MySqlConnection::connect_with(&harness.options()?).await?;
        connection.execute(*setting).await?;
        connection
            .execute("SET SESSION innodb_lock_wait_timeout = 41")
            .await?;
        let mut second = connection.begin().await?;
        let begun = tokio::time::Instant::now();
        let rival = cx.request(request.key());
        is_contended(store.claim_in(&mut second, &rival).await);
        in_time(begun.elapsed(), BOUND)?;
        let fresh = cx.request(&cx.key(format!("fresh under {setting}")));
        let outcome = store.claim_in(&mut second, &fresh).await?;
        assert!(outcome.acquired().is_some());
        // Whatever the transaction has locked, a neighbour of its fresh key is free, except where
        // its reads lock, too.
        if !setting.contains("SERIALIZABLE") {
            let neighbour = cx.request(&cx.key(format!("fresh under {setting}, too")));
            let outcome = store.claim_retrying(&neighbour, BOUND).await?;
            assert!(outcome.acquired().is_some());
        }
        let row = sqlx::query("SELECT CAST(@@innodb_lock_wait_timeout AS SIGNED)");
        let wait: i64 = row.fetch_one(&mut *second).await?.try_get(0)?;
        assert_eq!(wait, 41);
        second.rollback().await?;
    }
    first.rollback().await?;
    assert!(claim.is_some());
    Ok(())
}

/// The store cannot distinguish a wait for a table from a wait for the commit.
async fn a_wait_that_is_too_long_is_an_unknown_effect(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let config = store.config().clone().with_timeout(Duration::from_secs(2));
    let pool = MySqlPoolOptions::new().connect_with(harness.options()?);
    let hasty = MySqlStore::with_config(pool.await?, config);
    let request = cx.request(&cx.key("one"));
    let mut other = MySqlConnection::connect_with(&harness.options()?).await?;
    let lock = format!("LOCK TABLES `{}`.idem_records READ", cx.namespace());
    other.execute(AssertSqlSafe(lock)).await?;
    let error = hasty.claim(&request).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown),
        "{error}"
    );
    // The statement still waits on the server, and may take effect now.
    other.execute("UNLOCK TABLES").await?;
    let claim = store
        .claim_retrying(&request, RETRY_TIMEOUT)
        .await?
        .acquired();
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

/// One completion of two meets a lock, which is counted; the other succeeds.
async fn locks_that_are_met_are_counted(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let mut other = store.pool().begin().await?;
    let completions = two_completions(cx).await?;
    lock(cx, &mut other, "two").await?;
    let mut answers = store.finish_many(&completions).await;
    is_contended(answers.remove(1));
    answers.remove(0)?;
    assert!(store.contention().lock_waits > 0);
    other.rollback().await?;
    completed_at_last(&store, &completions).await
}

/// The batch holds no lock while it meets another, so nothing waits for it, and the server has no
/// deadlock to break.
async fn no_batch_waits_in_a_circle(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let mut other = store.pool().begin().await?;
    let completions = two_completions(cx).await?;
    lock(cx, &mut other, "two").await?;
    let waiting = {
        let (store, completions) = (store.clone(), completions.clone());
        tokio::spawn(async move { store.finish_many(&completions).await })
    };
    until(|| store.contention().lock_waits > 0).await?;
    lock(cx, &mut other, "one").await?;
    other.commit().await?;
    waiting.await?;
    assert_eq!(store.contention().deadlocks, 0);
    completed_at_last(&store, &completions).await
}

async fn completed_at_last(store: &MySqlStore, completions: &[Finish]) -> CaseResult {
    let deadline = tokio::time::Instant::now() + RETRY_TIMEOUT;
    loop {
        let answers = store.finish_many(completions).await;
        let is_contended = |answer: &idem_core::Result<()>| {
            let error = answer.as_ref().err();
            error.is_some_and(|error| error.kind() == ErrorKind::Contention)
        };
        if !answers.iter().any(is_contended) || tokio::time::Instant::now() > deadline {
            return answers.into_iter().try_for_each(|answer| Ok(answer?));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Completions of the keys `one` and `two`, which are sealed in this order.
async fn two_completions(cx: &Context) -> CaseResult<Vec<Finish>> {
    let mut completions = Vec::new();
    for id in ["one", "two"] {
        completions.push(Finish::Complete {
            claim: cx.claim(&cx.request(&cx.key(id))).await?,
            response: Response::new(200, "done"),
            retention: HOUR,
        });
    }
    Ok(completions)
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

/// A transaction that acquires an expired key again does not block `delete_expired`.
async fn purge_passes_over_what_is_locked(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for id in ["one", "two", "three"] {
        let claim = cx.claim(&cx.request(&cx.key(id))).await?;
        store.release(&claim).await?;
    }
    let mut transaction = store.pool().begin().await?;
    let taken = cx.request(&cx.key("two"));
    let claim = store.claim_in(&mut transaction, &taken).await?.acquired();
    assert_eq!(store.delete_expired(10).await?, 2, "all but the locked one");
    transaction.commit().await?;
    assert_eq!(store.delete_expired(10).await?, 0, "the claim is live");
    Ok(store.release(&claim.expect("released before")).await?)
}
