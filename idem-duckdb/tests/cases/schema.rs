//! Migration, names, and what other users of the file may do.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context, migration};
use idem_core::{BatchStore, Effect, ErrorKind, IdempotencyStore};
use idem_duckdb::{Config, DuckDbStore, Transactions, schema_sql};

use super::case;
use crate::support::{self, file};

pub(super) const SIXTEEN_TASKS_MIGRATE_AT_ONCE: Case =
    case(12, "sixteen_tasks_migrate_at_once", |cx| {
        Box::pin(sixteen_tasks_migrate_at_once(cx))
    });
pub(super) const THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE: Case =
    case(11, "the_printed_schema_is_the_migrated_one", |cx| {
        Box::pin(the_printed_schema_is_the_migrated_one(cx))
    });
pub(super) const A_MISSING_TABLE_IS_NAMED_WITH_ITS_CURE: Case =
    case(14, "a_missing_table_is_named_with_its_cure", |cx| {
        Box::pin(a_missing_table_is_named_with_its_cure(cx))
    });
pub(super) const TABLES_THAT_DIFFER_ARE_REFUSED: Case =
    case(11, "tables_that_differ_are_refused", |cx| {
        Box::pin(tables_that_differ_are_refused(cx))
    });
pub(super) const AN_IN_MEMORY_DATABASE_IS_A_STORE: Case =
    case(12, "an_in_memory_database_is_a_store", |cx| {
        Box::pin(an_in_memory_database_is_a_store(cx))
    });
pub(super) const A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK: Case =
    case(5, "a_clock_that_was_set_back_takes_no_token_back", |cx| {
        Box::pin(a_clock_that_was_set_back_takes_no_token_back(cx))
    });
pub(super) const THE_LARGEST_TOKEN_IS_AN_ERROR_WITH_ITS_REMEDY: Case =
    case(5, "the_largest_token_is_an_error_with_its_remedy", |cx| {
        Box::pin(the_largest_token_is_an_error_with_its_remedy(cx))
    });
pub(super) const SETTINGS_OF_A_CALLER_CHANGE_NOTHING: Case =
    case(12, "settings_of_a_caller_change_nothing", |cx| {
        Box::pin(settings_of_a_caller_change_nothing(cx))
    });

async fn execute(store: &DuckDbStore, sql: String) -> CaseResult {
    let executed = store
        .pool()
        .run(move |connection| connection.execute_batch(&sql));
    Ok(executed.await?)
}

async fn sixteen_tasks_migrate_at_once(cx: &Context) -> CaseResult {
    let folder = format!("{}/new", cx.namespace());
    std::fs::create_dir(&folder)?;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let path = file(&folder);
        tasks.spawn(async move {
            let store = DuckDbStore::connect(path, Config::new()).await?;
            store.migrate().await?;
            store.verify().await
        });
    }
    while let Some(migrated) = tasks.join_next().await {
        migrated??;
    }
    Ok(())
}

async fn the_printed_schema_is_the_migrated_one(cx: &Context) -> CaseResult {
    let pool = support::store(cx.namespace()).await?.pool().clone();
    let store = DuckDbStore::with_config(pool, Config::new().with_table("By_Hand")?);
    for _ in 0..2 {
        execute(&store, schema_sql(store.config())).await?;
    }
    store.verify().await?;
    store.migrate().await?;
    let request = cx.request(&cx.key("one"));
    assert!(store.claim(&request).await?.acquired().is_some());
    assert_eq!(cx.store().get(&cx.key("one")).await?, None, "another table");
    Ok(())
}

async fn a_missing_table_is_named_with_its_cure(cx: &Context) -> CaseResult {
    let pool = support::store(cx.namespace()).await?.pool().clone();
    let store = DuckDbStore::with_config(pool, Config::new().with_table("missing")?);
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

async fn tables_that_differ_are_refused(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    let made = schema_sql(&Config::new().with_table("other")?);
    for (from, to, said) in [
        ("", "", None),
        (
            "PRIMARY KEY (key)",
            "CHECK (true)",
            Some("PRIMARY KEY (key)"),
        ),
        (
            "PRIMARY KEY (key)",
            "PRIMARY KEY (key, id)",
            Some("PRIMARY KEY (key)"),
        ),
        (
            "token         BIGINT ",
            "token         INTEGER",
            Some("token"),
        ),
        (
            "token         BIGINT  NOT NULL",
            "token BIGINT",
            Some("token"),
        ),
        (
            "result        BLOB,",
            "more BIGINT NOT NULL,",
            Some("result"),
        ),
        (
            "result        BLOB,",
            "result BLOB, more BIGINT NOT NULL,",
            Some("more"),
        ),
        (
            "PRIMARY KEY (key)",
            "PRIMARY KEY (key), CHECK (state < 9)",
            Some("check constraint"),
        ),
        (
            "PRIMARY KEY (key)",
            "PRIMARY KEY (key), UNIQUE (id)",
            Some("unique"),
        ),
    ] {
        let drop = "DROP TABLE IF EXISTS other; DROP TABLE IF EXISTS other_watermarks;";
        assert!(made.contains(from), "{from}");
        execute(&store, format!("{drop} {}", made.replacen(from, to, 1))).await?;
        let config = Config::new().with_table("other")?;
        let other = DuckDbStore::with_config(store.pool().clone(), config);
        match (other.verify().await, said) {
            (Ok(()), None) => {}
            (Err(error), Some(said)) => migration::is_misconfigured(&error, said),
            (verified, _) => return Err(format!("{to}: {verified:?}").into()),
        }
    }
    Ok(())
}

async fn an_in_memory_database_is_a_store(cx: &Context) -> CaseResult {
    let store = DuckDbStore::connect(":memory:", Config::new()).await?;
    store.migrate().await?;
    store.verify().await?;
    let request = cx.request(&cx.key("one"));
    assert!(store.claim(&request).await?.acquired().is_some());
    let again = cx.request(request.key());
    assert_eq!(store.clone().claim(&again).await?.name(), "in_flight");
    let other = DuckDbStore::connect(":memory:", Config::new()).await?;
    other.migrate().await?;
    assert_eq!(other.get(request.key()).await?, None);
    Ok(())
}

/// A clock that was set back leaves a token from the future behind.
async fn a_clock_that_was_set_back_takes_no_token_back(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    let claim = cx.claim(&cx.request(&cx.key("ahead"))).await?;
    cx.store().release(&claim).await?;
    let hour = 3_600_000_000;
    execute(
        &store,
        format!("UPDATE idem_records SET token = token + {hour}"),
    )
    .await?;
    let deleted = cx.store().delete_expired(10).await?;
    assert_eq!(deleted, 0, "the next token is made from it");
    let next = cx.claim(&cx.request(claim.key())).await?;
    assert!(next.token().as_i64() > claim.token().as_i64() + hour);
    Ok(())
}

async fn the_largest_token_is_an_error_with_its_remedy(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    cx.hold(&request).await?;
    let max = i64::MAX;
    execute(
        &store,
        format!("UPDATE idem_records SET token = {max}, expires_at = 1"),
    )
    .await?;
    let again = cx.request(request.key());
    for in_batch in [false, true] {
        let returned = match in_batch {
            true => store
                .claim_many(std::slice::from_ref(&again))
                .await
                .remove(0),
            false => store.claim(&again).await,
        };
        let error = returned.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Corrupt, Effect::None)
        );
        assert!(error.to_string().contains("delete the row"), "{error}");
    }
    Ok(())
}

/// Another database in use, a temporary table of the same name, a collation for all texts.
async fn settings_of_a_caller_change_nothing(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    let mut attempts = Transactions::new(&store).attempts();
    let mut transaction = attempts.begin().await?;
    let hostile = "CREATE TEMP TABLE idem_records (key INTEGER);
        SET default_collation = 'NOCASE'; SET default_null_order = 'nulls_first';
        SET timezone = 'America/St_Johns'; SET preserve_insertion_order = false;
        ATTACH ':memory:' AS other; USE other";
    transaction
        .run(move |connection| connection.execute_batch(hostile))
        .await?;
    for id in ["one", "ONE"] {
        let request = cx.request(&cx.key(id));
        let claimed = store.claim_in(&mut transaction, &request).await?;
        let claim = claimed.acquired().ok_or("a fresh key")?;
        let response = idem_core::Response::new(200, id);
        let hour = Duration::from_secs(3600);
        store
            .complete_in(&mut transaction, &claim, &response, hour)
            .await?;
    }
    transaction.commit().await?;
    for id in ["one", "ONE"] {
        assert_eq!(
            cx.store().claim(&cx.request(&cx.key(id))).await?.name(),
            "completed"
        );
    }
    assert_eq!(cx.store().get(&cx.key("One")).await?, None);
    Ok(())
}
