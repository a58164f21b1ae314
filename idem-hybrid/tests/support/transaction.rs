//! Transactions of callers, in the database behind the cache.

use std::time::Duration;

use idem_conformance::CallerTransaction;
use idem_core::{BoxError, Claim, ClaimOutcome, ClaimRequest, Response, Result, async_trait};
use idem_mysql::{MySqlStore, Transaction as MySqlTransaction, Transactions};
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::{PgTransaction, SqliteTransaction};
use idem_sqlite::SqliteStore;

/// A store of its own, and a transaction on a connection of its pool.
struct Begun<S, T> {
    store: S,
    transaction: T,
}

pub(crate) async fn postgres(store: PostgresStore) -> Result<Box<dyn CallerTransaction>, BoxError> {
    let transaction = store.pool().begin().await?;
    Ok(Box::new(Begun { store, transaction }))
}

pub(crate) async fn mysql(store: MySqlStore) -> Result<Box<dyn CallerTransaction>, BoxError> {
    let mut attempts = Transactions::new(store.pool().clone()).attempts();
    let transaction = attempts.begin().await?;
    Ok(Box::new(Begun { store, transaction }))
}

pub(crate) async fn sqlite(store: SqliteStore) -> Result<Box<dyn CallerTransaction>, BoxError> {
    let transaction = store.pool().begin_with("BEGIN IMMEDIATE").await?;
    Ok(Box::new(Begun { store, transaction }))
}

macro_rules! caller_transaction {
    ($store:ty, $transaction:ty) => {
        #[async_trait]
        impl CallerTransaction for Begun<$store, $transaction> {
            async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
                self.store.claim_in(&mut self.transaction, request).await
            }

            async fn complete(
                &mut self,
                claim: &Claim,
                response: &Response,
                retention: Duration,
            ) -> Result<()> {
                let transaction = &mut self.transaction;
                let store = &self.store;
                store
                    .complete_in(transaction, claim, response, retention)
                    .await
            }

            async fn commit(self: Box<Self>) -> Result<(), BoxError> {
                Ok(self.transaction.commit().await?)
            }

            async fn rollback(self: Box<Self>) -> Result<(), BoxError> {
                Ok(self.transaction.rollback().await?)
            }
        }
    };
}

caller_transaction!(PostgresStore, PgTransaction<'static>);
caller_transaction!(MySqlStore, MySqlTransaction);
caller_transaction!(SqliteStore, SqliteTransaction<'static>);
