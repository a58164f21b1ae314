//! The record and the caller's rows commit together.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    BoxError, ClaimOutcome, ErrorKind, Idempotency, IdempotencyStore, Response, RunError,
};
use idem_mysql::{Isolation, MySqlStore, Transaction, Transactions, is_transaction_retryable};
use sqlx::{AssertSqlSafe, Row};

use super::case;
use crate::support::{self, MySqlHarness};

pub(super) const LEASES_END_DURING_A_LONG_TRANSACTION: Case =
    case(9, "leases_end_during_a_long_transaction", |cx| {
        Box::pin(leases_end_during_a_long_transaction(cx))
    });
pub(super) const AN_OLD_SNAPSHOT_HIDES_NOTHING_FROM_A_CLAIM: Case =
    case(2, "an_old_snapshot_hides_nothing_from_a_claim", |cx| {
        Box::pin(an_old_snapshot_hides_nothing_from_a_claim(cx))
    });
pub(super) const AN_OLD_SNAPSHOT_HIDES_NOTHING_FROM_A_COMPLETION: Case =
    case(6, "an_old_snapshot_hides_nothing_from_a_completion", |cx| {
        Box::pin(an_old_snapshot_hides_nothing_from_a_completion(cx))
    });

pub(super) const A_ROW_THAT_CHANGED_UNDER_A_SNAPSHOT_REPEATS_THE_TRANSACTION: Case = case(
    2,
    "a_row_that_changed_under_a_snapshot_repeats_the_transaction",
    |cx| {
        Box::pin(a_row_that_changed_under_a_snapshot_repeats_the_transaction(
            cx,
        ))
    },
);

pub(super) const A_DEADLOCK_THAT_THE_WORK_IGNORES_LEAVES_NOTHING: Case = case(
    12,
    "a_deadlock_that_the_work_ignores_leaves_nothing",
    |cx| Box::pin(a_deadlock_that_the_work_ignores_leaves_nothing(cx)),
);

pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// Returns the name of a table in the case's namespace.
pub(super) fn quoted(cx: &Context, table: &str) -> String {
    format!("`{}`.{table}", cx.namespace())
}

/// A store, and a table of payments in its schema without any constraint that would hide a second
/// row.
struct Shop {
    store: MySqlStore,
    transactions: Transactions,
    payments: String,
}

impl Shop {
    async fn open(cx: &Context, harness: &MySqlHarness) -> CaseResult<Self> {
        let payments = quoted(cx, "payments");
        harness
            .execute(format!(
                "CREATE TABLE IF NOT EXISTS {payments} (payment VARCHAR(99), total BIGINT) ENGINE = InnoDB"
            ))
            .await?;
        let store = harness.store(cx.namespace()).await?;
        Ok(Self {
            transactions: Transactions::new(&store),
            store,
            payments,
        })
    }

    async fn pay(&self, transaction: &mut Transaction, key: &str) -> Result<(), BoxError> {
        let sql = format!(
            "INSERT INTO {0} SELECT ?, COALESCE(MAX(total), 0) + 1 FROM {0}",
            self.payments
        );
        let insert = sqlx::query(AssertSqlSafe(sql)).bind(key);
        insert.execute(&mut **transaction).await?;
        Ok(())
    }

    async fn paid(&self) -> CaseResult<(i64, i64)> {
        let mut transaction = self.store.pool().begin().await?;
        let sql = format!(
            "SELECT COUNT(*), COALESCE(MAX(total), 0) FROM {}",
            self.payments
        );
        let row = sqlx::query(AssertSqlSafe(sql));
        let row = row.fetch_one(&mut *transaction).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }
}

/// The server rolls the lighter transaction back, which is the work's. What the work writes then
/// would commit by itself, if `autocommit` was on.
async fn a_deadlock_that_the_work_ignores_leaves_nothing(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let (shop, locks) = (Shop::open(cx, &harness).await?, quoted(cx, "locks"));
    for sql in [
        format!("CREATE TABLE {locks} (id INT PRIMARY KEY, n INT) ENGINE = InnoDB"),
        format!("INSERT INTO {locks} VALUES (1, 0), (2, 0)"),
    ] {
        harness.execute(sql).await?;
    }
    let lock = |id: u32| AssertSqlSafe(format!("UPDATE {locks} SET n = n + 1 WHERE id = {id}"));
    let heavy = format!(
        "INSERT INTO {locks} VALUES {}",
        (3..99)
            .map(|id| format!("({id}, 0)"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    let (shop, lock, heavy) = (&shop, &lock, &heavy);
    let engine = Idempotency::new(shop.store.clone());
    let (key, meets) = (cx.key("one"), tokio::sync::Barrier::new(2));
    let (first, second) = (&meets, &meets);
    let run = engine.run_in(&shop.transactions, &key, &1, async |mut tx, _| {
        shop.pay(&mut tx, "before").await?;
        sqlx::raw_sql(lock(1)).execute(&mut **tx).await?;
        first.wait().await;
        let deadlock = sqlx::raw_sql(lock(2)).execute(&mut **tx).await;
        let deadlock = deadlock.expect_err("a deadlock");
        assert!(deadlock.to_string().contains("1213"), "{deadlock}");
        shop.pay(&mut tx, "after").await?;
        Ok("paid".to_owned())
    });
    let other = async {
        let mut other = shop.store.pool().begin().await?;
        sqlx::raw_sql(AssertSqlSafe(heavy.clone()))
            .execute(&mut *other)
            .await?;
        sqlx::raw_sql(lock(2)).execute(&mut *other).await?;
        second.wait().await;
        sqlx::raw_sql(lock(1)).execute(&mut *other).await?;
        other.rollback().await
    };
    let (ran, other) = tokio::join!(run, other);
    other?;
    match ran {
        Err(RunError::Work(error)) => {
            let kind = error.downcast_ref().map(idem_core::Error::kind);
            assert_eq!(kind, Some(ErrorKind::Misconfigured), "{error:?}");
        }
        ran => return Err(idem_conformance::CaseError::new(format!("sealed: {ran:?}"))),
    }
    assert_eq!(shop.paid().await?, (0, 0));
    assert_eq!(cx.store().get(&key).await?, None);
    Ok(())
}

/// Leases are judged by the clock of each statement, not of the transaction.
async fn leases_end_during_a_long_transaction(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, &support::harness(cx)?).await?;
    let key = cx.key("one");
    let mut transaction = shop.store.pool().begin().await?;
    sqlx::query("SELECT NOW()")
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

/// Under REPEATABLE READ a plain read shows the state at which the transaction began to read.
async fn an_old_snapshot_hides_nothing_from_a_claim(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, &support::harness(cx)?).await?;
    let [done, lost] = ["done", "lost"].map(|id| cx.key(id));
    let holder = cx.stale_claim(&cx.request(&lost)).await?;
    let repeatable = shop
        .transactions
        .clone()
        .with_isolation(Isolation::RepeatableRead);
    let mut transaction = repeatable.attempts().begin().await?;
    let snapshot = format!("SELECT COUNT(*) FROM `{}`.idem_records", cx.namespace());
    sqlx::query(AssertSqlSafe(snapshot))
        .execute(&mut *transaction)
        .await?;
    let claim = cx.claim(&cx.request(&done)).await?;
    let response = Response::new(200, "done");
    cx.store().complete(&claim, &response, HOUR).await?;
    cx.hold(&cx.request(&lost)).await?;
    let request = cx.request(&done);
    let outcome = truth(shop.store.claim_in(&mut transaction, &request).await)?;
    assert!(matches!(outcome, None | Some(ClaimOutcome::Completed(_))));
    let sealed = shop
        .store
        .complete_in(&mut transaction, &holder, &response, HOUR)
        .await;
    assert!(
        truth(sealed).is_err_and(|error| error.is_claim_lost()) || outcome.is_none(),
        "the claim was taken over after the snapshot"
    );
    Ok(transaction.rollback().await?)
}

/// A record that was completed after the snapshot is completed again, and the call succeeds again.
async fn an_old_snapshot_hides_nothing_from_a_completion(cx: &Context) -> CaseResult {
    let shop = Shop::open(cx, &support::harness(cx)?).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    let response = Response::new(200, "done");
    let repeatable = shop
        .transactions
        .clone()
        .with_isolation(Isolation::RepeatableRead);
    let mut transaction = repeatable.attempts().begin().await?;
    let snapshot = format!("SELECT COUNT(*) FROM `{}`.idem_records", cx.namespace());
    sqlx::query(AssertSqlSafe(snapshot))
        .execute(&mut *transaction)
        .await?;
    cx.store().complete(&claim, &response, HOUR).await?;
    let repeated = shop
        .store
        .complete_in(&mut transaction, &claim, &response, HOUR)
        .await;
    truth(repeated)?;
    Ok(transaction.rollback().await?)
}

/// With this setting, the default since MariaDB 11.6.2, a locking read of such a row fails (1020):
/// <https://mariadb.com/kb/en/innodb-system-variables/#innodb_snapshot_isolation>.
async fn a_row_that_changed_under_a_snapshot_repeats_the_transaction(cx: &Context) -> CaseResult {
    if cx.harness().name() != "mariadb" {
        return Ok(());
    }
    let shop = Shop::open(cx, &support::harness(cx)?).await?;
    let strict = "SET SESSION innodb_snapshot_isolation = 1".to_owned();
    let snapshot = format!("SELECT COUNT(*) FROM `{}`.idem_records", cx.namespace());
    let mut attempts = shop
        .transactions
        .with_isolation(Isolation::RepeatableRead)
        .attempts();
    let mut refusals = Vec::new();
    let outcome = loop {
        let mut transaction = attempts.begin().await?;
        for sql in [&strict, &snapshot] {
            let sql = sqlx::raw_sql(AssertSqlSafe(sql.clone()));
            sql.execute(&mut *transaction).await?;
        }
        let request = cx.request(&cx.key("one"));
        if refusals.is_empty() {
            let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
            let done = Response::new(200, "done");
            cx.store().complete(&claim, &done, HOUR).await?;
        }
        let outcome = shop.store.claim_in(&mut transaction, &request).await;
        refusals.extend(outcome.as_ref().err().map(ToString::to_string));
        if let Some(outcome) = attempts.finish(transaction, outcome).await {
            break outcome?;
        }
    };
    assert!(
        refusals.len() == 1 && refusals[0].contains("1020"),
        "{refusals:?}"
    );
    assert_eq!(outcome.name(), "completed");
    Ok(())
}

/// A server may refuse to read past the snapshot (`innodb_snapshot_isolation`): then the
/// transaction has to be repeated.
fn truth<T>(result: idem_core::Result<T>) -> idem_core::Result<Option<T>> {
    match result {
        Err(error) if is_transaction_retryable(&error) => Ok(None),
        result => result.map(Some),
    }
}
