//! The payments handler on rusqlite: the payment's row commits with its record. The database's calls
//! block, so they run on a thread that may block.

mod shop;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use idem_core::{BoxError, Claim, Key, Response};
use idem_sqlite::rusqlite::{Connection, TransactionBehavior};
use idem_sqlite::{Config, SqliteStore, is_transaction_retryable};

use shop::{Payments, Sealed};

#[derive(Clone)]
struct Shop(Arc<SqliteStore>, Arc<Mutex<Connection>>);

impl Shop {
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Payments for Shop {
    async fn write(&self, key: &Key, cents: i64, sealed: Sealed<'_>) -> Result<(), BoxError> {
        let Sealed(claim, response, retention) = sealed;
        let (shop, id) = (self.clone(), key.id().to_owned());
        let (claim, response): (Claim, Response) = (claim.clone(), response.clone());
        let written = tokio::task::spawn_blocking(move || {
            let mut connection = shop.connection();
            // Dropped without a commit, it rolls back.
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute("INSERT INTO payments VALUES (?1, ?2)", (id, cents))?;
            let store = shop.0.rusqlite(&transaction)?;
            store.complete_in(&claim, &response, retention)?;
            Ok(transaction.commit()?)
        });
        written.await?
    }

    async fn count(&self, like: &str) -> Result<i64, BoxError> {
        let count = "SELECT count(*) FROM payments WHERE id LIKE ?1";
        Ok(self
            .connection()
            .query_row(count, [like], |row| row.get(0))?)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    let url = format!("sqlite:{}", file.display());
    let store = Arc::new(SqliteStore::connect(&url, Config::new()).await?);
    store.migrate().await?;
    let connection = Connection::open(&file)?;
    connection.execute_batch("CREATE TABLE payments (id TEXT, cents INTEGER)")?;
    let payments = Shop(Arc::clone(&store), Arc::new(Mutex::new(connection)));
    shop::open(store, payments, is_transaction_retryable).await
}
