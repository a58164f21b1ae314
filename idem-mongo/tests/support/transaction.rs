//! A caller's transaction.

use std::time::Duration;

use idem_conformance::CallerTransaction;
use idem_core::{BoxError, Claim, ClaimOutcome, ClaimRequest, Response, Result, async_trait};
use idem_mongo::mongodb::ClientSession;
use idem_mongo::{MongoStore, Transactions};

/// If the value is dropped, the driver aborts the transaction.
struct OpenTransaction {
    store: MongoStore,
    session: ClientSession,
}

/// Begins a transaction on the store's client.
pub(crate) async fn begin(store: MongoStore) -> Result<impl CallerTransaction + 'static, BoxError> {
    let transactions = Transactions::new(store.client().clone());
    let session = transactions.attempts().begin().await?;
    Ok(OpenTransaction { store, session })
}

#[async_trait]
impl CallerTransaction for OpenTransaction {
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        self.store.claim_in(&mut self.session, request).await
    }

    async fn complete(
        &mut self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let store = &self.store;
        store
            .complete_in(&mut self.session, claim, response, retention)
            .await
    }

    async fn commit(mut self: Box<Self>) -> Result<(), BoxError> {
        Ok(self.session.commit_transaction().await?)
    }

    async fn rollback(mut self: Box<Self>) -> Result<(), BoxError> {
        Ok(self.session.abort_transaction().await?)
    }
}
