//! Migration, names and privileges.

use idem_conformance::{Case, CaseResult, Context, migration};
use idem_core::{BoxError, ErrorKind, IdempotencyStore};
use idem_mysql::{Config, MySqlStore, schema_sql};
use sqlx::mysql::MySqlPoolOptions;

use super::transactions::quoted;
use super::{case, shared};
use crate::support::{self, MySqlHarness};

pub(super) const SIXTEEN_PROCESSES_MIGRATE_AT_ONCE: Case =
    case(12, "sixteen_processes_migrate_at_once", |cx| {
        Box::pin(sixteen_processes_migrate_at_once(cx))
    });
pub(super) const THE_PRINTED_SCHEMA_IS_THE_MIGRATED_ONE: Case =
    case(11, "the_printed_schema_is_the_migrated_one", |cx| {
        Box::pin(the_printed_schema_is_the_migrated_one(cx))
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
pub(super) const WHAT_THE_STATEMENTS_NEED_IS_COMPARED: Case =
    case(11, "what_the_statements_need_is_compared", |cx| {
        Box::pin(what_the_statements_need_is_compared(cx))
    });
pub(super) const A_MISSING_PRIVILEGE_IS_NAMED: Case =
    case(11, "a_missing_privilege_is_named", |cx| {
        Box::pin(a_missing_privilege_is_named(cx))
    });
pub(super) const FOUR_PRIVILEGES_ARE_ENOUGH: Case = case(11, "four_privileges_are_enough", |cx| {
    Box::pin(four_privileges_are_enough(cx))
});

/// Migrates, if this is a child process that was started for that. Its job names the backend and the
/// schema.
pub(crate) fn migrate_as_child() -> Option<Result<(), BoxError>> {
    migration::migrate_as_child(async |job| {
        let (backend, namespace) = job.split_once(' ').ok_or("no namespace")?;
        let harness = MySqlHarness::of(backend).map_err(|missing| missing.to_string())?;
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
        .execute(format!("DROP DATABASE IF EXISTS `{namespace}`"))
        .await?;
    migrated?;
    Ok(verified?)
}

async fn the_printed_schema_is_the_migrated_one(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let config = Config::new()
        .with_database(cx.namespace())?
        .with_table("By_Hand")?;
    let pool = harness.store(cx.namespace()).await?.pool().clone();
    let store = MySqlStore::with_config(pool, config);
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

async fn a_missing_table_is_named_with_its_cure(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let config = Config::new()
        .with_database(cx.namespace())?
        .with_table("missing")?;
    let pool = harness.store(cx.namespace()).await?.pool().clone();
    let store = MySqlStore::with_config(pool, config);
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
    shared::a_later_schema_is_refused(cx, format!("ALTER TABLE {table} COMMENT = '{comment}'"))
        .await
}

/// Each change, and the text that the error has to contain.
const CHANGES: &[(&str, &str)] = &[
    ("idem_records DROP COLUMN metadata", "metadata"),
    ("idem_records MODIFY token INT NOT NULL", "token"),
    ("idem_records MODIFY result MEDIUMBLOB NULL", "result"),
    (
        "idem_records MODIFY id VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL",
        "column id",
    ),
    ("idem_records MODIFY scope VARBINARY(100) NOT NULL", "scope"),
    ("idem_records ADD COLUMN owner INT NOT NULL", "owner"),
    (
        "idem_records DROP PRIMARY KEY, ADD PRIMARY KEY (scope, operation)",
        "primary key",
    ),
    (
        "idem_records DROP PRIMARY KEY, ADD PRIMARY KEY (operation, scope, id)",
        "primary key",
    ),
    (
        "idem_records DROP PRIMARY KEY, ADD PRIMARY KEY (scope, operation, id(100))",
        "primary key",
    ),
    ("idem_records MODIFY token BIGINT NULL", "BIGINT NOT NULL"),
    (
        "idem_records MODIFY token BIGINT UNSIGNED NOT NULL",
        "unsigned",
    ),
    (
        "idem_records MODIFY attempt_id BINARY(20) NOT NULL",
        "binary(20)",
    ),
    ("idem_records DROP INDEX idem_records_purge_at", "purge_at"),
    ("idem_records ENGINE = MyISAM", "InnoDB"),
    ("idem_records_watermarks DROP COLUMN version", "version"),
];

async fn what_the_statements_need_is_compared(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let database = format!("{}_changed", cx.namespace());
    for (change, named) in CHANGES {
        let store = harness.store(&database).await?;
        store.migrate().await?;
        store.verify().await?;
        harness
            .execute(format!("ALTER TABLE `{database}`.{change}"))
            .await?;
        let returned = [store.verify().await, store.migrate().await];
        harness
            .execute(format!("DROP DATABASE `{database}`"))
            .await?;
        for returned in returned {
            let error = returned.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{change}");
            assert!(error.to_string().contains(named), "{change}: {error}");
            assert!(error.to_string().contains("migrate()"), "{change}: {error}");
        }
    }
    // A column that fills itself does not matter.
    let store = harness.store(cx.namespace()).await?;
    let added = "ADD COLUMN note INT NULL, ADD INDEX by_note (note)";
    harness
        .execute(format!(
            "ALTER TABLE `{}`.idem_records {added}",
            cx.namespace()
        ))
        .await?;
    store.verify().await?;
    let claim = store.claim(&cx.request(&cx.key("one"))).await?.acquired();
    assert!(claim.is_some());
    Ok(())
}

const TABLES: [&str; 2] = ["idem_records", "idem_records_watermarks"];

/// A user without privileges, or with all except one.
async fn a_missing_privilege_is_named(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let (database, user) = (cx.namespace(), &cx.namespace()[..30]);
    let all = ["SELECT", "INSERT", "UPDATE", "DELETE"];
    for lacks in 0..=all.len() {
        let mut granted = all.to_vec();
        match lacks < all.len() {
            true => drop(granted.remove(lacks)),
            false => granted.clear(),
        }
        let privileges = granted.join(", ");
        let mut grants = TABLES.map(|table| (&*privileges, table)).to_vec();
        grants.retain(|_| !granted.is_empty());
        harness.create_user(cx, user, &grants).await?;
        let options = harness.options()?.username(user).password("secret");
        // A user without any privilege may choose no database.
        let options = options.database("information_schema");
        let pool = MySqlPoolOptions::new().max_connections(1);
        let store = harness.store_with(pool, options, database).await?;
        let returned = store.verify().await;
        store.pool().close().await;
        harness.execute(format!("DROP USER '{user}'@'%'")).await?;
        let error = returned.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        let text = error.to_string().to_lowercase();
        assert!(text.contains("grant"), "{granted:?}: {error}");
        if let Some(lacks) = all.get(lacks) {
            assert!(text.contains(&lacks.to_lowercase()), "{lacks}: {error}");
        }
    }
    Ok(())
}

/// A user that may SELECT, INSERT, UPDATE and DELETE can do everything except migrate.
async fn four_privileges_are_enough(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    // Names of users have at most 32 characters.
    let user = &cx.namespace()[..30];
    let grants = TABLES.map(|table| ("SELECT, INSERT, UPDATE, DELETE", table));
    harness.create_user(cx, user, &grants).await?;
    let worked = as_user(cx, &harness, user).await;
    harness.execute(format!("DROP USER '{user}'@'%'")).await?;
    worked
}

async fn as_user(cx: &Context, harness: &MySqlHarness, user: &str) -> CaseResult {
    let options = harness
        .options()?
        .username(user)
        .password("secret")
        .database(cx.namespace());
    let store = harness
        .store_with(MySqlPoolOptions::new(), options, cx.namespace())
        .await?;
    store.migrate().await?;
    migration::every_operation(cx, &store).await?;
    store.pool().close().await;
    Ok(())
}
