//! The record and the caller's rows commit together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_conformance::cancel::polled;
use idem_conformance::{Case, CaseResult, Context, described};
use idem_core::{BoxError, ClaimOutcome, ClaimRequest, IdempotencyStore, Record, Response};
use idem_postgres::{Isolation, PostgresStore, Transactions};
use sqlx::{AssertSqlSafe, PgTransaction, Row};

use super::case;
use crate::support::{self, PostgresHarness};

pub(super) const RECORD_AND_BUSINESS_ROW_COMMIT_TOGETHER: Case =
    case(12, "record_and_business_row_commit_together", |cx| {
        Box::pin(record_and_business_row_commit_together(cx))
    });
pub(super) const A_ROLLBACK_LEAVES_NEITHER: Case = case(12, "a_rollback_leaves_neither", |cx| {
    Box::pin(a_rollback_leaves_neither(cx))
});
pub(super) const SERIALIZABLE_TRANSACTIONS_ARE_REPEATED_AS_A_WHOLE: Case = case(
    1,
    "serializable_transactions_are_repeated_as_a_whole",
    |cx| Box::pin(serializable_transactions_are_repeated_as_a_whole(cx)),
);
pub(super) const A_CLAIM_IN_A_TRANSACTION_IS_TOLD_THE_SAME: Case =
    case(1, "a_claim_in_a_transaction_is_told_the_same", |cx| {
        Box::pin(a_claim_in_a_transaction_is_told_the_same(cx))
    });
pub(super) const A_LOST_CLAIM_ROLLS_THE_BUSINESS_ROW_BACK: Case =
    case(5, "a_lost_claim_rolls_the_business_row_back", |cx| {
        Box::pin(a_lost_claim_rolls_the_business_row_back(cx))
    });
pub(super) const LEASES_END_DURING_A_LONG_TRANSACTION: Case =
    case(9, "leases_end_during_a_long_transaction", |cx| {
        Box::pin(leases_end_during_a_long_transaction(cx))
    });
pub(super) const A_TRANSACTION_DROPPED_AT_ANY_POLL_IS_NOT_LEFT_OPEN: Case = case(
    13,
    "a_transaction_dropped_at_any_poll_is_not_left_open",
    |cx| Box::pin(a_transaction_dropped_at_any_poll_is_not_left_open(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

/// A store, and a table of payments in its schema without any constraint that would hide a second
/// row.
struct Shop {
    store: PostgresStore,
    transactions: Transactions,
    payments: String,
}

impl Shop {
    async fn open(cx: &Context, harness: &PostgresHarness) -> CaseResult<Self> {
        let payments = format!("\"{}\".payments", cx.namespace());
        harness
            .execute(format!(
                "CREATE TABLE IF NOT EXISTS {payments} (key text, total bigint)"
            ))
            .await?;
        let store = harness.store(cx.namespace()).await?;
        Ok(Self {
            transactions: Transactions::new(store.pool().clone()),
            store,
            payments,
        })
    }

    async fn pay(&self, transaction: &mut PgTransaction<'_>, key: &str) -> Result<(), BoxError> {
        let sql = format!(
            "INSERT INTO {0} SELECT $1, COALESCE(max(total), 0) + 1 FROM {0}",
            self.payments
        );
        let insert = sqlx::query(AssertSqlSafe(sql)).bind(key).persistent(false);
        insert.execute(&mut **transaction).await?;
        Ok(())
    }

    async fn paid(&self) -> CaseResult<(i64, i64)> {
        let mut transaction = self.store.pool().begin().await?;
        let sql = format!(
            "SELECT count(*), COALESCE(max(total), 0) FROM {}",
            self.payments
        );
        let row = sqlx::query(AssertSqlSafe(sql)).persistent(false);
        let row = row.fetch_one(&mut *transaction).await?;
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
        transaction: &mut PgTransaction<'_>,
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

async fn record_and_business_row_commit_together(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, &support::harness(cx)?).await?;
    let request = cx.request(&cx.key("one"));
    assert!(matches!(
        shop.pay_once(&request).await?,
        ClaimOutcome::Acquired(_)
    ));
    let again = cx.request(request.key());
    assert!(matches!(
        shop.pay_once(&again).await?,
        ClaimOutcome::Completed(_)
    ));
    assert_eq!(shop.paid().await?.0, 1);
    assert!(matches!(
        cx.store().get(request.key()).await?,
        Some(Record::Completed(_))
    ));
    Ok(())
}

async fn a_rollback_leaves_neither(cx: &Context) -> CaseResult {
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
async fn serializable_transactions_are_repeated_as_a_whole(cx: &Context) -> CaseResult {
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

async fn a_lost_claim_rolls_the_business_row_back(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, &support::harness(cx)?).await?;
    let key = cx.key("one");
    let lost = cx.stale_claim(&cx.request(&key)).await?;
    cx.hold(&cx.request(&key)).await?;
    let mut attempts = shop.transactions.attempts();
    let mut transaction = attempts.begin().await?;
    shop.pay(&mut transaction, "one").await?;
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

/// `now()` stands still in a transaction; leases are judged by the clock.
async fn leases_end_during_a_long_transaction(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, &support::harness(cx)?).await?;
    let key = cx.key("one");
    let mut transaction = shop.store.pool().begin().await?;
    sqlx::query("SELECT now()")
        .persistent(false)
        .execute(&mut *transaction)
        .await?;
    cx.leave_stale(&cx.request(&key)).await?;
    let outcome = shop
        .store
        .claim_in(&mut transaction, &cx.request(&key))
        .await?;
    let claim = outcome
        .acquired()
        .expect("the lease ended after the transaction began");
    assert_eq!(claim.attempts(), 2);
    transaction.commit().await?;
    Ok(())
}

/// A transaction left open would swallow the later writes of the one connection.
async fn a_transaction_dropped_at_any_poll_is_not_left_open(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let mut shop = Shop::open(cx, &harness).await?;
    shop.store = harness.store_with(1, cx.namespace()).await?;
    shop.transactions = Transactions::new(shop.store.pool().clone());
    for polls in 0.. {
        let request = cx.request(&cx.key(format!("dropped-{polls}")));
        let finished = Box::pin(polled(shop.pay_once(&request), polls)).await;
        let claim = shop
            .store
            .claim(&cx.request(&cx.key(format!("after-{polls}"))))
            .await?;
        let claim = claim.acquired().expect("a fresh key");
        assert!(
            cx.store().get(claim.key()).await?.is_some(),
            "not committed after {polls} polls"
        );
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
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for expected in cx.claims_in_every_state("in a transaction").await? {
        let mut transaction = store.pool().begin().await?;
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
