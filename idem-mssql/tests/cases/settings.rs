//! Sessions whose defaults change the meaning of statements, and tables that were changed.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    BatchStore, ClaimOutcome, Effect, ErrorKind, Failure, IdempotencyStore, Record, Response,
};
use idem_mssql::MssqlStore;

use super::case;
use crate::support;

pub(super) const HOSTILE_SESSIONS_CHANGE_NO_LAW: Case =
    case(12, "hostile_session_settings_change_no_law", |cx| {
        Box::pin(hostile_session_settings_change_no_law(cx))
    });
pub(super) const WHAT_IS_MISSING_IS_NAMED: Case =
    case(11, "verify_names_what_differs_from_the_schema", |cx| {
        Box::pin(verify_names_what_differs_from_the_schema(cx))
    });
pub(super) const OTHER_TABLES_DO_NOT_MATTER: Case =
    case(14, "verify_passes_while_other_tables_change", |cx| {
        Box::pin(verify_passes_while_other_tables_change(cx))
    });
pub(super) const A_TOKEN_THAT_CANNOT_GROW_IS_NAMED: Case = case(
    5,
    "a_token_that_cannot_grow_is_named_and_spoils_no_batch",
    |cx| Box::pin(a_token_that_cannot_grow_is_named_and_spoils_no_batch(cx)),
);

const HOUR: Duration = Duration::from_secs(3600);

/// The core of the laws on connections that get these settings after they were opened; another
/// connection checks the records.
async fn hostile_session_settings_change_no_law(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let pool = harness.hostile_pool(4)?;
    let store = MssqlStore::with_config(pool, harness.config(cx.namespace())?);

    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired();
    let claim = claim.expect("a fresh key");
    assert!(
        cx.store().get(request.key()).await?.is_some(),
        "not committed"
    );
    let rival = store.claim(&cx.request(request.key())).await?;
    assert!(matches!(rival, ClaimOutcome::InFlight(_)));
    let claim = store.renew(&claim, HOUR).await?;
    let response = Response::new(200, vec![7; 100_000]);
    store.complete(&claim, &response, HOUR).await?;
    for replay in [
        store.claim(&cx.request(request.key())).await?,
        cx.store().claim(&cx.request(request.key())).await?,
    ] {
        let ClaimOutcome::Completed(completed) = replay else {
            panic!("not replayed: {}", replay.name());
        };
        assert_eq!(completed.response, response, "byte for byte");
    }

    let requests: Vec<_> = (0..20)
        .map(|number| cx.request(&cx.key(format!("batch-{number}"))))
        .collect();
    for outcome in store.claim_many(&requests).await {
        let claim = outcome?.acquired().expect("a fresh key");
        assert!(
            cx.store().get(claim.key()).await?.is_some(),
            "not committed"
        );
    }
    let failing = cx.claim(&cx.request(&cx.key("fails"))).await?;
    store
        .fail(&failing, &Failure::new("no", "no"), HOUR)
        .await?;
    let record = cx.store().get(failing.key()).await?;
    assert!(matches!(record, Some(Record::Failed(_))));
    let released = cx.claim(&cx.request(&cx.key("released"))).await?;
    store.release(&released).await?;
    assert_eq!(cx.store().get(released.key()).await?, None);
    assert!(
        store.delete_expired(10).await? <= 1,
        "only the released one"
    );
    Ok(())
}

async fn verify_names_what_differs_from_the_schema(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let (store, table) = (harness.store(cx.namespace())?, cx.namespace());
    store.verify().await?;
    let index = format!("{table}_purge_at");
    for (change, named, back) in [
        (
            format!("DROP INDEX [{index}] ON [{table}];"),
            "no index on purge_at",
            format!("CREATE INDEX [{index}] ON [{table}] (purge_at);"),
        ),
        (
            format!("ALTER TABLE [{table}] DROP COLUMN metadata;"),
            "no column metadata",
            format!("ALTER TABLE [{table}] ADD metadata nvarchar(max) NULL;"),
        ),
        (
            format!("ALTER TABLE [{table}] ADD theirs int NOT NULL;"),
            "theirs",
            format!("ALTER TABLE [{table}] DROP COLUMN theirs;"),
        ),
        (
            format!("ALTER TABLE [{table}] ALTER COLUMN token int;"),
            "token",
            back_to_bigint(table, "token"),
        ),
        (
            format!("ALTER TABLE [{table}] DROP CONSTRAINT [{table}_key];"),
            "primary key",
            format!(
                "ALTER TABLE [{table}] ADD CONSTRAINT [{table}_key]
                 PRIMARY KEY CLUSTERED (scope, operation, id);"
            ),
        ),
        (
            format!("ALTER TABLE [{table}_watermarks] ALTER COLUMN version int;"),
            "version",
            back_to_bigint(&format!("{table}_watermarks"), "version"),
        ),
    ] {
        harness.run(table, &change).await?;
        let error = store.verify().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{change}: {error}");
        assert!(error.to_string().contains(named), "{change}: {error}");
        harness.run(table, &back).await?;
        store.verify().await?;
    }
    Ok(())
}

/// Without NOT NULL, SQL Server makes the column one that takes NULL. Babelfish leaves that as it
/// was, and does not know NOT NULL here.
fn back_to_bigint(table: &str, column: &str) -> String {
    let alter = format!("ALTER TABLE [{table}] ALTER COLUMN {column} bigint");
    format!(
        "{alter}; IF SERVERPROPERTY(N'Babelfish') IS NULL BEGIN EXEC sp_executesql N'{alter} NOT NULL'; END;"
    )
}

/// Babelfish's `sys.columns` reads the columns of every table in the database, and fails if another
/// session drops one of them meanwhile.
async fn verify_passes_while_other_tables_change(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let (store, table) = (harness.store(cx.namespace())?, cx.namespace());
    let other = format!("[{table}_payments]");
    let changes = async {
        loop {
            let changes = [
                format!("CREATE TABLE {other} (id int NOT NULL PRIMARY KEY);"),
                format!("ALTER TABLE {other} ADD note int NULL;"),
                format!("ALTER TABLE {other} DROP COLUMN note;"),
                format!("DROP TABLE {other};"),
            ];
            for change in changes {
                harness.run(table, &change).await?;
            }
        }
    };
    let verifies = async {
        for _ in 0..30 {
            store.verify().await?;
        }
        Ok(())
    };
    tokio::select! {
        verified = verifies => verified,
        failed = changes => failed,
    }
}

async fn a_token_that_cannot_grow_is_named_and_spoils_no_batch(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace())?;
    let [last, other] = ["last", "other"].map(|id| cx.request(&cx.key(id)));
    let claim = cx.claim(&last).await?;
    store.release(&claim).await?;
    let update = format!("UPDATE [{}] SET token = {};", cx.namespace(), i64::MAX);
    harness.run(cx.namespace(), &update).await?;
    let again = cx.request(last.key());
    let error = store.claim(&again).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert_eq!(error.effect(), Effect::None, "{error:?}");
    assert!(error.to_string().contains("token"), "{error}");
    let answers = store.claim_many(&[again, other]).await;
    assert!(
        answers[0]
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Corrupt)
    );
    assert!(matches!(answers[1], Ok(ClaimOutcome::Acquired(_))));
    Ok(())
}
