//! Law 16, observed at the server.

use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{BatchStore, Finish, IdempotencyStore, Response};
use sqlx::{AssertSqlSafe, PgTransaction, Row};

use super::case;
use super::reads::duplicates;
use crate::support;

pub(super) const NO_OPERATION_SCANS_A_LARGE_TABLE: Case =
    case(16, "no_operation_scans_a_large_table", |cx| {
        Box::pin(no_operation_scans_a_large_table(cx))
    });

pub(super) const NO_BATCH_SCANS_A_TABLE_THAT_WAS_EMPTY_AT_FIRST: Case =
    case(16, "no_batch_scans_a_table_that_was_empty_at_first", |cx| {
        Box::pin(no_batch_scans_a_table_that_was_empty_at_first(cx))
    });

pub(super) const A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK: Case =
    case(5, "a_clock_that_was_set_back_takes_no_token_back", |cx| {
        Box::pin(a_clock_that_was_set_back_takes_no_token_back(cx))
    });

/// A clock that was set back leaves a token from the future behind.
async fn a_clock_that_was_set_back_takes_no_token_back(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let claim = cx.claim(&cx.request(&cx.key("ahead"))).await?;
    cx.store().release(&claim).await?;
    let hour = 3_600_000_000;
    let ahead = format!("SET token = token + {hour}, purge_at = 0");
    let schema = cx.namespace();
    harness
        .execute(format!("UPDATE \"{schema}\".idem_records {ahead}"))
        .await?;
    assert_eq!(
        cx.store().delete_expired(10).await?,
        0,
        "the next token is made from it"
    );
    let next = cx.claim(&cx.request(claim.key())).await?;
    assert!(next.token().as_i64() > claim.token().as_i64() + hour);
    Ok(())
}

/// With 50,000 records in the table, the server's own counters say that claims, duplicates, a
/// completion, `delete_expired` and `fail_abandoned` read it through its indexes alone.
async fn no_operation_scans_a_large_table(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    harness.execute(fill(cx.namespace(), 50_000)).await?;
    let requests = duplicates(cx).await?;
    let mut transaction = store.pool().begin().await?;
    let before = scans(&mut transaction, cx.namespace()).await?;
    for request in &requests {
        let _duplicate = store.claim_in(&mut transaction, request).await?;
    }
    let fresh = cx.request(&cx.key("fresh"));
    let claim = store.claim_in(&mut transaction, &fresh).await?;
    let claim = claim.acquired().expect("the key is fresh");
    let (response, hour) = (Response::new(200, "done"), Duration::from_secs(3600));
    store
        .complete_in(&mut transaction, &claim, &response, hour)
        .await?;
    let after = scans(&mut transaction, cx.namespace()).await?;
    assert_eq!(after.0, before.0, "sequential scans");
    assert!(
        after.1 >= before.1 + 6,
        "{} index scans",
        after.1 - before.1
    );
    transaction.commit().await?;
    assert_eq!(store.delete_expired(1000).await?, 1000);
    assert_eq!(store.fail_abandoned(1000).await?, 0);
    Ok(())
}

/// Plans of prepared statements that were made for an empty table serve a full one, until its first
/// ANALYZE.
async fn no_batch_scans_a_table_that_was_empty_at_first(cx: &Context) -> CaseResult {
    const BATCHES: usize = 12;
    const ITEMS: usize = 40;

    let harness = support::harness(cx)?;
    let (store, hour) = (
        harness.store(cx.namespace()).await?,
        Duration::from_secs(3600),
    );
    // An ANALYZE in between would make new plans, which scan a small table.
    let schema = cx.namespace();
    harness
        .execute(format!(
            "ALTER TABLE \"{schema}\".idem_records SET (autovacuum_enabled = off)"
        ))
        .await?;
    for batch in 0..BATCHES {
        let requests: Vec<_> = (0..ITEMS)
            .map(|item| cx.request(&cx.key(format!("{batch}/{item}"))))
            .collect();
        let mut ends = Vec::new();
        for claimed in store.claim_many(&requests).await {
            let claim = claimed?.acquired().expect("the key is fresh");
            ends.push(Finish::Complete {
                claim,
                response: Response::new(200, "done"),
                retention: hour,
            });
        }
        for ended in store.finish_many(&ends).await {
            ended?;
        }
        for claimed in store.claim_many(&requests).await {
            assert_eq!(claimed?.name(), "completed");
        }
    }
    // A session reports its counters at its end, at the latest.
    store.pool().close().await;
    drop(store);
    let reader = harness.store(cx.namespace()).await?;
    let counters = format!(
        "SELECT n_tup_ins, COALESCE(seq_scan, 0) FROM pg_catalog.pg_stat_user_tables
        WHERE schemaname = '{}' AND relname = 'idem_records'",
        cx.namespace()
    );
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let query = sqlx::raw_sql(AssertSqlSafe(counters.clone()));
        let row = query.fetch_one(reader.pool()).await?;
        let (inserted, scans): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        if inserted >= (BATCHES * ITEMS) as i64 {
            // The creation of its three indexes scans it, and so may the first batches.
            assert!(scans < BATCHES as i64, "{scans} sequential scans");
            return Ok(());
        }
        assert!(Instant::now() < deadline, "only {inserted} rows reported");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns sequential and index scans of this server process that it has not reported elsewhere
/// yet.
async fn scans(transaction: &mut PgTransaction<'_>, schema: &str) -> CaseResult<(i64, i64)> {
    let sums = sqlx::query(
        "SELECT CAST(COALESCE(sum(seq_scan), 0) AS bigint), CAST(COALESCE(sum(idx_scan), 0) AS bigint)
        FROM pg_stat_xact_user_tables WHERE relname = 'idem_records' AND schemaname = $1",
    );
    let sums = sums.bind(schema).persistent(false);
    let row = sums.fetch_one(&mut **transaction).await?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}

/// Returns a statement that inserts records, one in ten of them expired.
fn fill(schema: &str, rows: u32) -> String {
    format!(
        "INSERT INTO \"{schema}\".idem_records (token, created_at, lease_ends_at, expires_at, purge_at,
            attempts, state, scope, operation, id, fingerprint, attempt_id)
        SELECT 1, 0, 0, expiry, expiry, 1, 0, 'other', 'payments.create', 'filler-' || number, '\\x00', '\\x00'
        FROM generate_series(1, {rows}) AS number,
            LATERAL (SELECT CASE WHEN number % 10 = 0 THEN 1 ELSE 4000000000000000 END AS expiry) AS e;
        ANALYZE \"{schema}\".idem_records"
    )
}
