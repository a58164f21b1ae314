//! The record and the caller's rows commit together.

use std::time::Duration;

use idem_conformance::cancel::polled;
use idem_conformance::{Case, CaseResult, Context, described};
use idem_core::{BoxError, ClaimOutcome, ClaimRequest, IdempotencyStore, Record, Response};
use idem_sqlite::{Config, SqliteStore, Transactions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Row, SqliteTransaction};

use super::case;
use crate::support;

pub(super) const RECORD_AND_BUSINESS_ROW_COMMIT_TOGETHER: Case =
    case(12, "record_and_business_row_commit_together", |cx| {
        Box::pin(record_and_business_row_commit_together(cx))
    });
pub(super) const A_ROLLBACK_LEAVES_NEITHER: Case = case(12, "a_rollback_leaves_neither", |cx| {
    Box::pin(a_rollback_leaves_neither(cx))
});
pub(super) const A_CLAIM_IN_A_TRANSACTION_IS_TOLD_THE_SAME: Case =
    case(1, "a_claim_in_a_transaction_is_told_the_same", |cx| {
        Box::pin(a_claim_in_a_transaction_is_told_the_same(cx))
    });
pub(super) const A_LOST_CLAIM_ROLLS_THE_BUSINESS_ROW_BACK: Case =
    case(5, "a_lost_claim_rolls_the_business_row_back", |cx| {
        Box::pin(a_lost_claim_rolls_the_business_row_back(cx))
    });
pub(super) const TRANSACTIONS_THAT_MEET_A_LOCK_ARE_REPEATED: Case =
    case(1, "transactions_that_meet_a_lock_are_repeated", |cx| {
        Box::pin(transactions_that_meet_a_lock_are_repeated(cx))
    });
pub(super) const A_TRANSACTION_DROPPED_AT_ANY_POLL_IS_NOT_LEFT_OPEN: Case = case(
    13,
    "a_transaction_dropped_at_any_poll_is_not_left_open",
    |cx| Box::pin(a_transaction_dropped_at_any_poll_is_not_left_open(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

/// A store, and a table of payments in its file without any constraint that would hide a second
/// row.
struct Shop {
    store: SqliteStore,
    transactions: Transactions,
}

impl Shop {
    async fn open(cx: &Context) -> CaseResult<Self> {
        let store = support::store(cx.namespace()).await?;
        sqlx::raw_sql("CREATE TABLE IF NOT EXISTS payments (key TEXT, total INTEGER)")
            .execute(store.pool())
            .await?;
        Ok(Self {
            transactions: Transactions::new(store.pool().clone()),
            store,
        })
    }

    async fn pay(transaction: &mut SqliteTransaction<'_>, key: String) -> Result<(), BoxError> {
        sqlx::query("INSERT INTO payments SELECT ?1, COALESCE(max(total), 0) + 1 FROM payments")
            .bind(key)
            .execute(&mut **transaction)
            .await?;
        Ok(())
    }

    async fn paid(&self) -> CaseResult<(i64, i64)> {
        let row = sqlx::query("SELECT count(*), COALESCE(max(total), 0) FROM payments")
            .fetch_one(self.store.pool())
            .await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    /// Claims, pays and completes in one transaction; pays nothing for a duplicate.
    async fn pay_once(&self, request: &ClaimRequest) -> Result<ClaimOutcome, BoxError> {
        let mut attempts = self.transactions.attempts();
        loop {
            let mut transaction = attempts.begin().await?;
            let result = self.claim_and_pay(&mut transaction, request).await;
            if let Some(result) = attempts.finish(transaction, result).await {
                return result;
            }
        }
    }

    async fn claim_and_pay(
        &self,
        transaction: &mut SqliteTransaction<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome, BoxError> {
        let outcome = self.store.claim_in(transaction, request).await?;
        if let ClaimOutcome::Acquired(claim) = &outcome {
            Self::pay(transaction, request.key().id().to_owned()).await?;
            let response = Response::new(201, "paid");
            self.store
                .complete_in(transaction, claim, &response, HOUR)
                .await?;
        }
        Ok(outcome)
    }
}

async fn record_and_business_row_commit_together(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let request = cx.request(&cx.key("one"));
    assert_eq!(shop.pay_once(&request).await?.name(), "acquired");
    assert_eq!(
        shop.pay_once(&cx.request(request.key())).await?.name(),
        "completed"
    );
    assert_eq!(shop.paid().await?.0, 1);
    assert!(matches!(
        cx.store().get(request.key()).await?,
        Some(Record::Completed(_))
    ));
    Ok(())
}

async fn a_rollback_leaves_neither(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let request = cx.request(&cx.key("one"));
    let mut attempts = shop.transactions.attempts();
    let mut transaction = attempts.begin().await?;
    assert_eq!(
        shop.claim_and_pay(&mut transaction, &request).await?.name(),
        "acquired"
    );
    let declined = Err::<(), _>("the card was declined");
    let error = attempts
        .finish(transaction, declined)
        .await
        .expect("not to be repeated");
    assert_eq!(error.unwrap_err().to_string(), "the card was declined");
    assert_eq!(shop.paid().await?.0, 0);
    assert_eq!(cx.store().get(request.key()).await?, None);
    let other = shop.pay_once(&cx.other_request(request.key())).await?;
    assert_eq!(other.name(), "acquired");
    Ok(())
}

async fn a_lost_claim_rolls_the_business_row_back(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let key = cx.key("one");
    let lost = cx.stale_claim(&cx.request(&key)).await?;
    cx.hold(&cx.request(&key)).await?;
    let mut attempts = shop.transactions.attempts();
    let mut transaction = attempts.begin().await?;
    Shop::pay(&mut transaction, "one".to_owned()).await?;
    let response = Response::new(201, "paid");
    let completed = shop
        .store
        .complete_in(&mut transaction, &lost, &response, HOUR)
        .await;
    assert!(
        completed
            .as_ref()
            .is_err_and(idem_core::Error::is_claim_lost)
    );
    assert!(
        attempts
            .finish(transaction, completed)
            .await
            .is_some_and(|result| result.is_err())
    );
    assert_eq!(shop.paid().await?.0, 0);
    Ok(())
}

/// Connections that do not wait for the lock at all: every transaction that meets it fails, and is
/// repeated.
async fn transactions_that_meet_a_lock_are_repeated(cx: &Context) -> CaseResult {
    const KEYS: usize = 12;
    let shop = Shop::open(cx).await?;
    let file = std::path::Path::new(cx.namespace()).join("idem.db");
    let options = SqliteConnectOptions::new()
        .filename(file)
        .busy_timeout(Duration::ZERO);
    let pool = SqlitePoolOptions::new()
        .max_connections(8)
        .connect_with(options)
        .await?;
    let hasty = std::sync::Arc::new(Shop {
        store: SqliteStore::with_config(pool.clone(), Config::new()),
        transactions: Transactions::new(pool).with_limit(Duration::from_secs(60)),
    });
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..KEYS * 3 {
        let (hasty, request) = (
            hasty.clone(),
            cx.request(&cx.key(format!("key-{}", number % KEYS))),
        );
        tasks.spawn(async move { hasty.pay_once(&request).await.map(|outcome| outcome.name()) });
    }
    let mut acquired = 0;
    while let Some(done) = tasks.join_next().await {
        acquired += usize::from(done?? == "acquired");
    }
    assert_eq!(acquired, KEYS);
    assert_eq!(
        shop.paid().await?,
        (KEYS as i64, KEYS as i64),
        "rows, and their running total"
    );
    Ok(())
}

/// A transaction left open would keep the write lock for ever.
async fn a_transaction_dropped_at_any_poll_is_not_left_open(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    for polls in 0.. {
        let request = cx.request(&cx.key(format!("dropped-{polls}")));
        let finished = polled(shop.pay_once(&request), polls).await;
        cx.hold(&cx.request(&cx.key(format!("after-{polls}"))))
            .await?;
        let record = cx.store().get(request.key()).await?;
        assert!(
            matches!(record, None | Some(Record::Completed(_))),
            "half of it is there"
        );
        if finished.is_some() {
            return Ok(());
        }
    }
    Ok(())
}

async fn a_claim_in_a_transaction_is_told_the_same(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    for expected in cx.claims_in_every_state("in a transaction").await? {
        let mut transaction = store.pool().begin_with("BEGIN IMMEDIATE").await?;
        let outcome = store.claim_in(&mut transaction, &expected.request).await?;
        transaction.commit().await?;
        assert_eq!(
            described(&outcome),
            expected.returned,
            "{:?}",
            expected.request.key()
        );
    }
    Ok(())
}
