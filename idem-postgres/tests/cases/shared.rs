//! Cases that idem-mysql has, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_conformance::{CaseResult, Context, migration};
use idem_core::{
    Advance, BoxError, Checkpoint, CheckpointStore, ClaimOutcome, ClaimRequest, IdempotencyStore,
    Response, WatermarkStore,
};
use sqlx::{AssertSqlSafe, Row};

use super::transactions::{HOUR, Isolation, Shop, Tx, quoted};
use crate::support;

impl Shop {
    /// Claims, pays and completes in one transaction; pays nothing for a duplicate.
    pub(super) async fn pay_once(&self, request: &ClaimRequest) -> Result<ClaimOutcome, BoxError> {
        let mut attempts = self.transactions.attempts();
        loop {
            let mut transaction = attempts.begin().await?;
            let result = self.claim_and_pay(&mut transaction, request).await;
            if let Some(result) = attempts.finish(transaction, result).await {
                return result;
            }
        }
    }

    pub(super) async fn claim_and_pay(
        &self,
        transaction: &mut Tx,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome, BoxError> {
        let outcome = self.store.claim_in(transaction, request).await?;
        if let ClaimOutcome::Acquired(claim) = &outcome {
            self.pay(transaction, request.key().id()).await?;
            let response = Response::new(201, "paid");
            self.store
                .complete_in(transaction, claim, &response, HOUR)
                .await?;
        }
        Ok(outcome)
    }
}

pub(super) async fn a_rollback_leaves_neither(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, &support::harness(cx)?).await?;
    let request = cx.request(&cx.key("one"));
    let mut attempts = shop.transactions.attempts();
    let mut transaction = attempts.begin().await?;
    let outcome = shop.claim_and_pay(&mut transaction, &request).await?;
    assert!(matches!(outcome, ClaimOutcome::Acquired(_)));
    let declined = Err::<(), _>("the card was declined");
    let error = attempts
        .finish(transaction, declined)
        .await
        .expect("not to be repeated");
    assert_eq!(error.unwrap_err().to_string(), "the card was declined");
    assert_eq!(shop.paid().await?.0, 0);
    assert_eq!(cx.store().get(request.key()).await?, None);
    let other = shop.pay_once(&cx.other_request(request.key())).await?;
    assert!(matches!(other, ClaimOutcome::Acquired(_)));
    Ok(())
}

/// Each transaction reads what the others write, so under SERIALIZABLE most of them fail at first.
pub(super) async fn serializable_transactions_are_repeated_as_a_whole(cx: &Context) -> CaseResult {
    const KEYS: usize = 12;
    let harness = support::harness(cx)?;
    let mut shop = Shop::open(cx, &harness).await?;
    shop.transactions = shop
        .transactions
        .with_isolation(Isolation::Serializable)
        .with_limit(Duration::from_secs(60));
    let (shop, acquired) = (Arc::new(shop), Arc::new(AtomicU32::new(0)));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..KEYS * 3 {
        let (shop, acquired) = (Arc::clone(&shop), Arc::clone(&acquired));
        let request = cx.request(&cx.key(format!("key-{}", number % KEYS)));
        tasks.spawn(async move {
            if let ClaimOutcome::Acquired(_) = shop.pay_once(&request).await? {
                acquired.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, BoxError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    assert_eq!(acquired.load(Ordering::Relaxed) as usize, KEYS);
    assert_eq!(
        shop.paid().await?,
        (KEYS as i64, KEYS as i64),
        "rows, and their running total"
    );
    Ok(())
}

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
