//! Cases that idem-mysql has, too.

use idem_conformance::{CaseResult, Context, migration};
use idem_core::{Advance, Checkpoint, CheckpointStore, IdempotencyStore, WatermarkStore};
use sqlx::{AssertSqlSafe, Row};

use super::transactions::{HOUR, quoted};
use crate::support;

/// A mark, a checkpoint and the event's row are all stored, or none of them.
pub(super) async fn mark_and_business_row_commit_together(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let events = quoted(cx, "events");
    harness
        .execute(format!("CREATE TABLE {events} (version bigint)"))
        .await?;
    let store = harness.store(cx.namespace()).await?;
    let (source, claim) = (
        cx.key("source"),
        cx.claim(&cx.request(&cx.key("one"))).await?,
    );
    let (half, more) = (Checkpoint::new("half", "")?, Checkpoint::new("more", "")?);
    store.checkpoint(&claim, &half).await?;
    for commits in [false, true] {
        let mut transaction = store.pool().begin().await?;
        let returned = store.advance_in(&mut transaction, &source, 5, HOUR).await?;
        assert_eq!(returned, Advance::Advanced);
        let insert = format!("INSERT INTO {events} VALUES (5)");
        let insert = sqlx::query(AssertSqlSafe(insert)).persistent(false);
        insert.execute(&mut *transaction).await?;
        store.checkpoint_in(&mut transaction, &claim, &more).await?;
        let (mark, last) = match commits {
            true => {
                transaction.commit().await?;
                (Some(5), &more)
            }
            false => {
                transaction.rollback().await?;
                (None, &half)
            }
        };
        assert_eq!(store.watermark(&source).await?, mark);
        assert_eq!(store.last_checkpoint(&claim).await?.as_ref(), Some(last));
        let count = format!("SELECT count(*) FROM {events}");
        let mut transaction = store.pool().begin().await?;
        let count = sqlx::query(AssertSqlSafe(count)).persistent(false);
        let rows: i64 = count.fetch_one(&mut *transaction).await?.try_get(0)?;
        assert_eq!(rows, i64::from(commits), "rows");
        transaction.rollback().await?;
    }
    let mut transaction = store.pool().begin().await?;
    let returned = store.advance_in(&mut transaction, &source, 5, HOUR).await?;
    assert_eq!(returned, Advance::Unchanged);
    Ok(transaction.rollback().await?)
}

/// A table whose comment, set by this statement, names a later version.
pub(super) async fn a_later_schema_is_refused(cx: &Context, comment: String) -> CaseResult {
    let harness = support::harness(cx)?;
    harness.execute(comment).await?;
    let store = harness.store(cx.namespace()).await?;
    for error in [
        store.migrate().await.unwrap_err(),
        store.verify().await.unwrap_err(),
    ] {
        migration::is_misconfigured(&error, "upgrade the crate");
    }
    Ok(())
}

/// An installation from before watermarks gets their table, and keeps its records.
pub(super) async fn an_installation_without_watermarks_gets_their_table(
    cx: &Context,
) -> CaseResult {
    let harness = support::harness(cx)?;
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let drop = format!("DROP TABLE {}", quoted(cx, "idem_records_watermarks"));
    harness.execute(drop).await?;
    let store = harness.store(cx.namespace()).await?;
    let source = cx.key("source");
    let errors = [
        store.verify().await.unwrap_err(),
        store.advance(&source, 1, HOUR).await.unwrap_err(),
        store.watermark(&source).await.unwrap_err(),
        store.delete_expired_watermarks(1).await.unwrap_err(),
    ];
    for error in errors {
        migration::is_misconfigured(&error, "migrate()");
    }
    let mut migrations = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        migrations.spawn(async move { store.migrate().await });
    }
    for migrated in migrations.join_all().await {
        migrated?;
    }
    store.verify().await?;
    assert_eq!(store.advance(&source, 1, HOUR).await?, Advance::Advanced);
    store.release(&claim).await?;
    Ok(())
}
