//! The payments handler on mysql_async: the payment's row commits with its record. The argument is
//! the server's URL.

mod shop;

use std::sync::Arc;

use idem_core::{BoxError, Key};
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Opts, OptsBuilder, Pool, TxOpts};
use idem_mysql::{Config, MySqlStore, is_transaction_retryable};

use shop::{Payments, Sealed};

struct Shop(Arc<MySqlStore>, Pool);

impl Payments for Shop {
    async fn write(&self, key: &Key, cents: i64, sealed: Sealed<'_>) -> Result<(), BoxError> {
        let Sealed(claim, response, retention) = sealed;
        // Dropped without a commit, it rolls back.
        let mut transaction = self.1.start_transaction(TxOpts::default()).await?;
        let insert = "INSERT INTO idem_example_payments VALUES (?, ?)";
        transaction.exec_drop(insert, (key.id(), cents)).await?;
        let store = &self.0;
        store
            .complete_in(&mut transaction, claim, response, retention)
            .await?;
        Ok(transaction.commit().await?)
    }

    async fn count(&self, like: &str) -> Result<i64, BoxError> {
        let count = "SELECT count(*) FROM idem_example_payments WHERE id LIKE ?";
        let rows = self.1.get_conn().await?.exec_first(count, (like,)).await?;
        Ok(rows.unwrap_or_default())
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = shop::url()?;
    let store = Arc::new(MySqlStore::connect(&url, Config::new()).await?);
    store.migrate().await?;
    // The store needs connections that count the rows that a condition meets.
    let options = OptsBuilder::from_opts(Opts::from_url(&url)?).client_found_rows(true);
    let pool = Pool::new(options);
    let create = "CREATE TABLE IF NOT EXISTS idem_example_payments (id varchar(64), cents bigint)";
    pool.get_conn().await?.query_drop(create).await?;
    let payments = Shop(Arc::clone(&store), pool);
    shop::open(store, payments, is_transaction_retryable).await
}
