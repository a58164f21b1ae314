//! [`DynamoStore`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use idem_core::backend::FinalResult;
use idem_core::{
    CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Error, Failure, IdempotencyStore, Key,
    Limits, Record, RecordAdmin, Response, Result, WatermarkStore,
};

use crate::config::Config;
use crate::operations::Operations;

pub(crate) const BACKEND: &str = "dynamodb";

/// The store on DynamoDB.
///
/// A clone shares the client, and what is known of the service's clock. The store creates no table:
/// see [`migrate`](Self::migrate). Without the table every operation returns `Misconfigured`.
#[derive(Clone)]
pub struct DynamoStore {
    pub(crate) operations: Arc<Operations>,
}

impl DynamoStore {
    /// Creates a store on the caller's client, with the default [`Config`].
    ///
    /// Credentials, region, endpoint, HTTP client, retries and time-outs are the client's.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self::with_config(client, Config::new())
    }

    /// Creates a store on the caller's client.
    #[must_use]
    pub fn with_config(client: Client, config: Config) -> Self {
        Self {
            operations: Arc::new(Operations::new(client, config)),
        }
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.operations.client
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.operations.config
    }

    /// Seals or releases.
    async fn finish(&self, claim: &Claim, result: Result<FinalResult>) -> Result<()> {
        let session = self.operations.session();
        self.operations.finish(&session, claim, &result?).await
    }
}

/// Shows the names, not the client.
impl fmt::Debug for DynamoStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamoStore")
            .field("config", &self.operations.config)
            .finish_non_exhaustive()
    }
}

pub(crate) fn at(operation: &'static str) -> impl Fn(Error) -> Error {
    move |error| error.at(BACKEND, operation)
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl IdempotencyStore for DynamoStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn limits(&self) -> Limits {
        self.operations.config.limits()
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        Some(self)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let session = self.operations.session();
        let claimed = self.operations.claim(&session, request);
        claimed.await.map_err(at("claim"))
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        let result = FinalResult::completed(response, retention, &self.limits());
        self.finish(claim, result).await.map_err(at("complete"))
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        let result = FinalResult::failed(failure, retention, &self.limits());
        self.finish(claim, result).await.map_err(at("fail"))
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        let result = Ok(FinalResult::released());
        self.finish(claim, result).await.map_err(at("release"))
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        let session = self.operations.session();
        let renewed = self.operations.renew(&session, claim, lease);
        renewed.await.map_err(at("renew"))
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let session = self.operations.session();
        let found = self.operations.get(&session, key);
        found.await.map_err(at("get"))
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        let session = self.operations.session();
        let deleted = self.operations.delete_expired(&session, limit);
        deleted.await.map_err(at("delete_expired"))
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        let session = self.operations.session();
        let failed = self.operations.fail_abandoned(&session, limit);
        failed.await.map_err(at("fail_abandoned"))
    }
}
