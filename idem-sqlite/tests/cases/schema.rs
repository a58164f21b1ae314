//! Opening, migration and names.

use idem_conformance::{Case, CaseResult, Context, migration};
use idem_core::{BoxError, IdempotencyStore};
use idem_sqlite::{Config, SqliteStore, schema_sql};

use super::case;
use crate::support;

pub(super) const SIXTEEN_PROCESSES_OPEN_AND_MIGRATE_AT_ONCE: Case =
    case(12, "sixteen_processes_open_and_migrate_at_once", |cx| {
        Box::pin(sixteen_processes_open_and_migrate_at_once(cx))
    });
pub(super) const THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE: Case =
    case(11, "the_printed_schema_is_the_migrated_one", |cx| {
        Box::pin(the_printed_schema_is_the_migrated_one(cx))
    });
pub(super) const A_MISSING_TABLE_IS_NAMED_WITH_ITS_CURE: Case =
    case(14, "a_missing_table_is_named_with_its_cure", |cx| {
        Box::pin(a_missing_table_is_named_with_its_cure(cx))
    });
pub(super) const ANOTHER_TABLE_OF_THAT_NAME_IS_REFUSED: Case =
    case(11, "another_table_of_that_name_is_refused", |cx| {
        Box::pin(another_table_of_that_name_is_refused(cx))
    });
pub(super) const AN_IN_MEMORY_DATABASE_IS_A_STORE: Case =
    case(12, "an_in_memory_database_is_a_store", |cx| {
        Box::pin(an_in_memory_database_is_a_store(cx))
    });

pub(super) const A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK: Case =
    case(5, "a_clock_that_was_set_back_takes_no_token_back", |cx| {
        Box::pin(a_clock_that_was_set_back_takes_no_token_back(cx))
    });

/// A clock that was set back leaves a token from the future behind.
async fn a_clock_that_was_set_back_takes_no_token_back(cx: &Context) -> CaseResult {
    let pool = support::store(cx.namespace()).await?.pool().clone();
    let claim = cx.claim(&cx.request(&cx.key("ahead"))).await?;
    cx.store().release(&claim).await?;
    let hour = 3_600_000_000;
    sqlx::query("UPDATE idem_records SET token = token + ?1, purge_at = 0")
        .bind(hour)
        .execute(&pool)
        .await?;
    assert_eq!(
        cx.store().delete_expired(10).await?,
        0,
        "the next token is made from it"
    );
    let next = cx.claim(&cx.request(claim.key())).await?;
    assert!(next.token().as_i64() > claim.token().as_i64() + hour);
    Ok(())
}

/// Migrates, if this is a child process that was started for that. Its job is the folder of the
/// database.
pub(crate) fn migrate_as_child() -> Option<Result<(), BoxError>> {
    migration::migrate_as_child(async |folder| {
        let store = support::store(&folder).await?;
        store.migrate().await?;
        Ok(store.verify().await?)
    })
}

async fn sixteen_processes_open_and_migrate_at_once(cx: &Context) -> CaseResult {
    let folder = format!("{}/new", cx.namespace());
    std::fs::create_dir(&folder)?;
    migration::sixteen_processes(&folder).await?;
    Ok(support::store(&folder).await?.verify().await?)
}

async fn the_printed_schema_is_the_migrated_one(cx: &Context) -> CaseResult {
    let pool = support::store(cx.namespace()).await?.pool().clone();
    let config = Config::new().with_table("By_Hand")?;
    let store = SqliteStore::with_config(pool, config);
    for _ in 0..2 {
        sqlx::raw_sql(sqlx::AssertSqlSafe(schema_sql(store.config())))
            .execute(store.pool())
            .await?;
    }
    store.verify().await?;
    store.migrate().await?;
    assert!(
        store
            .claim(&cx.request(&cx.key("one")))
            .await?
            .acquired()
            .is_some()
    );
    assert_eq!(cx.store().get(&cx.key("one")).await?, None, "another table");
    Ok(())
}

async fn a_missing_table_is_named_with_its_cure(cx: &Context) -> CaseResult {
    let pool = support::store(cx.namespace()).await?.pool().clone();
    let store = SqliteStore::with_config(pool, Config::new().with_table("missing")?);
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

async fn another_table_of_that_name_is_refused(cx: &Context) -> CaseResult {
    let pool = support::store(cx.namespace()).await?.pool().clone();
    sqlx::raw_sql("CREATE TABLE taken (id TEXT, state TEXT)")
        .execute(&pool)
        .await?;
    let store = SqliteStore::with_config(pool, Config::new().with_table("taken")?);
    for error in [
        store.migrate().await.unwrap_err(),
        store.verify().await.unwrap_err(),
    ] {
        migration::is_misconfigured(&error, "with_table");
    }
    Ok(())
}

async fn an_in_memory_database_is_a_store(cx: &Context) -> CaseResult {
    let store = SqliteStore::connect("sqlite::memory:", Config::new()).await?;
    store.migrate().await?;
    let request = cx.request(&cx.key("one"));
    assert!(store.claim(&request).await?.acquired().is_some());
    let again = cx.request(request.key());
    assert_eq!(store.clone().claim(&again).await?.name(), "in_flight");
    Ok(())
}
