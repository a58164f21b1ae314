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
//! | `idem-postgres` | that of sqlx, tokio-postgres, deadpool-postgres, diesel-async or SeaORM | `Transactions`, of sqlx, and `DeadpoolTransactions` |
//! | `idem-mysql` | that of sqlx, mysql_async, diesel-async or SeaORM | `Transactions`, of sqlx, and `MySqlAsyncTransactions` |
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
//! # The call
//!
//! [`Idempotency::run_in`](crate::Idempotency::run_in) claims the key, runs the work, seals its
//! result and commits, all in one transaction. `Transactions` of the crate is made from a clone of
//! the engine's store.
//!
//! ```ignore
//! let transactions = Transactions::new(&store);
//! let idempotency = Idempotency::new(store);
//! let receipt = idempotency.run_in(&transactions, &key, &request, async |mut tx, _work| {
//!     sqlx::query("INSERT INTO payments VALUES (1250)").execute(&mut **tx).await?;
//!     Ok("receipt 1".to_owned())
//! }).await?;
//! ```
//!
//! These lines run on a database in the documentation of
//! [`idem_sqlite::Transactions`](https://docs.rs/idem-sqlite/latest/idem_sqlite/type.Transactions.html).
//!
//! | what happens | rows and record | the next caller |
//! | --- | --- | --- |
//! | the work returns an error, panics, or its future is dropped | none, or the failure that the policy records | runs the work |
//! | the process dies before the commit | none: there is no lease to wait for | runs the work |
//! | it dies during the commit | both or none, as the database decides | replays, or runs the work |
//! | a deadlock, a serialization failure, a lock that is not free in time | none: the work runs again in a new transaction | |
//! | the answer to the commit is lost | the engine looks the record up | replays |
//! | another caller comes while the work runs | | is refused, or waits and replays, as the policy says |
//! | the work ends its transaction itself | not sealed; see below | |
//!
//! Rules for such work:
//!
//! - Act through the transaction alone. A call to another system inside of it is repeated with it,
//!   and is not undone by a rollback: use a [derived key](super::calls), or the next form.
//! - Begin no other run on the same pool inside of the work: with all connections in use, it ends
//!   with `Unavailable`. On SQLite, do not wait for another work's answer either.
//! - End the transaction by returning, never by a statement. The engine notices, and returns
//!   [`transaction_ended`](crate::engine::transaction_ended):
//!
//! | the work says | SQLite | MySQL, MariaDB | PostgreSQL |
//! | --- | --- | --- | --- |
//! | `COMMIT` | refused and rolled back | rows of before stay; the key is failed, so that no retry repeats them | as MySQL; rows of later statements stay, too |
//! | `ROLLBACK` | nothing stays | nothing stays | rows of later statements stay; the key is failed |
//! | DDL | part of the transaction | as `COMMIT` | part of the transaction |
//! | ignores an error that rolls back (a deadlock, `INSERT OR ROLLBACK`, a full disk) | nothing stays | nothing stays | the commit is refused |
//!
//! MongoDB notices it, too, except where the work begins another transaction on its session. DuckDB
//! and SQL Server do not.
//!
//! # Work that calls other systems first
//!
//! A call that cannot be undone should not run in an open transaction. Use
//! [`run`](crate::Idempotency::run), whose claim is outside and leased, and commit the rows with the
//! result at the end by [`Work::commit`](crate::Work::commit). Other callers see the key in flight
//! while the work runs, and no lock of the database is held.
//!
//! ```ignore
//! let receipt = idempotency.run(&key, &request, async |work| {
//!     let charge = provider.charge(&work.derive("charge"), 1250).await?;
//!     work.commit(&transactions, async |mut tx| {
//!         sqlx::query("INSERT INTO payments VALUES (?)").bind(&charge).execute(&mut **tx).await?;
//!         Ok(charge.clone())
//!     }).await
//! }).await?;
//! ```
//!
//! If another attempt has taken the claim over meanwhile, it is
//! [`ClaimLost`](crate::ErrorKind::ClaimLost), and the rollback removes the rows. The engine sends
//! nothing after the commit. The caller gets the value that was committed, whatever the work
//! returns then.
//!
//! # The store's methods
//!
//! `claim_in`, `complete_in` and the others take the caller's transaction of any driver, without the
//! engine: then retention, repetition and the check of the transaction are the caller's. A commit
//! without an answer may have taken effect. Claim again before you repeat the transaction: with the
//! claim of before, `complete_in` finds the same result and returns `Ok`, and the rows would be
//! committed twice.
//!
//! A rollback leaves no trace of a claim in the transaction. But others cannot see an uncommitted
//! record. Their claims of the key wait at most 100 ms
//! ([`MAX_LOCK_WAIT`](crate::backend::MAX_LOCK_WAIT)) and then return `Contention`. On SQLite, which
//! has one lock for all keys, so do claims of every other key that have to write, after at most
//! 500 ms.
//!
//! # Repeating
//!
//! A database may end a transaction because of another one: a deadlock, a serialization failure, a
//! lock time-out. Then the whole transaction is repeated with the *same* key. The engine does so
//! within the policy's retry time-out, and `attempts()` of `Transactions` for 10 s (`with_limit`),
//! with growing pauses. Each crate's `is_transaction_retryable` says which errors of its driver call
//! for that.
//!
//! If the answer to a commit is lost, `finish` of `attempts()` returns the error. Nobody knows yet
//! whether the transaction committed: claim again.
