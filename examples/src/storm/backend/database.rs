//! [`Database`]: records and ledger in one database, whose transactions hold both.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BoxError, Claim, ErrorKind, IdempotencyStore, Response, Result as StoreResult};

use super::{Backend, Settlement};
use crate::storm::entry::Entry;
use crate::storm::point::Point;

/// What differs between databases. All have the ledger beside the records.
#[async_trait]
pub(super) trait Database: Debug + Send + Sync + 'static {
    type Store: IdempotencyStore + Clone + 'static;
    type Attempts: Attempts;

    fn store(&self) -> &Self::Store;

    /// Returns name and version of the running product.
    async fn product(&self) -> Result<String, BoxError>;

    /// Creates the records' table.
    async fn migrate(&self) -> StoreResult<()>;

    /// Creates the ledger. Its key is not unique: a second effect has to be visible, not refused.
    async fn create_ledger(&self) -> Result<(), BoxError>;

    /// Removes records and ledger, and closes the store.
    async fn remove(&self) -> Result<(), BoxError>;

    /// Starts a transaction that is repeated until it goes through.
    fn attempts(&self) -> Self::Attempts;

    /// Writes the effect.
    async fn insert(&self, transaction: &mut Open<Self>, entry: &Entry) -> Result<(), BoxError>;

    /// Completes the claim.
    async fn complete(
        &self,
        transaction: &mut Open<Self>,
        claim: &Claim,
        response: &Response,
    ) -> StoreResult<()>;

    /// Returns all effects, in the order in which they were written.
    async fn entries(&self) -> Result<Vec<Entry>, BoxError>;
}

/// The open transaction of a database.
pub(super) type Open<D> = <<D as Database>::Attempts as Attempts>::Transaction;

/// The attempts at one transaction.
pub(super) trait Attempts: Send {
    type Transaction: Send;

    fn begin(&mut self) -> impl Future<Output = StoreResult<Self::Transaction>> + Send;

    /// Commits or rolls back. Returns `None` if the transaction has to begin again.
    fn finish(
        &mut self,
        transaction: Self::Transaction,
        result: Result<(), BoxError>,
    ) -> impl Future<Output = Option<Result<(), BoxError>>> + Send;
}

/// Implements [`Attempts`] by the methods of the same names.
macro_rules! attempts {
    ($attempts:ty, $transaction:ty) => {
        impl $crate::storm::backend::database::Attempts for $attempts {
            type Transaction = $transaction;

            async fn begin(&mut self) -> idem_core::Result<$transaction> {
                Self::begin(self).await
            }

            async fn finish(
                &mut self,
                transaction: $transaction,
                result: Result<(), idem_core::BoxError>,
            ) -> Option<Result<(), idem_core::BoxError>> {
                Self::finish(self, transaction, result).await
            }
        }
    };
}

pub(super) use attempts;

#[async_trait]
impl<D: Database> Backend for D {
    fn store(&self) -> Arc<dyn IdempotencyStore> {
        Arc::new(Database::store(self).clone())
    }

    async fn product(&self) -> Result<String, BoxError> {
        Database::product(self).await
    }

    async fn create(&self) -> Result<(), BoxError> {
        // Migrations of other runs may be under way.
        while let Err(error) = self.migrate().await {
            if error.kind() != ErrorKind::Contention {
                return Err(error.into());
            }
        }
        self.create_ledger().await
    }

    async fn remove(&self) -> Result<(), BoxError> {
        Database::remove(self).await
    }

    async fn settle(&self, settlement: &Settlement) -> Result<Response, BoxError> {
        let mut attempts = self.attempts();
        loop {
            let mut transaction = attempts.begin().await?;
            let result = write(self, &mut transaction, settlement).await;
            if let Some(result) = attempts.finish(transaction, result).await {
                return result.map(|()| settlement.response.clone());
            }
        }
    }

    async fn append(&self, entry: &Entry) -> Result<(), BoxError> {
        let mut attempts = self.attempts();
        loop {
            let mut transaction = attempts.begin().await?;
            let result = self.insert(&mut transaction, entry).await;
            if let Some(result) = attempts.finish(transaction, result).await {
                return result;
            }
        }
    }

    async fn ledger(&self) -> Result<Vec<Entry>, BoxError> {
        self.entries().await
    }
}

/// Writes the contents of one transaction: the effect, and the answer for every later delivery.
async fn write<D: Database>(
    database: &D,
    transaction: &mut Open<D>,
    settlement: &Settlement,
) -> Result<(), BoxError> {
    let Settlement {
        claim,
        entry,
        response,
        probe,
    } = settlement;
    database.insert(transaction, entry).await?;
    database.complete(transaction, claim, response).await?;
    probe.pass(Point::Uncommitted).await;
    Ok(())
}
