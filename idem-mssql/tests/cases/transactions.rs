//! The record and the caller's rows commit together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_conformance::cancel::{plan, polled};
use idem_conformance::{Case, CaseResult, Context};
use idem_core::{BoxError, ClaimOutcome, ClaimRequest, IdempotencyStore, Record, Response};
use idem_mssql::tiberius::Query;
use idem_mssql::{Client, MssqlStore, Transactions};

use super::case;
use crate::support::{self, MssqlHarness};

pub(super) const RECORD_AND_BUSINESS_ROW_COMMIT_TOGETHER: Case =
    case(12, "record_and_business_row_commit_together", |cx| {
        Box::pin(record_and_business_row_commit_together(cx))
    });
pub(super) const A_ROLLBACK_LEAVES_NEITHER: Case = case(12, "a_rollback_leaves_neither", |cx| {
    Box::pin(a_rollback_leaves_neither(cx))
});
pub(super) const RACING_TRANSACTIONS_PAY_ONCE_PER_KEY: Case =
    case(1, "racing_transactions_pay_once_per_key", |cx| {
        Box::pin(racing_transactions_pay_once_per_key(cx))
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
pub(super) const THE_DRIVERS_OWN_TRANSACTION_WILL_DO: Case =
    case(12, "the_drivers_own_transaction_will_do", |cx| {
        Box::pin(the_drivers_own_transaction_will_do(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// A store, and a table of payments beside its own without any constraint that would hide a second
/// row.
struct Shop {
    store: MssqlStore,
    transactions: Transactions,
    payments: String,
}

impl Shop {
    async fn open(cx: &Context, harness: &MssqlHarness) -> CaseResult<Self> {
        let payments = format!("[{}_payments]", cx.namespace());
        let create = format!("CREATE TABLE {payments} (id nvarchar(100) NOT NULL);");
        harness.run(cx.namespace(), &create).await?;
        let store = harness.store(cx.namespace())?;
        Ok(Self {
            transactions: Transactions::new(&store),
            store,
            payments,
        })
    }

    async fn pay(&self, client: &mut Client, key: &str) -> Result<(), BoxError> {
        let mut insert = Query::new(format!("INSERT INTO {} (id) VALUES (@P1);", self.payments));
        insert.bind(key.to_owned());
        insert.execute(client).await?;
        Ok(())
    }

    async fn paid(&self, harness: &MssqlHarness, cx: &Context) -> CaseResult<i32> {
        let count = format!("SELECT COUNT(*) FROM {};", self.payments);
        let rows = harness.run(cx.namespace(), &count).await?;
        Ok(rows[0].get(0).unwrap_or(-1))
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
        client: &mut Client,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome, BoxError> {
        let outcome = self.store.claim_in(client, request).await?;
        if let ClaimOutcome::Acquired(claim) = &outcome {
            self.pay(client, request.key().id()).await?;
            let response = Response::new(201, "paid");
            self.store
                .complete_in(client, claim, &response, HOUR)
                .await?;
        }
        Ok(outcome)
    }
}

async fn record_and_business_row_commit_together(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let shop = Shop::open(cx, &harness).await?;
    let request = cx.request(&cx.key("one"));
    let first = shop.pay_once(&request).await?;
    assert!(matches!(first, ClaimOutcome::Acquired(_)));
    let again = shop.pay_once(&cx.request(request.key())).await?;
    assert!(matches!(again, ClaimOutcome::Completed(_)));
    assert_eq!(shop.paid(&harness, cx).await?, 1);
    let record = cx.store().get(request.key()).await?;
    assert!(matches!(record, Some(Record::Completed(_))));
    Ok(())
}

async fn a_rollback_leaves_neither(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let shop = Shop::open(cx, &harness).await?;
    let request = cx.request(&cx.key("one"));
    let mut attempts = shop.transactions.attempts();
    let mut transaction = attempts.begin().await?;
    let outcome = shop.claim_and_pay(&mut transaction, &request).await?;
    assert!(matches!(outcome, ClaimOutcome::Acquired(_)));
    let refused: Result<(), _> = Err(BoxError::from("the card was refused"));
    let result = attempts.finish(transaction, refused).await;
    assert!(result.is_some_and(|result| result.is_err()));
    assert_eq!(shop.paid(&harness, cx).await?, 0);
    assert_eq!(cx.store().get(request.key()).await?, None);
    let mut transaction = attempts.begin().await?;
    shop.pay(&mut transaction, "two").await?;
    transaction.rollback().await?;
    assert_eq!(shop.paid(&harness, cx).await?, 0);
    Ok(())
}

async fn racing_transactions_pay_once_per_key(cx: &Context) -> CaseResult {
    const KEYS: u32 = 5;
    let harness = support::harness(cx)?;
    let shop = Arc::new(Shop::open(cx, &harness).await?);
    let acquired = Arc::new(AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..40 {
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
    assert_eq!(acquired.load(Ordering::Relaxed), KEYS);
    assert_eq!(u32::try_from(shop.paid(&harness, cx).await?), Ok(KEYS));
    Ok(())
}

async fn a_lost_claim_rolls_the_business_row_back(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let shop = Shop::open(cx, &harness).await?;
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
    let result = attempts.finish(transaction, completed).await;
    assert!(result.is_some_and(|result| result.is_err()));
    assert_eq!(shop.paid(&harness, cx).await?, 0);
    Ok(())
}

/// Leases are judged by the clock, not by the time at which the transaction began.
async fn leases_end_during_a_long_transaction(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let shop = Shop::open(cx, &harness).await?;
    let key = cx.key("one");
    let mut attempts = shop.transactions.attempts();
    let mut transaction = attempts.begin().await?;
    shop.pay(&mut transaction, "one").await?;
    cx.leave_stale(&cx.request(&key)).await?;
    let request = cx.request(&key);
    let outcome = shop.store.claim_in(&mut transaction, &request).await?;
    let claim = outcome.acquired();
    let claim = claim.expect("the lease ended after the transaction began");
    assert_eq!(claim.attempts(), 2);
    transaction.commit().await?;
    Ok(())
}

/// A transaction left open would swallow the later writes of the one connection.
async fn a_transaction_dropped_at_any_poll_is_not_left_open(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let mut shop = Shop::open(cx, &harness).await?;
    shop.store = harness.store_with(1, cx.namespace())?;
    shop.transactions = Transactions::new(&shop.store);
    for polls in plan() {
        let request = cx.request(&cx.key(format!("dropped-{polls}")));
        let finished = polled(Box::pin(shop.pay_once(&request)), polls).await;
        let after = cx.request(&cx.key(format!("after-{polls}")));
        let claim = shop.store.claim(&after).await?;
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

async fn the_drivers_own_transaction_will_do(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let shop = Shop::open(cx, &harness).await?;
    let mut client = harness.manager()?.connect().await?.into_client();
    let request = cx.request(&cx.key("one"));
    client.begin_transaction().await?;
    let outcome = shop.claim_and_pay(&mut client, &request).await?;
    assert!(matches!(outcome, ClaimOutcome::Acquired(_)));
    client.rollback_transaction().await?;
    assert_eq!(cx.store().get(request.key()).await?, None);
    client.begin_transaction().await?;
    let outcome = shop.claim_and_pay(&mut client, &request).await?;
    assert!(matches!(outcome, ClaimOutcome::Acquired(_)));
    client.commit_transaction().await?;
    client.close().await?;
    assert_eq!(shop.paid(&harness, cx).await?, 1);
    let record = cx.store().get(request.key()).await?;
    assert!(matches!(record, Some(Record::Completed(_))));
    Ok(())
}
