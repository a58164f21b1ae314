//! Migration, names and privileges.

use idem_conformance::{Case, CaseResult, Context, migration};
use idem_core::{BatchStore, BoxError, ErrorKind, IdempotencyStore, Response};
use idem_postgres::{Config, PostgresStore, schema_sql};

use super::transactions::quoted;
use super::{case, direct, shared};
use crate::support::{self, PostgresHarness};

pub(super) const SIXTEEN_PROCESSES_MIGRATE_AT_ONCE: Case =
    case(12, "sixteen_processes_migrate_at_once", |cx| {
        Box::pin(sixteen_processes_migrate_at_once(cx))
    });
pub(super) const THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE: Case =
    case(11, "the_printed_schema_is_the_migrated_one", |cx| {
        Box::pin(the_printed_schema_is_the_migrated_one(cx))
    });
pub(super) const A_TABLE_WHOSE_KEY_HAS_ANOTHER_ORDER_WORKS: Case =
    case(11, "a_table_whose_key_has_another_order_works", |cx| {
        Box::pin(a_table_whose_key_has_another_order_works(cx))
    });
pub(super) const A_MISSING_TABLE_IS_NAMED_WITH_ITS_CURE: Case =
    case(14, "a_missing_table_is_named_with_its_cure", |cx| {
        Box::pin(a_missing_table_is_named_with_its_cure(cx))
    });
pub(super) const A_LATER_SCHEMA_IS_REFUSED: Case = case(11, "a_later_schema_is_refused", |cx| {
    Box::pin(a_later_schema_is_refused(cx))
});
pub(super) const AN_INSTALLATION_WITHOUT_WATERMARKS_GETS_THEIR_TABLE: Case = case(
    12,
    "an_installation_without_watermarks_gets_their_table",
    |cx| {
        Box::pin(shared::an_installation_without_watermarks_gets_their_table(
            cx,
        ))
    },
);
pub(super) const FOUR_PRIVILEGES_ARE_ENOUGH: Case = case(11, "four_privileges_are_enough", |cx| {
    Box::pin(four_privileges_are_enough(cx))
});
pub(super) const A_TABLE_THAT_CITUS_DISTRIBUTES_IS_REFUSED: Case =
    case(11, "a_table_that_citus_distributes_is_refused", |cx| {
        Box::pin(a_table_that_citus_distributes_is_refused(cx))
    });

/// Migrates, if this is a child process that was started for that. Its job names the backend and the
/// schema.
pub(crate) fn migrate_as_child() -> Option<Result<(), BoxError>> {
    migration::migrate_as_child(async |job| {
        let (backend, namespace) = job.split_once(' ').ok_or("no namespace")?;
        let harness = PostgresHarness::of(backend).map_err(|missing| missing.to_string())?;
        let store = harness.store(namespace).await?;
        store.migrate().await?;
        Ok(store.verify().await?)
    })
}

async fn sixteen_processes_migrate_at_once(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let namespace = format!("{}_new", cx.namespace());
    let job = format!("{} {namespace}", cx.harness().name());
    let migrated = migration::sixteen_processes(&job).await;
    let verified = harness.store(&namespace).await?.verify().await;
    harness
        .execute(format!("DROP SCHEMA IF EXISTS \"{namespace}\" CASCADE"))
        .await?;
    migrated?;
    Ok(verified?)
}

async fn the_printed_schema_is_the_migrated_one(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let config = Config::new()
        .with_schema(cx.namespace())?
        .with_table("By_Hand")?;
    let pool = harness.store(cx.namespace()).await?.pool().clone();
    let store = PostgresStore::with_config(pool, config.with_statement_mode(harness.mode()));
    for _ in 0..2 {
        harness.execute(schema_sql(store.config())).await?;
    }
    store.verify().await?;
    store.migrate().await?;
    let claim = store.claim(&cx.request(&cx.key("one"))).await?.acquired();
    assert!(claim.is_some());
    assert_eq!(cx.store().get(&cx.key("one")).await?, None, "another table");
    Ok(())
}

/// A table of an earlier version, with the scope in front.
async fn a_table_whose_key_has_another_order_works(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let config = Config::new()
        .with_schema(cx.namespace())?
        .with_table("by_scope")?;
    let pool = harness.store(cx.namespace()).await?.pool().clone();
    let store = PostgresStore::with_config(pool, config.with_statement_mode(harness.mode()));
    let schema = schema_sql(store.config());
    let (order, earlier) = ("(id, operation, scope)", "(scope, operation, id)");
    assert!(schema.contains(order));
    harness.execute(schema.replace(order, earlier)).await?;
    store.verify().await?;
    store.migrate().await?;
    let requests = ["one", "two"].map(|id| cx.request(&cx.key(id)));
    let returned = store.claim_many(&requests).await;
    let claims = returned
        .into_iter()
        .map(|returned| Ok(returned?.acquired()));
    let claims = claims.collect::<CaseResult<Vec<_>>>()?;
    let one = claims[0].as_ref().expect("a fresh key");
    assert!(claims[1].is_some());
    let duplicate = store.claim(&cx.request(&cx.key("two"))).await?;
    assert_eq!(duplicate.name(), "in_flight");
    let done = Response::new(200, "done");
    let hour = std::time::Duration::from_secs(3600);
    store.complete(one, &done, hour).await?;
    let mut returned = store.claim_many(&[cx.request(&cx.key("one"))]).await;
    assert_eq!(returned.remove(0)?.name(), "completed");
    let alone = store.claim(&cx.request(&cx.key("three"))).await?;
    assert_eq!(alone.name(), "acquired");
    Ok(())
}

async fn a_missing_table_is_named_with_its_cure(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let config = Config::new()
        .with_schema(cx.namespace())?
        .with_table("missing")?;
    let pool = harness.store(cx.namespace()).await?.pool().clone();
    let store = PostgresStore::with_config(pool, config.with_statement_mode(harness.mode()));
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
    let comment = "idem records, schema version 2";
    let table = quoted(cx, "idem_records");
    shared::a_later_schema_is_refused(cx, format!("COMMENT ON TABLE {table} IS '{comment}'")).await
}

/// A role that may SELECT, INSERT, UPDATE and DELETE can do everything except migrate.
async fn four_privileges_are_enough(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let role = format!("{}_role", cx.namespace());
    let privileges = "SELECT, INSERT, UPDATE, DELETE";
    harness.create_role(cx, &role, privileges).await?;
    let worked = as_role(cx, &harness, &role).await;
    harness
        .execute(format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\""))
        .await?;
    worked
}

async fn as_role(cx: &Context, harness: &PostgresHarness, role: &str) -> CaseResult {
    let store = harness.store_as(role, cx.namespace()).await?;
    store.migrate().await?;
    migration::every_operation(cx, &store).await?;
    store.pool().close().await;
    Ok(())
}

/// No package brings Citus, so a table with the name of its catalogue's stands for it.
async fn a_table_that_citus_distributes_is_refused(cx: &Context) -> CaseResult {
    let (harness, namespace) = (support::harness(cx)?, cx.namespace());
    // A pooler takes no settings.
    let store = direct()?
        .store_under("search_path", namespace, namespace)
        .await?;
    let catalogue = format!("\"{namespace}\".pg_dist_partition");
    let create = format!("CREATE TABLE {catalogue} (logicalrelid regclass)");
    harness.execute(create).await?;
    store.verify().await?;
    let table = format!("\"{namespace}\".\"idem_records_watermarks\"");
    let insert = format!("INSERT INTO {catalogue} VALUES ('{table}')");
    harness.execute(insert).await?;
    let error = store.verify().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured);
    let cure = format!("undistribute_table('{table}')");
    assert!(error.to_string().contains(&cure), "{error}");
    harness.execute(format!("DROP TABLE {catalogue}")).await?;
    Ok(store.verify().await?)
}
