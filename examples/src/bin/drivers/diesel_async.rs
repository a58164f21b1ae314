//! The payments handler on diesel-async: the payment's row commits with its record. The argument is
//! the server's URL.

use std::sync::Arc;
use std::time::Duration;

use diesel::sql_types::{BigInt, Text};
use futures_util::future::try_join_all;
use idem_core::{BoxError, BusyPolicy, Claim, Idempotency, Key, Policy, Response, Work};
use idem_postgres::diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use idem_postgres::{Config, PostgresStore, is_transaction_retryable};

struct Shop {
    idempotency: Idempotency,
    store: Arc<PostgresStore>,
    url: String,
}

/// The closure of a transaction may fail with any error that diesel's errors convert into.
struct Failed(BoxError);

impl<E: Into<BoxError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
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
        let mut connection = AsyncPgConnection::establish(&self.url).await?;
        let written = connection.transaction(async |transaction: &mut AsyncPgConnection| {
            diesel::sql_query("INSERT INTO idem_example_payments VALUES ($1, $2)")
                .bind::<Text, _>(key.id())
                .bind::<BigInt, _>(cents)
                .execute(transaction)
                .await?;
            let receipt = format!("receipt of {cents} cents");
            let (response, retention) = (Response::json(&receipt)?, Policy::default().retention());
            let completed = self
                .store
                .complete_in(transaction, claim, &response, retention);
            completed.await?;
            Ok::<_, Failed>(receipt)
        });
        written.await.map_err(|failed| failed.0)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let url = std::env::args()
        .nth(1)
        .ok_or("name a server: postgres://app@localhost/shop")?;
    let store = PostgresStore::connect(&url, Config::new()).await?;
    store.migrate().await?;
    let store = Arc::new(store);
    let waits = Policy::default().with_on_busy(BusyPolicy::wait(Duration::from_secs(10)));
    let shop = Shop {
        idempotency: Idempotency::new(Arc::clone(&store)).with_policy(waits),
        store,
        url,
    };
    let mut connection = AsyncPgConnection::establish(&shop.url).await?;
    let create = "CREATE TABLE IF NOT EXISTS idem_example_payments (id text, cents bigint)";
    diesel::sql_query(create).execute(&mut connection).await?;
    let run: u64 = rand::random();
    for number in 0..20 {
        let key = Key::new("customer-7", "payments.create", format!("{run}-{number}"))?;
        let receipts = try_join_all((0..4).map(|_| shop.pay(&key, 1250 + number))).await?;
        println!("{} × 4", receipts[0]);
        if receipts.iter().any(|receipt| *receipt != receipts[0]) {
            return Err(format!("different receipts: {receipts:?}").into());
        }
    }
    // An update of nothing counts the rows.
    let count = "UPDATE idem_example_payments SET cents = cents WHERE id LIKE $1";
    let count = diesel::sql_query(count).bind::<Text, _>(format!("{run}-%"));
    let rows = count.execute(&mut connection).await?;
    match rows {
        20 => println!("Every payment was made exactly once."),
        _ => return Err(format!("{rows} payments for 20 keys").into()),
    }
    Ok(())
}
