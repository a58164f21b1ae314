//! Watermarks and checkpoints, observed at the server, and in a caller's transaction.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{Advance, ErrorKind, WatermarkStore};
use sqlx::{PgTransaction, Row};

use super::{case, shared};
use crate::support;

pub(super) const MARK_AND_BUSINESS_ROW_COMMIT_TOGETHER: Case =
    case(12, "mark_and_business_row_commit_together", |cx| {
        Box::pin(shared::mark_and_business_row_commit_together(cx))
    });
pub(super) const AN_ADVANCE_BESIDE_A_TRANSACTION_IS_TOLD_ITS_END: Case =
    case(1, "an_advance_beside_a_transaction_is_told_its_end", |cx| {
        Box::pin(an_advance_beside_a_transaction_is_told_its_end(cx))
    });
pub(super) const STALE_VERSIONS_WRITE_NOTHING: Case =
    case(15, "a_thousand_stale_versions_write_nothing", |cx| {
        Box::pin(a_thousand_stale_versions_write_nothing(cx))
    });
pub(super) const NO_MARK_IS_LOOKED_FOR_BY_A_SCAN: Case =
    case(16, "no_mark_is_looked_for_by_a_scan", |cx| {
        Box::pin(no_mark_is_looked_for_by_a_scan(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// A caller that advances a source which an open transaction has advanced repeats the call until
/// that ends, and gets the true answer.
async fn an_advance_beside_a_transaction_is_told_its_end(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for (start, commits, wanted) in [
        (None, true, Advance::Unchanged),
        (None, false, Advance::Advanced),
        (Some(3), true, Advance::Unchanged),
        (Some(3), false, Advance::Advanced),
    ] {
        let source = cx.key(format!("{start:?} {commits}"));
        if let Some(version) = start {
            store.advance(&source, version, HOUR).await?;
        }
        let mut transaction = store.pool().begin().await?;
        store.advance_in(&mut transaction, &source, 5, HOUR).await?;
        let error = store.advance(&source, 5, HOUR).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contention, "it waits no longer");
        match commits {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        let advance = || store.advance(&source, 5, HOUR);
        let returned = support::until_free(advance).await?;
        assert_eq!(returned, wanted, "{start:?}, committed: {commits}");
        assert_eq!(store.watermark(&source).await?, Some(5));
    }
    Ok(())
}

/// A stale version, a repetition and a read of a checkpoint take no transaction id: no row version,
/// no row lock.
async fn a_thousand_stale_versions_write_nothing(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let source = cx.key("source");
    store.advance(&source, 500, HOUR).await?;
    let mut transaction = store.pool().begin().await?;
    for version in (400..=500).cycle().take(1000) {
        let returned = store
            .advance_in(&mut transaction, &source, version, HOUR)
            .await?;
        assert_ne!(returned, Advance::Advanced, "version {version} after 500");
    }
    let id = sqlx::query("SELECT txid_current_if_assigned()").persistent(false);
    let id: Option<i64> = id.fetch_one(&mut *transaction).await?.try_get(0)?;
    assert_eq!(id, None, "the transaction's id");
    Ok(transaction.commit().await?)
}

/// With 50,000 marks in the table, an advance and a deletion go by its indexes.
async fn no_mark_is_looked_for_by_a_scan(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let schema = cx.namespace();
    harness
        .execute(format!(
            "INSERT INTO \"{schema}\".idem_records_watermarks (version, expires_at, scope, operation, id)
            SELECT 1, CASE WHEN number % 10 = 0 THEN 1 ELSE 4000000000000000 END, 'other', 'pay', 'filler-' || number
            FROM generate_series(1, 50000) AS number;
            ANALYZE \"{schema}\".idem_records_watermarks"
        ))
        .await?;
    let mut transaction = store.pool().begin().await?;
    let before = scans(&mut transaction, schema).await?;
    for version in [1, 2, 2, 1] {
        let source = cx.key("source");
        store
            .advance_in(&mut transaction, &source, version, HOUR)
            .await?;
    }
    assert_eq!(scans(&mut transaction, schema).await?, before, "scans");
    transaction.commit().await?;
    assert_eq!(store.delete_expired_watermarks(1000).await?, 1000);
    Ok(())
}

/// Returns sequential scans of this server process that it has not reported elsewhere yet.
async fn scans(transaction: &mut PgTransaction<'_>, schema: &str) -> CaseResult<i64> {
    let sum = sqlx::query(
        "SELECT CAST(COALESCE(sum(seq_scan), 0) AS bigint) FROM pg_stat_xact_user_tables
        WHERE relname = 'idem_records_watermarks' AND schemaname = $1",
    );
    let sum = sum.bind(schema).persistent(false);
    Ok(sum.fetch_one(&mut **transaction).await?.try_get(0)?)
}
