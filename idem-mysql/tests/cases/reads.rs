//! Laws 15 and 16, observed at the server.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{AttemptId, ClaimOutcome, ClaimRequest, Failure, IdempotencyStore, Response};
use idem_mysql::MySqlStore;
use sqlx::mysql::{MySqlConnection, MySqlPoolOptions, MySqlTransaction};
use sqlx::{AssertSqlSafe, Row};

use super::case;
use crate::support;

pub(super) const DUPLICATES_LOCK_AND_WRITE_NOTHING: Case =
    case(15, "a_thousand_duplicates_lock_and_write_nothing", |cx| {
        Box::pin(a_thousand_duplicates_lock_and_write_nothing(cx))
    });
pub(super) const NO_OPERATION_SCANS_A_LARGE_TABLE: Case =
    case(16, "no_operation_scans_a_large_table", |cx| {
        Box::pin(no_operation_scans_a_large_table(cx))
    });
pub(super) const A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK: Case =
    case(5, "a_clock_that_was_set_back_takes_no_token_back", |cx| {
        Box::pin(a_clock_that_was_set_back_takes_no_token_back(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// A thousand duplicates of every kind in one transaction: the server has counted no written row,
/// and lists no lock that they have taken.
async fn a_thousand_duplicates_lock_and_write_nothing(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let requests = duplicates(cx).await?;
    let (mut transaction, held) = shown(cx, &store).await?;
    let before = handled(&mut transaction, WRITES).await?;
    for number in 0..1000 {
        let request = &requests[number % requests.len()];
        let outcome = store.claim_in(&mut transaction, request).await?;
        assert!(!matches!(outcome, ClaimOutcome::Acquired(_)));
    }
    let after = handled(&mut transaction, WRITES).await?;
    // Reading the counters takes a few writes to a temporary table.
    assert!(after < before + 100, "{} writes", after - before);
    assert_eq!(locks(&mut transaction).await?, held);
    Ok(transaction.rollback().await?)
}

/// Returns a transaction that has claimed a key, and its locked and changed rows: MySQL shows those
/// of a transaction that has written, and not all of others.
pub(super) async fn shown(
    cx: &Context,
    store: &MySqlStore,
) -> CaseResult<(MySqlTransaction<'static>, u64)> {
    let mut transaction = store.pool().begin().await?;
    let fresh = cx.request(&cx.key("fresh"));
    let _claim = store.claim_in(&mut transaction, &fresh).await?;
    let held = locks(&mut transaction).await?;
    assert!(held > 0, "a claim that is seen");
    Ok((transaction, held))
}

/// Returns requests for a key in each state, and one in conflict.
async fn duplicates(cx: &Context) -> CaseResult<Vec<ClaimRequest>> {
    let [done, failed, held] = ["done", "failed", "held"].map(|id| cx.request(&cx.key(id)));
    let claim = cx.claim(&done).await?;
    cx.store()
        .complete(&claim, &Response::new(200, "done"), HOUR)
        .await?;
    let claim = cx.claim(&failed).await?;
    cx.store()
        .fail(&claim, &Failure::new("no", "no"), HOUR)
        .await?;
    cx.hold(&held).await?;
    let conflict = cx.other_request(done.key());
    let again = |request: ClaimRequest| request.with_attempt(AttemptId::random());
    Ok([done, failed, held, conflict].map(again).into())
}

pub(super) const WRITES: &str = "'Handler_write', 'Handler_update', 'Handler_delete'";
pub(super) const SCANS: &str = "'Handler_read_rnd_next', 'Handler_read_next', 'Handler_read_prev'";

/// Returns the sum of counters of this session.
pub(super) async fn handled(connection: &mut MySqlConnection, counters: &str) -> CaseResult<u64> {
    let sql = format!("SHOW SESSION STATUS WHERE Variable_name IN ({counters})");
    let rows = sqlx::raw_sql(AssertSqlSafe(sql))
        .fetch_all(connection)
        .await?;
    let mut sum = 0;
    for row in rows {
        sum += row.try_get::<String, _>(1)?.parse::<u64>()?;
    }
    Ok(sum)
}

/// Returns locked and changed rows of the transaction, which has written, from the monitor's
/// report. `innodb_trx` fails on MySQL (3854) for as long as a statement of any session holds bytes
/// that are no text.
pub(super) async fn locks(transaction: &mut MySqlTransaction<'_>) -> CaseResult<u64> {
    let own = sqlx::query("SELECT CAST(CONNECTION_ID() AS SIGNED)");
    let own: i64 = own.fetch_one(&mut **transaction).await?.try_get(0)?;
    let report = sqlx::raw_sql("SHOW ENGINE INNODB STATUS");
    let row = report.fetch_one(&mut **transaction).await?;
    let report: Vec<u8> = row.try_get_unchecked(2)?;
    let report = String::from_utf8_lossy(&report);
    let thread = format!("thread id {own},");
    let mut transactions = report.split("---TRANSACTION ");
    let own = transactions.find(|returned| returned.contains(&thread));
    let own = own.ok_or("the server does not show its transactions")?;
    let line = own.lines().find(|line| line.contains(" row lock(s)"));
    let counted = |what: &str| {
        let count = line?.split(", ").find_map(|part| {
            let part = part.trim();
            part.strip_suffix(what).or_else(|| part.strip_prefix(what))
        })?;
        count.trim().parse::<u64>().ok()
    };
    let locked = counted("row lock(s)").ok_or_else(|| format!("no count of locks: {own}"))?;
    Ok(locked + counted("undo log entries").unwrap_or(0))
}

/// With 20,000 records in the table, the server's own counters say that claims, duplicates, a
/// batch, completions, `delete_expired` and `fail_abandoned` read it through its indexes alone.
async fn no_operation_scans_a_large_table(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let table = format!("`{}`.idem_records", cx.namespace());
    for statement in fill(&table) {
        harness.execute(statement).await?;
    }
    let requests = duplicates(cx).await?;
    let mut transaction = store.pool().begin().await?;
    let before = handled(&mut transaction, SCANS).await?;
    for request in &requests {
        let _duplicate = store.claim_in(&mut transaction, request).await?;
    }
    let fresh = cx.request(&cx.key("fresh"));
    let claim = store.claim_in(&mut transaction, &fresh).await?;
    let claim = claim.acquired().expect("the key is fresh");
    store
        .complete_in(&mut transaction, &claim, &Response::new(200, "done"), HOUR)
        .await?;
    let after = handled(&mut transaction, SCANS).await?;
    // The query for the counters counts, too.
    assert!(after < before + 5_000, "{} rows were read", after - before);
    transaction.commit().await?;
    let pool = MySqlPoolOptions::new().max_connections(1);
    let single = harness
        .store_with(pool, harness.options()?, cx.namespace())
        .await?;
    let before = handled(&mut *single.pool().acquire().await?, SCANS).await?;
    assert_eq!(single.delete_expired(1000).await?, 1000);
    assert_eq!(single.fail_abandoned(1000).await?, 0);
    let after = handled(&mut *single.pool().acquire().await?, SCANS).await?;
    assert!(after < before + 15_000, "{} rows were read", after - before);
    plans_use_keys(&mut *store.pool().acquire().await?, &table).await
}

/// Lists of keys, as batches, `delete_expired` and `fail_abandoned` send them, are read by the
/// primary key.
async fn plans_use_keys(connection: &mut MySqlConnection, table: &str) -> CaseResult {
    let key = |number| {
        format!("(scope = 'other' AND operation = 'payments.create' AND id = 'filler-{number}')")
    };
    let keys: Vec<_> = (1..64).map(key).collect();
    let keys = keys.join(" OR ");
    let sql = format!("EXPLAIN FORMAT = TRADITIONAL SELECT token FROM {table} WHERE {keys}");
    let row = sqlx::raw_sql(AssertSqlSafe(sql))
        .fetch_one(connection)
        .await?;
    let key: Option<String> = row.try_get("key")?;
    assert_eq!(key.as_deref(), Some("PRIMARY"));
    Ok(())
}

/// Returns statements that insert records: one in ten has expired, and half may be failed as
/// abandoned.
fn fill(table: &str) -> [String; 2] {
    let digits = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL \
        SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";
    let number = "a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n";
    let expiry = "CASE WHEN a.n = 0 THEN 1 ELSE 4000000000000000 END";
    let sweep = "CASE WHEN a.n BETWEEN 1 AND 5 THEN 3000000000000000 END";
    let due = format!("COALESCE({sweep} - 4611686018427387904, {expiry})");
    [
        format!(
            "INSERT INTO {table} (token, created_at, lease_ends_at, expires_at, sweep_at, purge_at, attempts, \
                state, scope, operation, id, fingerprint, attempt_id)
            SELECT 1, 0, 0, {expiry}, {sweep}, {due}, 1, 0, 'other', 'payments.create', CONCAT('filler-', {number}), x'00', \
                x'00000000000000000000000000000000'
            FROM {digits} AS a, {digits} AS b, {digits} AS c, {digits} AS d, (SELECT 0 AS n UNION ALL SELECT 1) AS e"
        ),
        format!("ANALYZE TABLE {table}"),
    ]
}

/// A clock that was set back leaves a token from the future behind.
async fn a_clock_that_was_set_back_takes_no_token_back(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let claim = cx.claim(&cx.request(&cx.key("ahead"))).await?;
    cx.store().release(&claim).await?;
    let hour = 3_600_000_000;
    let database = cx.namespace();
    harness
        .execute(format!(
            "UPDATE `{database}`.idem_records SET token = token + {hour}, purge_at = 0"
        ))
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
