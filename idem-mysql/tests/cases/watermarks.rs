//! Watermarks and checkpoints, observed at the server, and in a caller's transaction.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context, in_time};
use idem_core::{Advance, Effect, ErrorKind, WatermarkStore};

use super::reads::{SCANS, WRITES, handled, locks, shown};
use super::{case, shared};
use crate::support;

pub(super) const MARK_AND_BUSINESS_ROW_COMMIT_TOGETHER: Case =
    case(12, "mark_and_business_row_commit_together", |cx| {
        Box::pin(shared::mark_and_business_row_commit_together(cx))
    });
pub(super) const AN_ADVANCE_BESIDE_ANOTHERS_TRANSACTION_IS_CONTENDED: Case = case(
    1,
    "an_advance_beside_anothers_transaction_is_contended",
    |cx| Box::pin(an_advance_beside_anothers_transaction_is_contended(cx)),
);
pub(super) const STALE_VERSIONS_WRITE_NOTHING: Case =
    case(15, "a_thousand_stale_versions_write_nothing", |cx| {
        Box::pin(a_thousand_stale_versions_write_nothing(cx))
    });
pub(super) const NO_MARK_IS_LOOKED_FOR_BY_A_SCAN: Case =
    case(16, "no_mark_is_looked_for_by_a_scan", |cx| {
        Box::pin(no_mark_is_looked_for_by_a_scan(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// A caller that advances a source which a transaction has advanced gets `Contention`, and then the
/// true answer.
async fn an_advance_beside_anothers_transaction_is_contended(cx: &Context) -> CaseResult {
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
        let begun = tokio::time::Instant::now();
        let error = store.advance(&source, 5, HOUR).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Contention, Effect::None)
        );
        in_time(begun.elapsed(), Duration::from_secs(5))?;
        match commits {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        let returned = loop {
            match store.advance(&source, 5, HOUR).await {
                Err(error) if error.kind() == ErrorKind::Contention => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                returned => break returned?,
            }
        };
        assert_eq!(returned, wanted, "{start:?}, committed: {commits}");
        assert_eq!(store.watermark(&source).await?, Some(5));
    }
    Ok(())
}

/// A stale version or a repetition: the server has counted no written row, and lists no lock that
/// they have taken.
async fn a_thousand_stale_versions_write_nothing(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let source = cx.key("source");
    store.advance(&source, 500, HOUR).await?;
    let (mut transaction, held) = shown(cx, &store).await?;
    let before = handled(&mut transaction, WRITES).await?;
    for version in (400..=500).cycle().take(1000) {
        let returned = store
            .advance_in(&mut transaction, &source, version, HOUR)
            .await?;
        assert_ne!(returned, Advance::Advanced, "version {version} after 500");
    }
    let after = handled(&mut transaction, WRITES).await?;
    // Reading the counters takes a few writes to a temporary table.
    assert!(after < before + 100, "{} writes", after - before);
    assert_eq!(locks(&mut transaction).await?, held);
    Ok(transaction.rollback().await?)
}

/// With 10,000 marks in the table, an advance reads a handful of rows, and a deletion goes by its
/// index.
async fn no_mark_is_looked_for_by_a_scan(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let database = cx.namespace();
    harness
        .execute(format!(
            "INSERT INTO `{database}`.idem_records_watermarks (version, expires_at, scope, operation, id)
            WITH RECURSIVE digits AS (SELECT 0 AS digit UNION ALL SELECT digit + 1 FROM digits WHERE digit < 9),
                numbers AS (SELECT a.digit + 10 * b.digit + 100 * c.digit + 1000 * d.digit AS number
                    FROM digits a, digits b, digits c, digits d)
            SELECT 1, CASE WHEN number % 10 = 0 THEN 1 ELSE 4000000000000000 END, 'other', 'pay',
                CONCAT('filler-', number) FROM numbers"
        ))
        .await?;
    let mut transaction = store.pool().begin().await?;
    let before = handled(&mut transaction, SCANS).await?;
    for version in [1, 2, 2, 1] {
        let source = cx.key("source");
        store
            .advance_in(&mut transaction, &source, version, HOUR)
            .await?;
    }
    let after = handled(&mut transaction, SCANS).await?;
    assert!(after < before + 2000, "{} rows read", after - before);
    transaction.commit().await?;
    assert_eq!(store.delete_expired_watermarks(1000).await?, 1000);
    Ok(())
}
