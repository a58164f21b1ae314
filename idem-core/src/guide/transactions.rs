//! Exactly once, with the caller's transaction.
//!
//! If the effect of the work is a change of rows in the store's own database, let the rows and the
//! record commit together. Then either both are there or neither is, wherever a process or the
//! server dies. This is the only true exactly-once there is.
//!
//! # In one call
//!
//! | the work | the call |
//! | --- | --- |
//! | writes rows, and nothing else | [`run_in`](crate::Idempotency::run_in): claim, rows and result are one transaction, which is repeated as a whole |
//! | calls other systems first | [`run`](crate::Idempotency::run), and [`Work::commit`](crate::Work::commit) at its end |
//! | is an HTTP handler | `IdempotencyLayer::in_transactions` of `idem-http`: the handler takes a `Tx` |
//! | is that of a message or an event | `Consumer::handle_in` of `idem-queue`, `Receiver::receive_in` of `idem-webhooks` |
//!
//! [`Policy::with_transactions_required`](crate::Policy::with_transactions_required) makes forgetting
//! an error at the first call. [`idem_sqlite::Transactions`](https://docs.rs/idem-sqlite/latest/idem_sqlite/type.Transactions.html)
//! shows the call on a database. The other sections describe the stores' methods below it, for
//! special cases.
//!
//! | crate | transaction | repeats it as a whole |
//! | --- | --- | --- |
//! | `idem-postgres` | that of sqlx, tokio-postgres, deadpool-postgres, diesel-async or SeaORM | `Transactions`, of sqlx |
//! | `idem-mysql` | that of sqlx, mysql_async, diesel-async or SeaORM | `Transactions`, of sqlx |
//! | `idem-sqlite` | that of sqlx, SeaORM or rusqlite, begun with `BEGIN IMMEDIATE` | `Transactions`, of sqlx, which begins so |
//! | `idem-duckdb` | the crate's `DuckDbTransaction` | `Transactions` |
//! | `idem-mssql` | the driver's client, or the crate's `Transaction` | `Transactions` |
//! | `idem-mongo` | the driver's `ClientSession`; needs a replica set | `Transactions` |
//! | `idem-dynamodb` | none to claim in; the other steps join the crate's `Transaction`, a `TransactWriteItems` | |
//! | `idem-hybrid` | that of the database behind it: `store.database()` | as the database |
//! | `idem-redis`, `MemoryStore` | none: give called systems a [derived key](super::calls) | |
//!
//! Each of the first six stores has the same methods, which take the transaction first:
//! `claim_in`, `complete_in`, `fail_in`, `checkpoint_in` and `advance_in`.
//!
//! # Claim outside, complete inside
//!
//! Run the work under the engine, as always. In the work, open a transaction, write the rows, and
//! complete the claim in the same transaction with [`Response::json`](crate::Response::json) of the
//! value that the work returns. The engine then completes once more, with the same response, which
//! changes nothing.
//!
//! | the process dies | rows | record | the next caller |
//! | --- | --- | --- | --- |
//! | before the commit | none | in flight, then stale | runs the work after the lease |
//! | during the commit | both or none, as the database decides | | replays, or runs the work |
//! | after the commit | there | completed | replays |
//!
//! While the work runs, every other caller sees the key in flight at once, and no lock of the
//! database is held. If another attempt has taken the claim over meanwhile, `complete_in` returns
//! `ClaimLost`: the rollback removes the rows, and the overtaken work has left no trace.
//!
//! A commit without an answer may have taken effect. Claim again before you repeat the transaction:
//! with the claim of before, `complete_in` finds the same result and returns `Ok`, and the rows
//! would be committed twice.
//!
//! Here `store` and `transactions` stand for those of any of the crates above.
//!
//! ```
//! # // Stands for a database: rows and completions of a transaction take effect at its commit.
//! # mod database {
//! #     use std::sync::{Arc, Mutex};
//! #     use std::time::Duration;
//! #     use idem_core::{BoxError, Claim, IdempotencyStore, MemoryStore, Response, Result};
//! #     #[derive(Default)]
//! #     pub struct Transaction { pub rows: Vec<u32>, ends: Option<(Claim, Response, Duration)> }
//! #     #[derive(Clone, Default)]
//! #     pub struct Database { pub records: MemoryStore, pub rows: Arc<Mutex<Vec<u32>>> }
//! #     impl Database {
//! #         pub fn attempts(&self) -> Self { self.clone() }
//! #         pub async fn begin(&mut self) -> Result<Transaction> { Ok(Transaction::default()) }
//! #         pub async fn complete_in(
//! #             &self, transaction: &mut Transaction, claim: &Claim, response: &Response,
//! #             retention: Duration,
//! #         ) -> Result<()> {
//! #             transaction.ends = Some((claim.clone(), response.clone(), retention));
//! #             Ok(())
//! #         }
//! #         pub async fn finish<T>(
//! #             &mut self, transaction: Transaction, result: Result<T, BoxError>,
//! #         ) -> Option<Result<T, BoxError>> {
//! #             let Ok(value) = result else { return Some(result) };
//! #             if let Some((claim, response, retention)) = transaction.ends {
//! #                 let sealed = self.records.complete(&claim, &response, retention).await;
//! #                 if let Err(error) = sealed { return Some(Err(error.into())) }
//! #             }
//! #             self.rows.lock().unwrap().extend(transaction.rows);
//! #             Some(Ok(value))
//! #         }
//! #     }
//! #     pub async fn insert_payment(to: &mut Transaction, cents: u32) -> Result<(), BoxError> {
//! #         to.rows.push(cents);
//! #         Ok(())
//! #     }
//! # }
//! # use database::{Database, insert_payment};
//! use idem_core::{BoxError, Idempotency, Key, Policy, Response, Work};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = Database::default();
//! # let transactions = store.clone();
//! # let idempotency = Idempotency::new(store.records.clone());
//! let retention = Policy::default().retention();
//! let pay = async |work: Work| {
//!     let claim = work.claim().expect("a run with a key has a claim");
//!     let receipt = "receipt 1".to_owned();
//!     let mut attempts = transactions.attempts();
//!     loop {
//!         let mut transaction = attempts.begin().await?;
//!         let written = async {
//!             insert_payment(&mut transaction, 1250).await?; // the application's rows
//!             let response = Response::json(&receipt)?;
//!             store.complete_in(&mut transaction, &claim, &response, retention).await?;
//!             Ok::<_, BoxError>(())
//!         };
//!         let written = written.await;
//!         // Commits, or rolls back; `None` if another transaction was in the way: once more.
//!         if let Some(done) = attempts.finish(transaction, written).await {
//!             return done.map(|()| receipt);
//!         }
//!     }
//! };
//! let key = Key::new("tenant-7", "payments.create", "8f14e45f")?;
//! for _ in 0..2 {
//!     let receipt = idempotency.run(&key, &("EUR", 1250), pay).await;
//!     assert_eq!(receipt.map_err(|error| error.to_string())?.into_inner(), "receipt 1");
//! }
//! # assert_eq!(*store.rows.lock().unwrap(), [1250], "one row for two calls");
//! # Ok(())
//! # }
//! ```
//!
//! Rules for such work:
//!
//! - Act through the transaction alone. A call to another system inside of it is repeated with it,
//!   and is not undone by a rollback: use a [derived key](super::calls).
//! - Return the value whose `Response::json` was stored. With another value the engine's completion
//!   is refused, and the caller gets [`RunError::NotStored`](crate::RunError::NotStored).
//! - The retention is the argument of `complete_in`; the policy's does not count.
//! - Return soon after the commit. A renewal that comes later finds the claim completed: then
//!   [`Work::is_lost`](crate::Work::is_lost) is true, and observers see a lost lease.
//!
//! # Claim and complete inside
//!
//! `claim_in` and `complete_in` in one short transaction, without the engine: a rollback leaves no
//! trace of the claim at all. But others cannot see an uncommitted record. Their claims of the key
//! wait at most 100 ms ([`MAX_LOCK_WAIT`](crate::backend::MAX_LOCK_WAIT)) and then return
//! `Contention`. On SQLite, which has one lock for all keys, so do claims of every other key that
//! have to write, after at most 500 ms. Use this form for transactions of a few statements.
//!
//! # Repeating
//!
//! A database may end a transaction because of another one: a deadlock, a serialization failure, a
//! lock time-out. Repeat the whole transaction with the *same* key. `Transactions` does so for 10 s
//! (`with_limit`), with growing pauses. Each crate's `is_transaction_retryable` says which errors
//! of its driver call for that.
//!
//! If the answer to a commit is lost, `finish` returns the error, and the run ends with
//! [`RunError::Work`](crate::RunError::Work). Nobody knows yet whether the transaction committed.
//! Repeat the run: it replays the receipt if it did, and does the work if it did not.
