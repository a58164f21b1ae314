//! DynamoDB and its imitations.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
#[cfg(feature = "suite")]
use idem_core::{Key, backend::StoredRecord};
use idem_dynamodb::aws_sdk_dynamodb::config::interceptors::BeforeDeserializationInterceptorContextRef;
use idem_dynamodb::aws_sdk_dynamodb::config::retry::RetryConfig;
use idem_dynamodb::aws_sdk_dynamodb::config::{
    BehaviorVersion, ConfigBag, Credentials, Intercept, Region, RuntimeComponents,
};
use idem_dynamodb::aws_sdk_dynamodb::error::BoxError as SdkError;
use idem_dynamodb::aws_sdk_dynamodb::{Client, Config as ClientConfig};
use idem_dynamodb::{Config, DynamoStore};

use crate::{Adapter, ServerUrl};

/// An endpoint. Each namespace is a table.
#[derive(Debug, Clone)]
pub struct Dynamo {
    url: ServerUrl,
}

impl Dynamo {
    /// Creates the adapter of the endpoint at this URL.
    pub fn new(url: impl Into<ServerUrl>) -> Self {
        Self { url: url.into() }
    }

    /// Returns the configuration of a namespace's store.
    ///
    /// # Errors
    ///
    /// An error when this cannot be the name of a table.
    pub fn config(&self, namespace: &str) -> Result<Config, BoxError> {
        Ok(Config::new().with_table(namespace)?)
    }

    /// Returns the settings of clients, with the SDK's usual variables for region and credentials.
    /// An imitation takes any.
    #[must_use]
    pub fn client_config(&self) -> ClientConfig {
        let variable = |name| std::env::var(name).ok();
        let or_test = |name| variable(name).unwrap_or_else(|| "test".to_owned());
        let region = variable("AWS_REGION").unwrap_or_else(|| "us-east-1".to_owned());
        let credentials = Credentials::new(
            or_test("AWS_ACCESS_KEY_ID"),
            or_test("AWS_SECRET_ACCESS_KEY"),
            variable("AWS_SESSION_TOKEN"),
            None,
            "idem-stores",
        );
        ClientConfig::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(self.url.as_str())
            .region(Region::new(region))
            .credentials_provider(credentials)
            // With the SDK's pauses of a second, cut connections would take most of a test's time.
            .retry_config(RetryConfig::standard().with_initial_backoff(Duration::from_millis(50)))
            .build()
    }

    /// Returns a client with connections of its own.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::from_conf(self.client_config())
    }
}

#[async_trait]
impl Adapter for Dynamo {
    type Store = DynamoStore;

    async fn product(&self) -> Result<(String, String), BoxError> {
        let header = ServerHeader::default();
        let listing = self.client().list_tables().limit(1).customize();
        listing.interceptor(header.clone()).send().await?;
        let header = header.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(product_of(header.as_deref().unwrap_or_default()))
    }

    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        Ok(self.store(namespace).await?.migrate().await?)
    }

    async fn store(&self, namespace: &str) -> Result<DynamoStore, BoxError> {
        let config = self.config(namespace)?;
        Ok(DynamoStore::with_config(self.client(), config))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let deleted = self.client().delete_table().table_name(namespace);
        deleted.send().await?;
        Ok(())
    }

    fn url(&self) -> Option<&ServerUrl> {
        Some(&self.url)
    }

    fn with_url(mut self, url: ServerUrl) -> Self {
        self.url = url;
        self
    }

    #[cfg(feature = "suite")]
    async fn damage(&self, namespace: &str, key: &Key) -> Result<bool, BoxError> {
        use idem_conformance::secrets::MARK;
        use idem_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
        let sealed = AttributeValue::N(StoredRecord::COMPLETED.to_string());
        let update = self
            .client()
            .update_item()
            .table_name(namespace)
            .key("pk", AttributeValue::S(format!("r:{}", key.path())))
            .update_expression("SET #result = :mark")
            .condition_expression("#state = :sealed")
            .expression_attribute_names("#result", "result")
            .expression_attribute_names("#state", "state")
            .expression_attribute_values(":mark", AttributeValue::B(MARK.as_bytes().into()))
            .expression_attribute_values(":sealed", sealed);
        update.send().await?;
        Ok(true)
    }
}

/// Returns name and version of the product whose answers have this `Server` header. The service
/// calls itself `Server`, and has no version.
fn product_of(header: &str) -> (String, String) {
    let (name, version) = header.split_once('/').unwrap_or((header, ""));
    let name = match name {
        "Server" => "DynamoDB".to_owned(),
        "Dynoxide" => "dynoxide, an imitation of DynamoDB".to_owned(),
        "Werkzeug" => "moto, an imitation of DynamoDB".to_owned(),
        other => format!("{other}, an unknown imitation of DynamoDB"),
    };
    (name, version.to_owned())
}

/// Keeps the header of an answer.
#[derive(Debug, Clone, Default)]
struct ServerHeader(Arc<Mutex<Option<String>>>);

impl Intercept for ServerHeader {
    fn name(&self) -> &'static str {
        "server header"
    }

    fn read_after_transmit(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), SdkError> {
        let header = context.response().headers().get("server");
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = header.map(ToOwned::to_owned);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_imitation_is_not_taken_for_the_service() {
        assert_eq!(product_of("Server").0, "DynamoDB");
        let (name, version) = product_of("Dynoxide/1.5.0");
        assert_eq!(version, "1.5.0");
        assert!(name.contains("an imitation"));
        assert!(product_of("").0.contains("unknown imitation"));
    }
}
