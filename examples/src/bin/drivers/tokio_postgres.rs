//! The payments handler on tokio-postgres, with the pool of deadpool-postgres: the payment's row
//! commits with its record. The argument is the server's URL.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use idem_core::{BoxError, BusyPolicy, Claim, Idempotency, Key, Policy, Response, Work};
use idem_postgres::deadpool_postgres::{Manager, Pool};
use idem_postgres::tokio_postgres::{Config as Options, NoTls};
use idem_postgres::{Config, PostgresStore, is_transaction_retryable};

struct Shop {
    idempotency: Idempotency,
    store: Arc<PostgresStore>,
    pool: Pool,
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
        let mut client = self.pool.get().await?;
        // Dropped without a commit, it rolls back.
        let mut transaction = client.transaction().await?;
        let insert = "INSERT INTO idem_example_payments VALUES ($1, $2)";
        transaction.execute(insert, &[&key.id(), &cents]).await?;
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
        pool: Pool::builder(Manager::new(url.parse::<Options>()?, NoTls)).build()?,
    };
    let client = shop.pool.get().await?;
    let create = "CREATE TABLE IF NOT EXISTS idem_example_payments (id text, cents bigint)";
    client.batch_execute(create).await?;
    let run: u64 = rand::random();
    for number in 0..20 {
        let key = Key::new("customer-7", "payments.create", format!("{run}-{number}"))?;
        let receipts = try_join_all((0..4).map(|_| shop.pay(&key, 1250 + number))).await?;
        println!("{} × 4", receipts[0]);
        if receipts.iter().any(|receipt| *receipt != receipts[0]) {
            return Err(format!("different receipts: {receipts:?}").into());
        }
    }
    let count = "SELECT count(*) FROM idem_example_payments WHERE id LIKE $1";
    let rows: i64 = client
        .query_one(count, &[&format!("{run}-%")])
        .await?
        .get(0);
    match rows {
        20 => println!("Every payment was made exactly once."),
        _ => return Err(format!("{rows} payments for 20 keys").into()),
    }
    Ok(())
}
