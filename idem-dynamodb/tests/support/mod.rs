//! How the tests reach a DynamoDB.

pub(crate) mod service;

use std::ops::Deref;
use std::time::Duration;

use idem_conformance::{CaseError, Context, Missing, Profile};
use idem_core::{BoxError, Key};
use idem_dynamodb::DynamoStore;
use idem_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use idem_stores::{Adapter, Dynamo, Suite, found};

/// The largest body of the cases; two of these do not fit into an item.
const BODY_BYTES: usize = 300 << 10;

/// What a `Date` header leaves open, and the time of an answer.
const SKEW: Duration = Duration::from_secs(3);

/// Creates the target. TTL deletes expired records, and `delete_expired` leaves those whose token
/// is young, so nothing counts them exactly. The store's instants come from its clients, who
/// measure the service's clock.
pub(crate) fn target() -> Result<Suite<Dynamo>, Missing> {
    let profile = Profile::new()
        .shared_between_processes()
        .durable()
        .server_clock()
        .with_clock_skew(SKEW)
        .network()
        .batch()
        .self_expiring()
        .checkpoints()
        .watermarks()
        .admin()
        .damage()
        .with_max_result_bytes(BODY_BYTES);
    let DynamoHarness(adapter) = DynamoHarness::from_environment()?;
    Ok(Suite::new("dynamodb", adapter, profile))
}

/// The endpoint of the cases of this crate.
pub(crate) struct DynamoHarness(Dynamo);

impl Deref for DynamoHarness {
    type Target = Dynamo;

    fn deref(&self) -> &Dynamo {
        &self.0
    }
}

impl DynamoHarness {
    /// Returns the endpoint that the environment names, or a server started for the tests.
    pub(crate) fn from_environment() -> Result<Self, Missing> {
        Ok(Self(Dynamo::new(found("dynamodb")?)))
    }

    /// Opens a store of the concrete type.
    pub(crate) async fn store(&self, namespace: &str) -> Result<DynamoStore, BoxError> {
        Adapter::store(&self.0, namespace).await
    }
}

/// Returns the endpoint that a case runs on.
pub(crate) fn harness() -> Result<DynamoHarness, CaseError> {
    DynamoHarness::from_environment().map_err(|missing| CaseError::new(missing.to_string()))
}

/// The item of a record.
pub(crate) type Item = std::collections::HashMap<String, AttributeValue>;

/// Returns the item of a key's record.
pub(crate) async fn item(cx: &Context, key: &Key) -> Result<Option<Item>, CaseError> {
    let read = harness()?
        .client()
        .get_item()
        .table_name(cx.namespace())
        .key("pk", AttributeValue::S(format!("r:{}", key.path())))
        .consistent_read(true);
    Ok(read.send().await?.item)
}

/// Sets a number of a key's record.
pub(crate) async fn set(cx: &Context, key: &Key, name: &str, number: i64) -> Result<(), CaseError> {
    let write = harness()?
        .client()
        .update_item()
        .table_name(cx.namespace())
        .key("pk", AttributeValue::S(format!("r:{}", key.path())))
        .update_expression("SET #name = :number")
        .condition_expression("attribute_exists(pk)")
        .expression_attribute_names("#name", name)
        .expression_attribute_values(":number", AttributeValue::N(number.to_string()));
    write.send().await?;
    Ok(())
}

/// Reads a number of an item.
pub(crate) fn number(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}
