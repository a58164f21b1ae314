//! The record and the caller's rows commit together.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{BoxError, ClaimOutcome, ClaimRequest, Response};
use idem_sqlite::{Config, SqliteStore, Transaction, Transactions};
use sqlx::Row;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use super::case;
use crate::support;

pub(super) const TRANSACTIONS_THAT_MEET_A_LOCK_ARE_REPEATED: Case =
    case(1, "transactions_that_meet_a_lock_are_repeated", |cx| {
        Box::pin(transactions_that_meet_a_lock_are_repeated(cx))
    });

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
            transactions: Transactions::new(&store),
            store,
        })
    }

    async fn pay(transaction: &mut Transaction, key: String) -> Result<(), BoxError> {
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
        transaction: &mut Transaction,
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
    let store = SqliteStore::with_config(pool, Config::new());
    let hasty = std::sync::Arc::new(Shop {
        transactions: Transactions::new(&store).with_limit(Duration::from_secs(60)),
        store,
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
