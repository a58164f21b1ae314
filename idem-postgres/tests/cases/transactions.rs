//! The record and the caller's rows commit together.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::BoxError;
pub(super) use idem_postgres::Isolation;
use idem_postgres::{PostgresStore, Transaction, Transactions};
use sqlx::{AssertSqlSafe, Row};

use super::{case, shared};
use crate::support::{self, PostgresHarness};

pub(super) const A_ROLLBACK_LEAVES_NEITHER: Case = case(12, "a_rollback_leaves_neither", |cx| {
    Box::pin(shared::a_rollback_leaves_neither(cx))
});
pub(super) const SERIALIZABLE_TRANSACTIONS_ARE_REPEATED_AS_A_WHOLE: Case = case(
    1,
    "serializable_transactions_are_repeated_as_a_whole",
    |cx| {
        Box::pin(shared::serializable_transactions_are_repeated_as_a_whole(
            cx,
        ))
    },
);
pub(super) const LEASES_END_DURING_A_LONG_TRANSACTION: Case =
    case(9, "leases_end_during_a_long_transaction", |cx| {
        Box::pin(leases_end_during_a_long_transaction(cx))
    });

pub(super) const HOUR: Duration = Duration::from_secs(3600);

pub(super) type Tx = Transaction;

/// Returns the name of a table in the case's namespace.
pub(super) fn quoted(cx: &Context, table: &str) -> String {
    format!("\"{}\".{table}", cx.namespace())
}

/// A store, and a table of payments in its schema without any constraint that would hide a second
/// row.
pub(super) struct Shop {
    pub(super) store: PostgresStore,
    pub(super) transactions: Transactions,
    payments: String,
}

impl Shop {
    pub(super) async fn open(cx: &Context, harness: &PostgresHarness) -> CaseResult<Self> {
        let payments = quoted(cx, "payments");
        harness
            .execute(format!(
                "CREATE TABLE IF NOT EXISTS {payments} (key text, total bigint)"
            ))
            .await?;
        let store = harness.store(cx.namespace()).await?;
        Ok(Self {
            transactions: Transactions::new(&store),
            store,
            payments,
        })
    }

    pub(super) async fn pay(&self, transaction: &mut Tx, key: &str) -> Result<(), BoxError> {
        let sql = format!(
            "INSERT INTO {0} SELECT $1, COALESCE(max(total), 0) + 1 FROM {0}",
            self.payments
        );
        let insert = sqlx::query(AssertSqlSafe(sql)).bind(key).persistent(false);
        insert.execute(&mut **transaction).await?;
        Ok(())
    }

    pub(super) async fn paid(&self) -> CaseResult<(i64, i64)> {
        let mut transaction = self.store.pool().begin().await?;
        let sql = format!(
            "SELECT count(*), COALESCE(max(total), 0) FROM {}",
            self.payments
        );
        let row = sqlx::query(AssertSqlSafe(sql)).persistent(false);
        let row = row.fetch_one(&mut *transaction).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }
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
