//! Transactions that write one record.

use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseResult, Context, in_time};
use idem_core::{
    Advance, BatchStore, BoxError, Checkpoint, Error, ErrorKind, IdempotencyStore, Record,
    Response, StalePolicy, WatermarkStore,
};
use idem_duckdb::{Config, DuckDbStore, DuckDbTransaction, is_transaction_retryable};

use super::case;
use crate::support::{self, file};

pub(super) const WITHOUT_RETURNING_AN_UPDATE_AND_A_DELETION_BOTH_COMMIT: Case = case(
    1,
    "without_returning_an_update_and_a_deletion_both_commit",
    |cx| Box::pin(without_returning_an_update_and_a_deletion_both_commit(cx)),
);
pub(super) const A_DELETION_AND_AN_ACQUISITION_CONFLICT: Case =
    case(1, "a_deletion_and_an_acquisition_conflict", |cx| {
        Box::pin(a_deletion_and_an_acquisition_conflict(cx))
    });
pub(super) const A_SWEEP_AND_A_COMPLETION_CONFLICT: Case =
    case(5, "a_sweep_and_a_completion_conflict", |cx| {
        Box::pin(a_sweep_and_a_completion_conflict(cx))
    });
pub(super) const STEPS_ON_DIFFERENT_COLUMNS_CONFLICT: Case =
    case(5, "steps_on_different_columns_conflict", |cx| {
        Box::pin(steps_on_different_columns_conflict(cx))
    });
pub(super) const A_DELETION_AND_AN_ADVANCE_CONFLICT: Case =
    case(15, "a_deletion_and_an_advance_conflict", |cx| {
        Box::pin(a_deletion_and_an_advance_conflict(cx))
    });
pub(super) const OF_TWO_TRANSACTIONS_WITH_A_FRESH_KEY_ONE_COMMITS: Case = case(
    1,
    "of_two_transactions_with_a_fresh_key_one_commits",
    |cx| Box::pin(of_two_transactions_with_a_fresh_key_one_commits(cx)),
);
pub(super) const A_CONFLICT_IS_REPEATED_FOR_A_BOUNDED_TIME: Case =
    case(14, "a_conflict_is_repeated_for_a_bounded_time", |cx| {
        Box::pin(a_conflict_is_repeated_for_a_bounded_time(cx))
    });
pub(super) const A_CONFLICT_OF_ONE_KEY_FAILS_NO_OTHER_OF_THE_BATCH: Case = case(
    11,
    "a_conflict_of_one_key_fails_no_other_of_the_batch",
    |cx| Box::pin(a_conflict_of_one_key_fails_no_other_of_the_batch(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

/// Opens a store that gives up a conflict soon.
async fn hasty(cx: &Context) -> CaseResult<DuckDbStore> {
    let config = Config::new().with_retry_timeout(Duration::from_millis(40));
    Ok(DuckDbStore::connect(file(cx.namespace()), config).await?)
}

/// Begins a transaction that has its snapshot.
async fn snapshot(store: &DuckDbStore) -> CaseResult<DuckDbTransaction> {
    let mut transaction = store.pool().begin().await?;
    let query = "SELECT count(*) FROM idem_records";
    let seen = transaction
        .run(move |connection| connection.query_row(query, [], |row| row.get::<_, i64>(0)));
    seen.await?;
    Ok(transaction)
}

fn is_conflict<T: std::fmt::Debug>(returned: Result<T, Error>) {
    let error = returned.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
    assert_eq!(error.effect(), idem_core::Effect::None, "{error}");
}

async fn execute(transaction: &mut DuckDbTransaction, sql: &'static str) -> Result<(), BoxError> {
    let executed = transaction.run(move |connection| connection.execute_batch(sql));
    executed.await
}

/// Why every statement of the store returns rows: what DuckDB itself does without and with
/// `RETURNING`.
async fn without_returning_an_update_and_a_deletion_both_commit(cx: &Context) -> CaseResult {
    let store = hasty(cx).await?;
    let pool = store.pool();
    let create = "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER, w INTEGER)";
    pool.run(move |connection| connection.execute_batch(create))
        .await?;
    let insert = "INSERT INTO t VALUES (1, 0, 0) ON CONFLICT (k) DO NOTHING";
    for (update, delete, is_conflict) in [
        (
            "UPDATE t SET v = 1 WHERE k = 1",
            "UPDATE t SET w = 1 WHERE k = 1",
            false,
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 RETURNING 1",
            "UPDATE t SET w = 1 WHERE k = 1 RETURNING 1",
            true,
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1",
            "DELETE FROM t WHERE k = 1",
            false,
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1",
            "DELETE FROM t WHERE k = 1 RETURNING 1",
            false,
        ),
        (
            "UPDATE t SET v = 1 WHERE k = 1 RETURNING 1",
            "DELETE FROM t WHERE k = 1 RETURNING 1",
            true,
        ),
        (
            "INSERT INTO t VALUES (1, 1, 1) ON CONFLICT (k) DO UPDATE SET v = 1 RETURNING 1",
            "DELETE FROM t WHERE k = 1 RETURNING 1",
            true,
        ),
    ] {
        for deletes_first in [false, true] {
            pool.run(move |connection| connection.execute_batch(insert))
                .await?;
            let (first, second) = match deletes_first {
                true => (delete, update),
                false => (update, delete),
            };
            let (mut a, mut b) = (pool.begin().await?, pool.begin().await?);
            execute(&mut a, first).await?;
            match execute(&mut b, second).await {
                Ok(()) => {
                    assert!(!is_conflict, "{first}; {second}");
                    b.commit().await?;
                }
                Err(error) => {
                    assert!(is_conflict, "{first}; {second}: {error}");
                    assert!(is_transaction_retryable(&*error), "{error}");
                    b.rollback().await?;
                }
            }
            a.commit().await?;
        }
    }
    Ok(())
}

/// In both orders: the deletion of an expired record meets one that acquires it, and the other way
/// round. Were both to commit, the acquired record would be gone.
async fn a_deletion_and_an_acquisition_conflict(cx: &Context) -> CaseResult {
    let store = hasty(cx).await?;
    let request = cx.request(&cx.key("acquired first"));
    let claim = cx.claim(&request).await?;
    cx.store().release(&claim).await?;
    let mut transaction = store.pool().begin().await?;
    let again = cx.request(request.key());
    let acquired = store.claim_in(&mut transaction, &again).await?;
    assert_eq!(acquired.name(), "acquired");
    is_conflict(store.delete_expired(10).await);
    transaction.commit().await?;
    assert_eq!(store.delete_expired(10).await?, 0);
    let record = store.get(request.key()).await?;
    assert!(matches!(record, Some(Record::InFlight(_))));

    let request = cx.request(&cx.key("deleted first"));
    let claim = cx.claim(&request).await?;
    cx.store().release(&claim).await?;
    let mut transaction = snapshot(&store).await?;
    assert_eq!(store.delete_expired(10).await?, 1);
    let again = cx.request(request.key());
    is_conflict(store.claim_in(&mut transaction, &again).await);
    // DuckDB has aborted the transaction, and says so from now on.
    is_conflict(store.claim_in(&mut transaction, &again).await);
    is_conflict(transaction.commit().await);
    assert_eq!(store.get(request.key()).await?, None);
    Ok(())
}

/// A record whose holder is late, and which fails when it is stale.
async fn a_sweep_and_a_completion_conflict(cx: &Context) -> CaseResult {
    let store = hasty(cx).await?;
    let response = Response::new(200, "late");
    let stale = |id: &'static str| async move {
        let request = cx.request(&cx.key(id)).with_lease(cx.short());
        let claim = cx.claim(&request.with_on_stale(StalePolicy::Fail)).await?;
        cx.until_stale(claim.key()).await?;
        CaseResult::Ok(claim)
    };
    let claim = stale("completed first").await?;
    let mut transaction = store.pool().begin().await?;
    let completed = store.complete_in(&mut transaction, &claim, &response, HOUR);
    completed.await?;
    is_conflict(store.fail_abandoned(10).await);
    transaction.commit().await?;
    assert_eq!(store.fail_abandoned(10).await?, 0);
    let record = store.get(claim.key()).await?;
    assert!(matches!(record, Some(Record::Completed(_))));

    let claim = stale("swept first").await?;
    let mut transaction = snapshot(&store).await?;
    assert_eq!(store.fail_abandoned(10).await?, 1);
    let completed = store.complete_in(&mut transaction, &claim, &response, HOUR);
    is_conflict(completed.await);
    transaction.rollback().await?;
    let record = store.get(claim.key()).await?;
    assert!(matches!(record, Some(Record::Failed(_))));
    Ok(())
}

/// A checkpoint and a renewal write different columns. Without `RETURNING` they would not conflict.
async fn steps_on_different_columns_conflict(cx: &Context) -> CaseResult {
    let store = hasty(cx).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let half = Checkpoint::new("half", "")?;
    let mut transaction = store.pool().begin().await?;
    store.checkpoint_in(&mut transaction, &claim, &half).await?;
    is_conflict(store.renew(&claim, HOUR).await);
    transaction.commit().await?;
    let _renewed = store.renew(&claim, HOUR).await?;
    Ok(())
}

async fn a_deletion_and_an_advance_conflict(cx: &Context) -> CaseResult {
    let store = hasty(cx).await?;
    let source = cx.key("source");
    let short = Duration::from_millis(1);
    assert_eq!(store.advance(&source, 7, short).await?, Advance::Advanced);
    while store.watermark(&source).await?.is_some() {
        tokio::time::sleep(short).await;
    }
    let mut transaction = store.pool().begin().await?;
    let advanced = store.advance_in(&mut transaction, &source, 3, HOUR).await?;
    assert_eq!(advanced, Advance::Advanced);
    is_conflict(store.delete_expired_watermarks(10).await);
    transaction.commit().await?;
    assert_eq!(store.delete_expired_watermarks(10).await?, 0);
    assert_eq!(store.watermark(&source).await?, Some(3));
    Ok(())
}

/// The second is kept waiting for a moment. Of writers that the store does not know, DuckDB refuses
/// the later commit.
async fn of_two_transactions_with_a_fresh_key_one_commits(cx: &Context) -> CaseResult {
    let store = hasty(cx).await?;
    let key = cx.key("both in transactions");
    let (mut a, mut b) = (store.pool().begin().await?, store.pool().begin().await?);
    let (first, second) = (cx.request(&key), cx.request(&key));
    assert_eq!(store.claim_in(&mut a, &first).await?.name(), "acquired");
    is_conflict(store.claim_in(&mut b, &second).await);
    is_conflict(store.claim(&second).await);
    b.rollback().await?;
    a.commit().await?;
    let again = store.claim(&first).await?;
    assert_eq!(again.name(), "acquired", "the same attempt");
    assert_eq!(store.claim(&second).await?.name(), "in_flight");

    cx.hold(&cx.request(&cx.key("a model"))).await?;
    let key = cx.key("inserted by hand");
    let path = key.path().into_bytes();
    let mut transaction = store.pool().begin().await?;
    let copy = "INSERT INTO idem_records
        SELECT * REPLACE (?::BLOB AS key) FROM idem_records LIMIT 1";
    let copied = transaction.run(move |connection| connection.execute(copy, [path]));
    assert_eq!(copied.await?, 1);
    cx.hold(&cx.request(&key)).await?;
    is_conflict(transaction.commit().await);
    Ok(())
}

async fn a_conflict_is_repeated_for_a_bounded_time(cx: &Context) -> CaseResult {
    let store = hasty(cx).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let response = Response::new(200, "done");
    let mut transaction = store.pool().begin().await?;
    let half = Checkpoint::new("half", "")?;
    store.checkpoint_in(&mut transaction, &claim, &half).await?;
    let begun = Instant::now();
    is_conflict(store.complete(&claim, &response, HOUR).await);
    in_time(begun.elapsed(), Duration::from_secs(5))?;
    // A patient store outlasts the transaction.
    let patient = Config::new().with_retry_timeout(Duration::from_secs(60));
    let patient = patient.with_timeout(Duration::from_secs(60));
    let patient = DuckDbStore::connect(file(cx.namespace()), patient).await?;
    let completed = patient.complete(&claim, &response, HOUR);
    let commit = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        transaction.commit().await
    };
    let (completed, committed) = tokio::join!(completed, commit);
    committed?;
    completed?;
    Ok(())
}

async fn a_conflict_of_one_key_fails_no_other_of_the_batch(cx: &Context) -> CaseResult {
    let store = hasty(cx).await?;
    let held = cx.request(&cx.key("held"));
    let claim = cx.claim(&held).await?;
    cx.store().release(&claim).await?;
    let mut transaction = store.pool().begin().await?;
    let mine = store
        .claim_in(&mut transaction, &cx.request(held.key()))
        .await?;
    assert_eq!(mine.name(), "acquired");
    let requests = ["a", "held", "z"].map(|id| cx.request(&cx.key(id)));
    let mut answers = store.claim_many(&requests).await;
    is_conflict(answers.remove(1));
    for answer in answers {
        assert_eq!(answer?.name(), "acquired");
    }
    transaction.rollback().await?;
    Ok(support::store(cx.namespace()).await?.verify().await?)
}
