//! The payments handler on diesel-async: the payment's row commits with its record. The argument is
//! the server's URL.

mod shop;

use std::sync::Arc;

use diesel::sql_types::{BigInt, Text};
use idem_core::{BoxError, Key};
use idem_postgres::diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use idem_postgres::{Config, PostgresStore, is_transaction_retryable};

use shop::{Payments, Sealed};

struct Shop(Arc<PostgresStore>, String);

/// The closure of a transaction may fail with any error that diesel's errors convert into.
struct Failed(BoxError);

impl<E: Into<BoxError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl Payments for Shop {
    async fn write(&self, key: &Key, cents: i64, sealed: Sealed<'_>) -> Result<(), BoxError> {
        let (Sealed(claim, response, retention), store) = (sealed, &self.0);
        let mut connection = AsyncPgConnection::establish(&self.1).await?;
        let written = connection.transaction(async |transaction: &mut AsyncPgConnection| {
            diesel::sql_query("INSERT INTO idem_example_payments VALUES ($1, $2)")
                .bind::<Text, _>(key.id())
                .bind::<BigInt, _>(cents)
                .execute(transaction)
                .await?;
            store
                .complete_in(transaction, claim, response, retention)
                .await?;
            Ok::<_, Failed>(())
        });
        written.await.map_err(|failed| failed.0)
    }

    async fn count(&self, like: &str) -> Result<i64, BoxError> {
        let mut connection = AsyncPgConnection::establish(&self.1).await?;
        // An update of nothing counts the rows.
        let count = "UPDATE idem_example_payments SET cents = cents WHERE id LIKE $1";
        let count = diesel::sql_query(count).bind::<Text, _>(like);
        Ok(i64::try_from(count.execute(&mut connection).await?)?)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = shop::url()?;
    let store = Arc::new(PostgresStore::connect(&url, Config::new()).await?);
    store.migrate().await?;
    let mut connection = AsyncPgConnection::establish(&url).await?;
    let create = "CREATE TABLE IF NOT EXISTS idem_example_payments (id text, cents bigint)";
    diesel::sql_query(create).execute(&mut connection).await?;
    let payments = Shop(Arc::clone(&store), url);
    shop::open(store, payments, is_transaction_retryable).await
}
