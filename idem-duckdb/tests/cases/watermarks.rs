//! Watermarks and checkpoints in a caller's transaction.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{Advance, Checkpoint, CheckpointStore, WatermarkStore};

use super::case;
use crate::support;

pub(super) const MARK_AND_BUSINESS_ROW_COMMIT_TOGETHER: Case =
    case(12, "mark_and_business_row_commit_together", |cx| {
        Box::pin(mark_and_business_row_commit_together(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// A mark, a checkpoint and the event's row are all stored, or none of them.
async fn mark_and_business_row_commit_together(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    let pool = store.pool();
    let create = "CREATE TABLE events (version INTEGER)";
    pool.run(move |connection| connection.execute_batch(create))
        .await?;
    let source = cx.key("source");
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let (half, more) = (Checkpoint::new("half", "")?, Checkpoint::new("more", "")?);
    store.checkpoint(&claim, &half).await?;
    for (commits, mark, last) in [(false, None, &half), (true, Some(5), &more)] {
        let mut transaction = pool.begin().await?;
        let returned = store.advance_in(&mut transaction, &source, 5, HOUR).await?;
        assert_eq!(returned, Advance::Advanced);
        let insert = "INSERT INTO events VALUES (5)";
        transaction
            .run(move |connection| connection.execute_batch(insert))
            .await?;
        store.checkpoint_in(&mut transaction, &claim, &more).await?;
        match commits {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        assert_eq!(store.watermark(&source).await?, mark);
        assert_eq!(store.last_checkpoint(&claim).await?.as_ref(), Some(last));
        let count = "SELECT count(*) FROM events";
        let rows =
            pool.run(move |connection| connection.query_row(count, [], |row| row.get::<_, i64>(0)));
        assert_eq!(rows.await?, i64::from(commits));
    }
    let again = store.advance(&source, 5, HOUR).await?;
    assert_eq!(again, Advance::Unchanged);
    let stale = store.advance(&source, 4, HOUR).await?;
    assert_eq!(stale, Advance::Stale { current: 5 });
    Ok(())
}
