//! Settings of connections and files that change the meaning of statements, and tables that are not
//! the store's.

use std::path::Path;
use std::str::FromStr;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{Effect, ErrorKind, IdempotencyStore};
use idem_sqlite::{Config, SqliteStore, schema_sql};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

use super::case;

pub(super) const SETTINGS_THAT_BREAK_PROMISES_ARE_REFUSED: Case =
    case(12, "settings_that_break_promises_are_refused", |cx| {
        Box::pin(settings_that_break_promises_are_refused(cx))
    });
pub(super) const A_FILE_WITHOUT_WAL_IS_REFUSED: Case =
    case(12, "a_file_without_wal_is_refused", |cx| {
        Box::pin(a_file_without_wal_is_refused(cx))
    });
pub(super) const A_FILE_THAT_IS_NO_DATABASE_IS_NAMED_SO: Case =
    case(14, "a_file_that_is_no_database_is_named_so", |cx| {
        Box::pin(a_file_that_is_no_database_is_named_so(cx))
    });
pub(super) const TABLES_THAT_DIFFER_ARE_REFUSED: Case =
    case(11, "tables_that_differ_are_refused", |cx| {
        Box::pin(tables_that_differ_are_refused(cx))
    });

/// Opens a store on one caller's connection with these settings.
async fn set(cx: &Context, pragmas: &[(&'static str, &'static str)]) -> CaseResult<SqliteStore> {
    let file = Path::new(cx.namespace()).join("idem.db");
    let mut options = SqliteConnectOptions::new().filename(file);
    for &(name, value) in pragmas {
        options = options.pragma(name, value);
    }
    let pool = SqlitePoolOptions::new().max_connections(1);
    Ok(SqliteStore::new(pool.connect_with(options).await?))
}

async fn settings_that_break_promises_are_refused(cx: &Context) -> CaseResult {
    for (name, value, is_refused) in [
        ("synchronous", "OFF", true),
        ("synchronous", "NORMAL", false),
        ("synchronous", "EXTRA", false),
        ("query_only", "ON", true),
        ("read_uncommitted", "ON", true),
        ("writable_schema", "ON", true),
        ("locking_mode", "EXCLUSIVE", true),
        ("foreign_keys", "OFF", false),
        ("journal_mode", "WAL", false),
    ] {
        let store = set(cx, &[(name, value)]).await?;
        let verified = store.verify().await;
        store.close().await;
        if !is_refused {
            verified?;
            continue;
        }
        let error = verified.expect_err(name);
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("set it to"), "{text}");
    }
    // The file of this case is in WAL mode, so the journals are tested on another.
    for (mode, is_refused) in [("OFF", true), ("MEMORY", true), ("DELETE", false)] {
        let file = Path::new(cx.namespace()).join(format!("{mode}.db"));
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .pragma("journal_mode", mode);
        let pool = SqlitePoolOptions::new().max_connections(1);
        let store = SqliteStore::new(pool.connect_with(options).await?);
        store.migrate().await?;
        assert_eq!(store.verify().await.is_err(), is_refused, "{mode}");
    }
    SqliteStore::connect("sqlite::memory:", Config::new())
        .await?
        .migrate()
        .await?;
    Ok(())
}

/// These `vfs` have no shared memory, and one of them has no lock.
async fn a_file_without_wal_is_refused(cx: &Context) -> CaseResult {
    for vfs in ["unix-none", "unix-dotfile"] {
        let url = format!("sqlite:{}/{vfs}.db?vfs={vfs}", cx.namespace());
        let error = SqliteStore::connect(&url, Config::new())
            .await
            .expect_err(vfs);
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("WAL mode"), "{error}");
    }
    // Connections that see neither locks nor changes, and connections that see uncommitted data.
    for setting in ["immutable=1", "cache=shared"] {
        let url = format!("sqlite:{}/idem.db?{setting}", cx.namespace());
        let store = SqliteStore::connect(&url, Config::new()).await?;
        let request = cx.request(&cx.key(setting));
        let lock = cx.begin().await?;
        let error = store.claim(&request).await.expect_err(setting);
        assert_eq!(error.kind(), ErrorKind::Contention, "{setting}: {error}");
        lock.rollback().await?;
        cx.hold(&request).await?;
        let other = cx.request(request.key());
        assert_eq!(store.claim(&other).await?.name(), "in_flight", "{setting}");
        store.verify().await?;
    }
    Ok(())
}

async fn a_file_that_is_no_database_is_named_so(cx: &Context) -> CaseResult {
    let text = Path::new(cx.namespace()).join("text.db");
    std::fs::write(
        text,
        "no database, but long enough to be examined".repeat(50),
    )?;
    let read_only = format!("sqlite:{}/idem.db?mode=ro", cx.namespace());
    SqliteStore::connect(&read_only, Config::new()).await?;
    for (name, kind, part) in [
        ("text.db", ErrorKind::Corrupt, "no SQLite database"),
        ("", ErrorKind::Misconfigured, "check the path"),
        (
            "no/folder.db",
            ErrorKind::Misconfigured,
            "its folder exists",
        ),
    ] {
        let url = format!("sqlite:{}/{name}", cx.namespace());
        let error = SqliteStore::connect(&url, Config::new())
            .await
            .expect_err(name);
        assert_eq!(error.kind(), kind, "{name}: {error}");
        assert_eq!(error.effect(), Effect::None);
        assert!(error.to_string().contains(part), "{name}: {error}");
    }
    let store = SqliteStore::connect(&read_only, Config::new()).await?;
    let error = store.claim(&cx.request(&cx.key("one"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert!(error.to_string().contains("mode=ro"), "{error}");
    Ok(())
}

/// The schema with one change each, and the message of `verify()` about it.
const CHANGES: &[(&str, &str, &str)] = &[
    (
        "token         INTEGER",
        "token         TEXT",
        "column token",
    ),
    (
        "token         INTEGER",
        "token         REAL",
        "column token",
    ),
    (
        "attempt_id    BLOB",
        "attempt_id    TEXT",
        "column attempt_id",
    ),
    (
        "sealed_at     INTEGER",
        "sealed_at     INTEGER NOT NULL",
        "column sealed_at",
    ),
    (
        "result        BLOB",
        "result        BLOB NOT NULL",
        "column result",
    ),
    (
        "    metadata      TEXT,              -- JSON\n",
        "",
        "no column metadata",
    ),
    (
        "version       INTEGER NOT NULL",
        "version       TEXT NOT NULL",
        "column version",
    ),
    (
        "id            TEXT    NOT NULL COLLATE BINARY",
        "id            TEXT    NOT NULL COLLATE NOCASE",
        "BINARY",
    ),
    (
        "PRIMARY KEY (id, operation, scope)",
        "PRIMARY KEY (id, operation)",
        "no primary key (id, operation, scope)",
    ),
    (
        "PRIMARY KEY (id, operation, scope)",
        "CHECK (1)",
        "primary key",
    ),
    (
        "    PRIMARY KEY (id, operation, scope)",
        "    UNIQUE (attempt_id), PRIMARY KEY (id, operation, scope)",
        "unique index",
    ),
    (
        "    PRIMARY KEY (id, operation, scope)",
        "    mine TEXT NOT NULL, PRIMARY KEY (id, operation, scope)",
        "column mine is not this crate's",
    ),
];

const STATEMENTS: &[(&str, &str)] = &[
    ("DROP INDEX idem_records_purge_at", "no index on purge_at"),
    ("DROP INDEX idem_records_sweep_at", "no index on sweep_at"),
    ("DROP INDEX idem_records_marks_at", "no index on expires_at"),
    ("DROP TABLE idem_records_watermarks", "is missing"),
    (
        "CREATE TRIGGER t BEFORE UPDATE ON idem_records BEGIN SELECT RAISE(IGNORE); END",
        "trigger",
    ),
    (
        "ALTER TABLE idem_records RENAME COLUMN sweep_at TO swept",
        "no column sweep_at",
    ),
];

async fn verified(cx: &Context, number: usize, schema: String, part: &str) -> CaseResult {
    let url = format!("sqlite:{}/{number}.db", cx.namespace());
    let options = SqliteConnectOptions::from_str(&url)?.create_if_missing(true);
    let pool = SqlitePoolOptions::new().connect_with(options).await?;
    sqlx::raw_sql(AssertSqlSafe(schema)).execute(&pool).await?;
    let store = SqliteStore::new(pool);
    let error = store.verify().await.expect_err(part);
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{part}: {error}");
    assert!(error.to_string().contains(part), "{part}: {error}");
    Ok(())
}

async fn tables_that_differ_are_refused(cx: &Context) -> CaseResult {
    let schema = schema_sql(&Config::new());
    for (number, (from, to, part)) in CHANGES.iter().enumerate() {
        assert!(schema.contains(from), "{from}");
        verified(cx, number, schema.replace(from, to), part).await?;
    }
    for (number, (statement, part)) in STATEMENTS.iter().enumerate() {
        let script = format!("{schema};\n{statement};");
        verified(cx, 100 + number, script, part).await?;
    }
    // A column of the caller's own does not matter.
    let url = format!("sqlite:{}/more.db", cx.namespace());
    let store = SqliteStore::connect(&url, Config::new()).await?;
    store.migrate().await?;
    sqlx::raw_sql(
        "ALTER TABLE idem_records ADD COLUMN mine TEXT; CREATE INDEX mine ON idem_records (mine)",
    )
    .execute(store.pool())
    .await?;
    store.verify().await?;
    assert_eq!(
        store.claim(&cx.request(&cx.key("one"))).await?.name(),
        "acquired"
    );
    Ok(())
}
