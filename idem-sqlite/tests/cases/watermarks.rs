//! Watermarks and checkpoints, observed in the file, and in a caller's transaction.

use std::path::Path;
use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    Advance, Checkpoint, CheckpointStore, ErrorKind, IdempotencyStore, WatermarkStore,
};
use idem_sqlite::Transactions;
use sqlx::Connection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::case;
use crate::support;

pub(super) const MARK_AND_BUSINESS_ROW_COMMIT_TOGETHER: Case =
    case(12, "mark_and_business_row_commit_together", |cx| {
        Box::pin(mark_and_business_row_commit_together(cx))
    });
pub(super) const STALE_VERSIONS_NEED_NO_WRITE_LOCK: Case =
    case(15, "stale_versions_need_no_write_lock", |cx| {
        Box::pin(stale_versions_need_no_write_lock(cx))
    });
pub(super) const AN_INSTALLATION_WITHOUT_WATERMARKS_GETS_THEIR_TABLE: Case = case(
    12,
    "an_installation_without_watermarks_gets_their_table",
    |cx| Box::pin(an_installation_without_watermarks_gets_their_table(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

/// A mark, a checkpoint and the event's row are all stored, or none of them.
async fn mark_and_business_row_commit_together(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    sqlx::raw_sql("CREATE TABLE events (version INTEGER)")
        .execute(store.pool())
        .await?;
    let source = cx.key("source");
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let (half, more) = (Checkpoint::new("half", "")?, Checkpoint::new("more", "")?);
    store.checkpoint(&claim, &half).await?;
    for (commits, mark, last) in [(false, None, &half), (true, Some(5), &more)] {
        let transactions = Transactions::new(&store);
        let mut transaction = transactions.attempts().begin().await?;
        let returned = store.advance_in(&mut transaction, &source, 5, HOUR).await?;
        assert_eq!(returned, Advance::Advanced);
        sqlx::raw_sql("INSERT INTO events VALUES (5)")
            .execute(&mut *transaction)
            .await?;
        store.checkpoint_in(&mut transaction, &claim, &more).await?;
        match commits {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        assert_eq!(store.watermark(&source).await?, mark);
        assert_eq!(store.last_checkpoint(&claim).await?.as_ref(), Some(last));
        let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM events")
            .fetch_one(store.pool())
            .await?;
        assert_eq!(rows, i64::from(commits), "rows");
    }
    Ok(())
}

/// A stale version or a repetition is answered while another connection holds the write lock.
async fn stale_versions_need_no_write_lock(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    let source = cx.key("source");
    store.advance(&source, 5, HOUR).await?;
    let options = SqliteConnectOptions::new().filename(Path::new(cx.namespace()).join("idem.db"));
    let mut writer = SqliteConnection::connect_with(&options).await?;
    sqlx::raw_sql("BEGIN IMMEDIATE; CREATE TABLE business (row)")
        .execute(&mut writer)
        .await?;
    for (version, returned) in [(4, Advance::Stale { current: 5 }), (5, Advance::Unchanged)] {
        assert_eq!(store.advance(&source, version, HOUR).await?, returned);
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut writer).await?;
    Ok(writer.close().await?)
}

/// An installation from before watermarks gets their table, and keeps its records.
async fn an_installation_without_watermarks_gets_their_table(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let store = support::store(cx.namespace()).await?;
    sqlx::raw_sql("DROP TABLE idem_records_watermarks")
        .execute(store.pool())
        .await?;
    let source = cx.key("source");
    let errors = [
        store.verify().await.unwrap_err(),
        store.advance(&source, 1, HOUR).await.unwrap_err(),
        store.watermark(&source).await.unwrap_err(),
        store.delete_expired_watermarks(1).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error:?}");
        assert!(error.to_string().contains("migrate()"), "{error}");
    }
    let mut migrations = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = support::store(cx.namespace()).await?;
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
