//! The payments handler on SeaORM: the payment's row commits with its record.

mod shop;

use std::sync::Arc;

use idem_core::{BoxError, Key};
use idem_sqlite::sea_orm::{
    ConnectionTrait, Database, DatabaseConnection, DbBackend, SqliteTransactionMode, Statement,
    TransactionOptions, TransactionTrait, Value,
};
use idem_sqlite::{Config, SqliteStore, is_transaction_retryable};

use shop::{Payments, Sealed};

struct Shop(Arc<SqliteStore>, DatabaseConnection);

fn sql(text: &str, values: impl IntoIterator<Item = Value>) -> Statement {
    Statement::from_sql_and_values(DbBackend::Sqlite, text, values)
}

impl Payments for Shop {
    async fn write(&self, key: &Key, cents: i64, sealed: Sealed<'_>) -> Result<(), BoxError> {
        let Sealed(claim, response, retention) = sealed;
        // A transaction that reads first cannot always become a writer.
        let options = TransactionOptions {
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
            ..TransactionOptions::default()
        };
        // Dropped without a commit, it rolls back.
        let mut transaction = self.1.begin_with_options(options).await?;
        let insert = "INSERT INTO payments VALUES (?, ?)";
        transaction
            .execute_raw(sql(insert, [Value::from(key.id()), Value::from(cents)]))
            .await?;
        let store = &self.0;
        store
            .complete_in(&mut transaction, claim, response, retention)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn count(&self, like: &str) -> Result<i64, BoxError> {
        let count = sql(
            "SELECT count(*) FROM payments WHERE id LIKE ?",
            [Value::from(like)],
        );
        let row = self.1.query_one_raw(count).await?;
        Ok(row.ok_or("there is no row")?.try_get_by_index(0)?)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let store = Arc::new(SqliteStore::connect(&url, Config::new()).await?);
    store.migrate().await?;
    let database = Database::connect(&url).await?;
    let create = "CREATE TABLE payments (id TEXT, cents INTEGER)";
    database.execute_unprepared(create).await?;
    let payments = Shop(Arc::clone(&store), database);
    shop::open(store, payments, is_transaction_retryable).await
}
