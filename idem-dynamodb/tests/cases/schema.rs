//! The table.

use idem_conformance::{CaseResult, Context};
use idem_core::{Effect, ErrorKind, IdempotencyStore};
use idem_dynamodb::DynamoStore;
use idem_dynamodb::aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use idem_stores::random_name;

use crate::support;

pub(super) async fn a_missing_table_is_named_with_its_cure(cx: &Context) -> CaseResult {
    let store = support::harness()?.store(&random_name()).await?;
    let errors = [
        store.claim(&cx.request(&cx.key("one"))).await.unwrap_err(),
        store.get(&cx.key("one")).await.unwrap_err(),
        store.delete_expired(10).await.unwrap_err(),
        store.verify().await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert_eq!(error.effect(), Effect::None);
        assert!(error.to_string().contains("`migrate()`"), "{error}");
    }
    Ok(())
}

pub(super) async fn many_migrate_at_once(cx: &Context) -> CaseResult {
    let (harness, table) = (support::harness()?, random_name());
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let store = harness.store(&table).await?;
        tasks.push(tokio::spawn(async move { store.migrate().await }));
    }
    for task in tasks {
        task.await??;
    }
    let store = harness.store(&table).await?;
    store.migrate().await?;
    store.verify().await?;
    let claimed = store.claim(&cx.request(&cx.key("one"))).await?;
    assert!(claimed.acquired().is_some());
    harness
        .client()
        .delete_table()
        .table_name(&table)
        .send()
        .await?;
    Ok(())
}

pub(super) async fn a_table_with_another_key_is_refused(_: &Context) -> CaseResult {
    let (harness, table) = (support::harness()?, random_name());
    let key = AttributeDefinition::builder()
        .attribute_name("id")
        .attribute_type(ScalarAttributeType::S);
    let hash = KeySchemaElement::builder()
        .attribute_name("id")
        .key_type(KeyType::Hash);
    let client = harness.client();
    let created = client
        .create_table()
        .table_name(&table)
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(key.build()?)
        .key_schema(hash.build()?);
    created.send().await?;
    let store: DynamoStore = harness.store(&table).await?;
    for error in [
        store.verify().await.unwrap_err(),
        store.migrate().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("`pk`"), "{error}");
    }
    client.delete_table().table_name(&table).send().await?;
    Ok(())
}
