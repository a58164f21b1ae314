//! The payments handler on tokio-postgres, with the pool of deadpool-postgres: the payment's row
//! commits with its record. The argument is the server's URL.

mod shop;

use std::sync::Arc;

use idem_core::{BoxError, Key};
use idem_postgres::deadpool_postgres::{Manager, Pool};
use idem_postgres::tokio_postgres::{Config as Options, NoTls};
use idem_postgres::{Config, PostgresStore, is_transaction_retryable};

use shop::{Payments, Sealed};

struct Shop(Arc<PostgresStore>, Pool);

impl Payments for Shop {
    async fn write(&self, key: &Key, cents: i64, sealed: Sealed<'_>) -> Result<(), BoxError> {
        let Sealed(claim, response, retention) = sealed;
        let mut client = self.1.get().await?;
        // Dropped without a commit, it rolls back.
        let mut transaction = client.transaction().await?;
        let insert = "INSERT INTO idem_example_payments VALUES ($1, $2)";
        transaction.execute(insert, &[&key.id(), &cents]).await?;
        let store = &self.0;
        store
            .complete_in(&mut transaction, claim, response, retention)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn count(&self, like: &str) -> Result<i64, BoxError> {
        let count = "SELECT count(*) FROM idem_example_payments WHERE id LIKE $1";
        Ok(self.1.get().await?.query_one(count, &[&like]).await?.get(0))
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = shop::url()?;
    let store = Arc::new(PostgresStore::connect(&url, Config::new()).await?);
    store.migrate().await?;
    let pool = Pool::builder(Manager::new(url.parse::<Options>()?, NoTls)).build()?;
    let create = "CREATE TABLE IF NOT EXISTS idem_example_payments (id text, cents bigint)";
    pool.get().await?.batch_execute(create).await?;
    let payments = Shop(Arc::clone(&store), pool);
    shop::open(store, payments, is_transaction_retryable).await
}
