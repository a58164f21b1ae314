//! Migration and names.

use idem_conformance::{Case, CaseResult, Context, migration};
use idem_core::{BoxError, IdempotencyStore};
use idem_mssql::{MssqlStore, schema_sql};

use super::case;
use crate::support::{self, MssqlHarness};

pub(super) const SIXTEEN_PROCESSES_MIGRATE_AT_ONCE: Case =
    case(12, "sixteen_processes_migrate_at_once", |cx| {
        Box::pin(sixteen_processes_migrate_at_once(cx))
    });
pub(super) const THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE: Case =
    case(11, "the_printed_schema_is_the_migrated_one", |cx| {
        Box::pin(the_printed_schema_is_the_migrated_one(cx))
    });
pub(super) const A_SCHEMA_IS_CREATED_WITH_ITS_TABLE: Case =
    case(11, "a_schema_is_created_with_its_table", |cx| {
        Box::pin(a_schema_is_created_with_its_table(cx))
    });
pub(super) const A_MISSING_TABLE_IS_NAMED_WITH_ITS_CURE: Case =
    case(14, "a_missing_table_is_named_with_its_cure", |cx| {
        Box::pin(a_missing_table_is_named_with_its_cure(cx))
    });
pub(super) const A_LATER_SCHEMA_IS_REFUSED: Case = case(11, "a_later_schema_is_refused", |cx| {
    Box::pin(a_later_schema_is_refused(cx))
});

/// Migrates, if this is a child process that was started for that. Its job names the backend and the
/// table.
pub(crate) fn migrate_as_child() -> Option<Result<(), BoxError>> {
    migration::migrate_as_child(async |job| {
        let (backend, namespace) = job.split_once(' ').ok_or("no namespace")?;
        let harness = MssqlHarness::of(backend).map_err(|missing| missing.to_string())?;
        let store = harness.store(namespace)?;
        store.migrate().await?;
        Ok(store.verify().await?)
    })
}

async fn sixteen_processes_migrate_at_once(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let namespace = format!("{}_new", cx.namespace());
    let job = format!("{} {namespace}", cx.harness().name());
    let migrated = migration::sixteen_processes(&job).await;
    let verified = harness.store(&namespace)?.verify().await;
    cx.harness().destroy(&namespace).await?;
    migrated?;
    Ok(verified?)
}

async fn the_printed_schema_is_the_migrated_one(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let namespace = format!("{}_Hand", cx.namespace());
    let store = harness.store(&namespace)?;
    let printed = schema_sql(store.config());
    for _ in 0..2 {
        harness.run(&namespace, &printed).await?;
    }
    store.verify().await?;
    store.migrate().await?;
    let claim = store.claim(&cx.request(&cx.key("one"))).await?.acquired();
    cx.harness().destroy(&namespace).await?;
    assert!(claim.is_some());
    assert_eq!(cx.store().get(&cx.key("one")).await?, None, "another table");
    Ok(())
}

async fn a_schema_is_created_with_its_table(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let schema = format!("{}_schema", cx.namespace());
    let config = harness.config("idem_records")?.with_schema(&schema)?;
    let store = MssqlStore::with_config(harness.store(cx.namespace())?.pool().clone(), config);
    let migrated = store.migrate().await;
    let again = store.migrate().await;
    let claim = store.claim(&cx.request(&cx.key("one"))).await;
    let drop = format!(
        "DROP TABLE [{schema}].[idem_records];\nDROP TABLE [{schema}].[idem_records_watermarks];\n\
         DROP TABLE [{schema}].[idem_records_version];\nDROP SCHEMA [{schema}];"
    );
    harness.run(cx.namespace(), &drop).await?;
    migrated?;
    again?;
    assert!(claim?.acquired().is_some());
    assert_eq!(cx.store().get(&cx.key("one")).await?, None, "another table");
    Ok(())
}

async fn a_missing_table_is_named_with_its_cure(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let config = harness.config("idem_test_missing")?;
    let store = MssqlStore::with_config(harness.store(cx.namespace())?.pool().clone(), config);
    let errors = [
        store.verify().await.unwrap_err(),
        store.claim(&cx.request(&cx.key("one"))).await.unwrap_err(),
        store.delete_expired(1).await.unwrap_err(),
    ];
    for error in errors {
        migration::is_misconfigured(&error, "migrate()");
    }
    Ok(())
}

async fn a_later_schema_is_refused(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let update = format!("UPDATE [{}_version] SET version = 2;", cx.namespace());
    harness.run(cx.namespace(), &update).await?;
    let store = harness.store(cx.namespace())?;
    for error in [
        store.migrate().await.unwrap_err(),
        store.verify().await.unwrap_err(),
    ] {
        migration::is_misconfigured(&error, "upgrade the crate");
    }
    Ok(())
}
