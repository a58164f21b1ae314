//! The payments handler on SeaORM: the payment's row commits with its record.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use idem_core::{BoxError, BusyPolicy, Claim, Idempotency, Key, Policy, Response, Work};
use idem_sqlite::sea_orm::{
    ConnectionTrait, Database, DatabaseConnection, DbBackend, SqliteTransactionMode, Statement,
    TransactionOptions, TransactionTrait,
};
use idem_sqlite::{Config, SqliteStore, is_transaction_retryable};

struct Shop {
    idempotency: Idempotency,
    store: Arc<SqliteStore>,
    database: DatabaseConnection,
}

fn sql(text: &str, values: [idem_sqlite::sea_orm::Value; 2]) -> Statement {
    Statement::from_sql_and_values(DbBackend::Sqlite, text, values)
}

impl Shop {
    /// Handles a request: the same key again, at the same time or later, gets the same receipt.
    async fn pay(&self, key: &Key, cents: i64) -> Result<String, BoxError> {
        let pay = async |work: Work| {
            let claim = work.claim().ok_or("the key is not protected")?;
            self.write(key, &claim, cents).await
        };
        let paid = self.idempotency.run(key, &("EUR", cents), pay).await;
        Ok(paid.map_err(|error| error.to_string())?.into_inner())
    }

    /// Writes row and record in one transaction, again where a concurrent one was in the way.
    async fn write(&self, key: &Key, claim: &Claim, cents: i64) -> Result<String, BoxError> {
        loop {
            match self.write_at_once(key, claim, cents).await {
                Err(error) if is_transaction_retryable(&*error) => {}
                written => return written,
            }
        }
    }

    async fn write_at_once(
        &self,
        key: &Key,
        claim: &Claim,
        cents: i64,
    ) -> Result<String, BoxError> {
        // A transaction that reads first cannot always become a writer.
        let options = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        };
        // Dropped without a commit, it rolls back.
        let mut transaction = self.database.begin_with_options(options).await?;
        let insert = sql(
            "INSERT INTO payments VALUES (?, ?)",
            [key.id().into(), cents.into()],
        );
        transaction.execute_raw(insert).await?;
        let receipt = format!("receipt of {cents} cents");
        let (response, retention) = (Response::json(&receipt)?, Policy::default().retention());
        let completed = self
            .store
            .complete_in(&mut transaction, claim, &response, retention);
        completed.await?;
        transaction.commit().await?;
        Ok(receipt)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let store = SqliteStore::connect(&url, Config::new()).await?;
    store.migrate().await?;
    let store = Arc::new(store);
    let waits = Policy::default().with_on_busy(BusyPolicy::wait(Duration::from_secs(10)));
    let shop = Shop {
        idempotency: Idempotency::new(Arc::clone(&store)).with_policy(waits),
        store,
        database: Database::connect(&url).await?,
    };
    let create = "CREATE TABLE payments (id TEXT, cents INTEGER)";
    shop.database.execute_unprepared(create).await?;
    let run = "run";
    for number in 0..20 {
        let key = Key::new("customer-7", "payments.create", format!("{run}-{number}"))?;
        let receipts = try_join_all((0..4).map(|_| shop.pay(&key, 1250 + number))).await?;
        println!("{} × 4", receipts[0]);
        if receipts.iter().any(|receipt| *receipt != receipts[0]) {
            return Err(format!("different receipts: {receipts:?}").into());
        }
    }
    let count = Statement::from_string(DbBackend::Sqlite, "SELECT count(*) FROM payments");
    let row = shop.database.query_one_raw(count).await?;
    let rows: i64 = row.ok_or("there is no row")?.try_get_by_index(0)?;
    match rows {
        20 => println!("Every payment was made exactly once."),
        _ => return Err(format!("{rows} payments for 20 keys").into()),
    }
    Ok(())
}
