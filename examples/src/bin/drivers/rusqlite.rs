//! The payments handler on rusqlite: the payment's row commits with its record. The database's calls
//! block, so they run on a thread that may block.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use idem_core::{BoxError, BusyPolicy, Claim, Idempotency, Key, Policy, Response, Work};
use idem_sqlite::rusqlite::{Connection, TransactionBehavior};
use idem_sqlite::{Config, SqliteStore, is_transaction_retryable};

#[derive(Clone)]
struct Shop {
    idempotency: Idempotency,
    store: Arc<SqliteStore>,
    connection: Arc<Mutex<Connection>>,
}

impl Shop {
    /// Handles a request: the same key again, at the same time or later, gets the same receipt.
    async fn pay(&self, key: &Key, cents: i64) -> Result<String, BoxError> {
        let pay = async |work: Work| {
            let claim = work.claim().ok_or("the key is not protected")?;
            let shop = self.clone();
            tokio::task::spawn_blocking(move || shop.write(&claim, cents)).await?
        };
        let paid = self.idempotency.run(key, &("EUR", cents), pay).await;
        Ok(paid.map_err(|error| error.to_string())?.into_inner())
    }

    /// Writes row and record in one transaction, again where another writer was in the way.
    fn write(&self, claim: &Claim, cents: i64) -> Result<String, BoxError> {
        loop {
            match self.write_at_once(claim, cents) {
                Err(error) if is_transaction_retryable(&*error) => {}
                written => return written,
            }
        }
    }

    fn write_at_once(&self, claim: &Claim, cents: i64) -> Result<String, BoxError> {
        let mut connection = self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Dropped without a commit, it rolls back.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("INSERT INTO payments VALUES (?1)", [cents])?;
        let receipt = format!("receipt {}", transaction.last_insert_rowid());
        let (response, retention) = (Response::json(&receipt)?, Policy::default().retention());
        let store = self.store.rusqlite(&transaction)?;
        store.complete_in(claim, &response, retention)?;
        transaction.commit()?;
        Ok(receipt)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("shop.db");
    let store = SqliteStore::connect(&format!("sqlite:{}", file.display()), Config::new()).await?;
    store.migrate().await?;
    let connection = Connection::open(&file)?;
    connection.execute_batch("CREATE TABLE payments (cents INTEGER NOT NULL)")?;
    let store = Arc::new(store);
    let waits = Policy::default().with_on_busy(BusyPolicy::wait(Duration::from_secs(10)));
    let shop = Shop {
        idempotency: Idempotency::new(Arc::clone(&store)).with_policy(waits),
        store,
        connection: Arc::new(Mutex::new(connection)),
    };
    for number in 0..20 {
        let key = Key::new("customer-7", "payments.create", format!("{number}"))?;
        let receipts = try_join_all((0..4).map(|_| shop.pay(&key, 1250 + number))).await?;
        println!("{} × 4", receipts[0]);
        if receipts.iter().any(|receipt| *receipt != receipts[0]) {
            return Err(format!("different receipts: {receipts:?}").into());
        }
    }
    let connection = shop
        .connection
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let rows: i64 = connection.query_row("SELECT count(*) FROM payments", [], |row| row.get(0))?;
    match rows {
        20 => println!("Every payment was made exactly once."),
        _ => return Err(format!("{rows} payments for 20 keys").into()),
    }
    Ok(())
}
