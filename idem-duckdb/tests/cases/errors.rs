//! Errors as DuckDB really reports them: the driver has no codes, so their texts decide.

use std::fs;
use std::path::Path;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{BoxError, Effect, Error, ErrorKind, IdempotencyStore};
use idem_duckdb::{Config, DuckDbPool, DuckDbStore, duckdb, is_transaction_retryable};

use super::case;
use crate::support;

pub(super) const ERRORS_SAY_WHAT_TO_DO: Case = case(14, "errors_say_what_to_do", |cx| {
    Box::pin(errors_say_what_to_do(cx))
});
pub(super) const CONFLICTS_ARE_TO_BE_REPEATED_AND_OTHER_ERRORS_ARE_NOT: Case = case(
    14,
    "conflicts_are_to_be_repeated_and_other_errors_are_not",
    |cx| Box::pin(conflicts_are_to_be_repeated_and_other_errors_are_not(cx)),
);

async fn refused(path: &Path) -> Error {
    let config = Config::new().with_timeout(std::time::Duration::from_millis(50));
    DuckDbPool::open(path, &config).await.expect_err("refused")
}

async fn errors_say_what_to_do(cx: &Context) -> CaseResult {
    let folder = Path::new(cx.namespace());
    let text = folder.join("text.duckdb");
    fs::write(
        &text,
        "a text that is no database of DuckDB, whatever its name says",
    )?;
    for path in [folder.join("no/such/folder/a.duckdb"), text] {
        let error = refused(&path).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert_eq!(error.effect(), Effect::None, "{error}");
    }
    let store = support::store(cx.namespace()).await?;
    // The statements of the store, on tables that do not suit.
    for (table, ddl, kind) in [
        (
            "no_column",
            "CREATE TABLE no_column (key BLOB PRIMARY KEY)",
            ErrorKind::Misconfigured,
        ),
        (
            "no_key",
            "CREATE TABLE no_key AS SELECT * FROM idem_records",
            ErrorKind::Misconfigured,
        ),
        (
            "strict",
            "CREATE TABLE strict AS FROM idem_records; ALTER TABLE strict ADD PRIMARY KEY (key);
             ALTER TABLE strict ADD COLUMN more INTEGER;
             ALTER TABLE strict ALTER more SET NOT NULL",
            ErrorKind::Misconfigured,
        ),
    ] {
        store
            .pool()
            .run(move |connection| connection.execute_batch(ddl))
            .await?;
        let config = Config::new().with_table(table)?;
        let other = DuckDbStore::with_config(store.pool().clone(), config);
        let error = other.claim(&cx.request(&cx.key("one"))).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (kind, Effect::None),
            "{table}"
        );
    }
    Ok(())
}

fn failure(text: &str) -> duckdb::Error {
    duckdb::Error::DuckDBFailure(duckdb::ffi::Error::new(1), Some(text.to_owned()))
}

async fn conflicts_are_to_be_repeated_and_other_errors_are_not(cx: &Context) -> CaseResult {
    let store = support::store(cx.namespace()).await?;
    let create = "CREATE TABLE t (k INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)";
    let pool = store.pool();
    pool.run(move |connection| connection.execute_batch(create))
        .await?;
    let said = |sql: &'static str| async move {
        let ran = pool.run(move |connection| connection.execute_batch(sql));
        ran.await.expect_err(sql)
    };
    for sql in ["INSERT INTO t VALUES (1)", "SELECT * FROM nowhere", "SELEC"] {
        let error: BoxError = said(sql).await;
        assert!(!is_transaction_retryable(&*error), "{sql}: {error}");
    }
    // A commit that could not be written is no conflict, though its text begins like that of one.
    for (text, is_conflict) in [
        (
            "TransactionContext Error: Failed to commit: Could not write",
            false,
        ),
        (
            "TransactionContext Error: cannot commit - no transaction is active",
            false,
        ),
        (
            "TransactionContext Error: Current transaction is aborted",
            true,
        ),
        (
            "TransactionContext Error: Catalog write-write conflict on create",
            true,
        ),
        ("IO Error: Could not write file", false),
    ] {
        assert_eq!(
            is_transaction_retryable(&failure(text)),
            is_conflict,
            "{text}"
        );
    }
    // Two transactions create one table.
    let (mut a, mut b) = (pool.begin().await?, pool.begin().await?);
    let create = "CREATE TABLE once (a INTEGER)";
    a.run(move |connection| connection.execute_batch(create))
        .await?;
    let second = b.run(move |connection| connection.execute_batch(create));
    let error = second.await.expect_err("a conflict");
    assert!(is_transaction_retryable(&*error), "{error}");
    Ok(a.commit().await?)
}
