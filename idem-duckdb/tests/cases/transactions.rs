//! The record and the caller's rows commit together.

use std::sync::Arc;
use std::time::Duration;

use idem_conformance::cancel::polled;
use idem_conformance::{Case, CaseResult, Context, described};
use idem_core::{BoxError, ClaimOutcome, ClaimRequest, IdempotencyStore, Record, Response};
use idem_duckdb::{Config, DuckDbStore, DuckDbTransaction, Transactions, duckdb};

use super::case;
use crate::support::{self, file};

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
pub(super) const TRANSACTIONS_THAT_CONFLICT_ARE_REPEATED: Case =
    case(1, "transactions_that_conflict_are_repeated", |cx| {
        Box::pin(transactions_that_conflict_are_repeated(cx))
    });
pub(super) const A_TRANSACTION_DROPPED_AT_ANY_POLL_IS_NOT_LEFT_OPEN: Case = case(
    13,
    "a_transaction_dropped_at_any_poll_is_not_left_open",
    |cx| Box::pin(a_transaction_dropped_at_any_poll_is_not_left_open(cx)),
);
pub(super) const A_LONG_TRANSACTION_READS_THE_CLOCK_FOR_EACH_STATEMENT: Case = case(
    9,
    "a_long_transaction_reads_the_clock_for_each_statement",
    |cx| Box::pin(a_long_transaction_reads_the_clock_for_each_statement(cx)),
);
pub(super) const AN_OPERATION_DROPPED_AT_ANY_POLL_KEEPS_ITS_CONNECTION_IN_ORDER: Case = case(
    13,
    "an_operation_dropped_at_any_poll_keeps_its_connection_in_order",
    |cx| Box::pin(an_operation_dropped_at_any_poll_keeps_its_connection_in_order(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

/// A store, and a table of payments in its file without any constraint that would hide a second
/// row. The single row of `totals` is one that all payments change.
struct Shop {
    store: DuckDbStore,
    transactions: Transactions,
}

impl Shop {
    async fn open(cx: &Context) -> CaseResult<Self> {
        let store = support::store(cx.namespace()).await?;
        let create = "CREATE TABLE IF NOT EXISTS payments (key VARCHAR);
            CREATE TABLE IF NOT EXISTS totals AS SELECT 0::BIGINT AS total";
        let pool = store.pool();
        pool.run(move |connection| connection.execute_batch(create))
            .await?;
        let transactions = Transactions::new(&store).with_limit(Duration::from_secs(60));
        Ok(Self {
            transactions,
            store,
        })
    }

    async fn pay(transaction: &mut DuckDbTransaction, key: String) -> Result<(), BoxError> {
        let pay = move |connection: &duckdb::Connection| {
            connection.execute("INSERT INTO payments VALUES (?)", [key])?;
            connection.execute("UPDATE totals SET total = total + 1", [])
        };
        transaction.run(pay).await.map(drop)
    }

    async fn paid(&self) -> CaseResult<(i64, i64)> {
        let query =
            "SELECT (SELECT count(*) FROM payments), (SELECT sum(total)::BIGINT FROM totals)";
        let read = self.store.pool().run(move |connection| {
            connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?)))
        });
        Ok(read.await?)
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
        transaction: &mut DuckDbTransaction,
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
    let again = shop.pay_once(&cx.request(request.key())).await?;
    assert_eq!(again.name(), "completed");
    assert_eq!(shop.paid().await?, (1, 1));
    let record = cx.store().get(request.key()).await?;
    assert!(matches!(record, Some(Record::Completed(_))));
    Ok(())
}

async fn a_rollback_leaves_neither(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    let request = cx.request(&cx.key("one"));
    let mut attempts = shop.transactions.attempts();
    let mut transaction = attempts.begin().await?;
    let claimed = shop.claim_and_pay(&mut transaction, &request).await?;
    assert_eq!(claimed.name(), "acquired");
    let declined = Err::<(), _>("the card was declined");
    let error = attempts
        .finish(transaction, declined)
        .await
        .ok_or("it is repeated")?;
    assert_eq!(error.unwrap_err().to_string(), "the card was declined");
    assert_eq!(shop.paid().await?, (0, 0));
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
    let is_lost = completed
        .as_ref()
        .is_err_and(idem_core::Error::is_claim_lost);
    assert!(is_lost);
    let finished = attempts.finish(transaction, completed).await;
    assert!(finished.is_some_and(|result| result.is_err()));
    assert_eq!(shop.paid().await?, (0, 0));
    Ok(())
}

/// All payments change one row, and each key comes three times: most transactions conflict.
async fn transactions_that_conflict_are_repeated(cx: &Context) -> CaseResult {
    const KEYS: usize = 12;
    let shop = Arc::new(Shop::open(cx).await?);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..KEYS * 3 {
        let shop = Arc::clone(&shop);
        let request = cx.request(&cx.key(format!("key-{}", number % KEYS)));
        tasks.spawn(async move { shop.pay_once(&request).await.map(|outcome| outcome.name()) });
    }
    let mut acquired = 0;
    while let Some(done) = tasks.join_next().await {
        acquired += usize::from(done?? == "acquired");
    }
    assert_eq!(acquired, KEYS);
    let count = i64::try_from(KEYS)?;
    assert_eq!(shop.paid().await?, (count, count), "rows, and their total");
    Ok(())
}

/// A transaction left open would keep others from its rows, and its connection from the pool.
async fn a_transaction_dropped_at_any_poll_is_not_left_open(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx).await?;
    for polls in 0.. {
        let request = cx.request(&cx.key(format!("dropped-{polls}")));
        let finished = polled(shop.pay_once(&request), polls).await;
        let after = cx.request(&cx.key(format!("after-{polls}")));
        assert_eq!(shop.pay_once(&after).await?.name(), "acquired");
        let record = cx.store().get(request.key()).await?;
        let is_whole = matches!(record, None | Some(Record::Completed(_)));
        assert!(is_whole, "half of it is there");
        let (rows, total) = shop.paid().await?;
        assert_eq!(rows, total, "half of it is there");
        if finished.is_some() {
            return Ok(());
        }
    }
    Ok(())
}

async fn a_claim_in_a_transaction_is_told_the_same(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    for expected in cx.claims_in_every_state("in a transaction").await? {
        let mut transaction = store.pool().begin().await?;
        let outcome = store.claim_in(&mut transaction, &expected.request).await?;
        transaction.commit().await?;
        let key = expected.request.key();
        assert_eq!(described(&outcome), expected.returned, "{key:?}");
    }
    Ok(())
}

/// DuckDB's own clock stands still in a transaction. By it a lease would never end there.
async fn a_long_transaction_reads_the_clock_for_each_statement(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    let key = cx.key("one");
    // Long enough for the next two steps on a busy machine.
    let short = cx.request(&key).with_lease(Duration::from_secs(3));
    let first = cx.claim(&short).await?;
    let mut transaction = store.pool().begin().await?;
    let held = store.claim_in(&mut transaction, &cx.request(&key)).await?;
    assert_eq!(held.name(), "in_flight");
    cx.until_stale(&key).await?;
    let taken = store.claim_in(&mut transaction, &cx.request(&key)).await?;
    let taken = taken.acquired().ok_or("the lease has ended")?;
    assert!(taken.token() > first.token());
    assert!(taken.lease_ends_at() > first.lease_ends_at());
    Ok(transaction.commit().await?)
}

/// With one connection: were it lost, or left in a transaction, the next operation would hang or
/// fail.
async fn an_operation_dropped_at_any_poll_keeps_its_connection_in_order(
    cx: &Context,
) -> CaseResult {
    let config = Config::new().with_max_connections(1).with_batching(false);
    let store = DuckDbStore::connect(file(cx.namespace()), config).await?;
    for polls in 0.. {
        let request = cx.request(&cx.key(format!("dropped-{polls}")));
        let finished = polled(
            async {
                let claim = store.claim(&request).await?.acquired().ok_or("fresh")?;
                let response = Response::new(200, "done");
                store.complete(&claim, &response, HOUR).await?;
                CaseResult::Ok(())
            },
            polls,
        )
        .await;
        let after = store
            .claim(&cx.request(&cx.key(format!("after-{polls}"))))
            .await?;
        assert_eq!(after.name(), "acquired");
        // A repetition with the same attempt finds what the dropped one has left.
        let again = store.claim(&request).await?.name();
        assert!(["acquired", "completed"].contains(&again), "{again}");
        if let Some(finished) = finished {
            return finished;
        }
    }
    Ok(())
}
