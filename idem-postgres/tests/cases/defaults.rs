//! Defaults of the session, and tables that change under a store.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{BatchStore, ClaimOutcome, Effect, ErrorKind, IdempotencyStore, Response};
use idem_postgres::{PostgresStore, StatementMode, Transactions};

use super::case;
use crate::support;

pub(super) const A_CLAIM_UNDER_SERIALIZABLE_IS_REPEATED_INSIDE: Case =
    case(1, "a_claim_under_serializable_is_repeated_inside", |cx| {
        Box::pin(a_claim_under_serializable_is_repeated_inside(cx))
    });
pub(super) const A_DEFAULT_THAT_ONLY_READS_IS_NAMED: Case =
    case(14, "a_default_that_only_reads_is_named", |cx| {
        Box::pin(a_default_that_only_reads_is_named(cx))
    });
pub(super) const A_SESSION_THAT_THE_SERVER_ENDS_FOR_IDLING_IS_REPLACED: Case = case(
    14,
    "a_session_that_the_server_ends_for_idling_is_replaced",
    |cx| Box::pin(a_session_that_the_server_ends_for_idling_is_replaced(cx)),
);
pub(super) const A_TABLE_THAT_CHANGES_UNDER_A_STORE_IS_PREPARED_FOR_ANEW: Case = case(
    14,
    "a_table_that_changes_under_a_store_is_prepared_for_anew",
    |cx| Box::pin(a_table_that_changes_under_a_store_is_prepared_for_anew(cx)),
);
pub(super) const A_TOKEN_AT_ITS_END_IS_NAMED_AND_HURTS_NO_NEIGHBOUR: Case = case(
    14,
    "a_token_at_its_end_is_named_and_hurts_no_neighbour",
    |cx| Box::pin(a_token_at_its_end_is_named_and_hurts_no_neighbour(cx)),
);
pub(super) const TIME_OUTS_OF_THE_SERVER_DO_NOT_HIDE_WHAT_HAPPENED: Case = case(
    14,
    "time_outs_of_the_server_do_not_hide_what_happened",
    |cx| Box::pin(time_outs_of_the_server_do_not_hide_what_happened(cx)),
);
pub(super) const WHAT_IS_WRONG_WITH_A_TABLE_IS_NAMED: Case =
    case(14, "what_is_wrong_with_a_table_is_named", |cx| {
        Box::pin(what_is_wrong_with_a_table_is_named(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// Sixteen callers of one key, fresh or released before, on a caller's pool whose sessions are
/// serializable: no caller gets `Contention`.
async fn a_claim_under_serializable_is_repeated_inside(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    if harness.mode() == StatementMode::Unprepared {
        // The pooler takes no options; unprepared statements set their level themselves.
        return Ok(());
    }
    let name = "default_transaction_isolation";
    let store = harness
        .store_under(name, "serializable", cx.namespace())
        .await?;
    for key in 0..20 {
        if key % 2 == 0 {
            let request = cx.request(&cx.key(format!("key {key}")));
            let ClaimOutcome::Acquired(claim) = cx.store().claim(&request).await? else {
                panic!("a fresh key");
            };
            cx.store().release(&claim).await?;
        }
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (store, request) = (store.clone(), cx.request(&cx.key(format!("key {key}"))));
            callers.spawn(async move { store.claim(&request).await });
        }
        let mut winners = 0;
        for returned in callers.join_all().await {
            winners += usize::from(matches!(returned?, ClaimOutcome::Acquired(_)));
        }
        assert_eq!(winners, 1);
    }
    Ok(())
}

/// `idle_session_timeout` (PostgreSQL 14 and later; older servers refuse the setting): the session
/// ends with 57P05. A claim that meets it may be repeated.
async fn a_session_that_the_server_ends_for_idling_is_replaced(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    if harness.mode() == StatementMode::Unprepared {
        return Ok(());
    }
    let name = "idle_session_timeout";
    let Ok(theirs) = harness.store_under(name, "0", cx.namespace()).await else {
        return Ok(());
    };
    // The store's own pool uses a connection that was idle for a moment without a ping.
    let url = harness.url_with(name, "20ms");
    let mut tries = 0;
    let store = loop {
        match PostgresStore::connect(&url, theirs.config().clone()).await {
            Ok(store) => break store,
            Err(error) => assert!(error.is_retryable() && tries < 20, "{error}"),
        }
        tries += 1;
    };
    for key in 0..20 {
        let request = cx.request(&cx.key(format!("key {key}")));
        let mut tries = 0;
        while let Err(error) = store.claim(&request).await {
            assert!(error.is_retryable(), "{error}");
            tries += 1;
            assert!(tries < 20, "no session is replaced: {error}");
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    Ok(())
}

/// The server ends a claim that waits for a lock, and a transaction that idles, by its own
/// time-outs (`transaction_timeout`: PostgreSQL 17 and later). The claim may be repeated, and is
/// won then.
async fn time_outs_of_the_server_do_not_hide_what_happened(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    if harness.mode() == StatementMode::Unprepared {
        return Ok(());
    }
    let holder = harness.store(cx.namespace()).await?;
    for (name, effect) in [
        ("statement_timeout", Effect::None),
        ("transaction_timeout", Effect::Unknown),
    ] {
        let store = match harness.store_under(name, "40ms", cx.namespace()).await {
            Ok(store) => store,
            Err(error) if error.to_string().contains("unrecognized configuration") => continue,
            Err(error) => return Err(error.into()),
        };
        let request = cx.request(&cx.key(name));
        let mut transaction = holder.pool().begin().await?;
        let _claim = holder.claim_in(&mut transaction, &request).await?;
        let error = store.claim(&request).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Unavailable, effect),
            "{name}: {error}"
        );
        assert!(error.to_string().contains(name), "{error}");
        transaction.rollback().await?;
        let claim = store.claim(&request).await?.acquired().expect("free again");
        store
            .complete(&claim, &Response::new(200, "done"), HOUR)
            .await?;
    }
    let name = "idle_in_transaction_session_timeout";
    let store = harness.store_under(name, "40ms", cx.namespace()).await?;
    let request = cx.request(&cx.key(name));
    let mut transaction = store.pool().begin().await?;
    let returned = store.claim_in(&mut transaction, &request).await?;
    let claim = returned.acquired().expect("a fresh key");
    // Time is the subject: the server ends the transaction meanwhile.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let done = Response::new(200, "done");
    let completed = store
        .complete_in(&mut transaction, &claim, &done, HOUR)
        .await;
    let error = completed.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::None),
        "{error}"
    );
    assert_eq!(cx.store().claim(&request).await?.name(), "acquired");
    Ok(())
}

/// `connect` refuses the default; on a caller's pool the first write does.
async fn a_default_that_only_reads_is_named(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    if harness.mode() == StatementMode::Unprepared {
        return Ok(());
    }
    let name = "default_transaction_read_only";
    let store = harness.store_under(name, "on", cx.namespace()).await?;
    let verified = store.verify().await.unwrap_err();
    let claimed = store.claim(&cx.request(&cx.key("one"))).await.unwrap_err();
    let url = harness.url_with(name, "on");
    let refused = PostgresStore::connect(&url, store.config().clone()).await;
    let refused = refused.expect_err("nothing can be claimed");
    for error in [verified, claimed, refused] {
        assert_eq!(error.effect(), Effect::None);
        assert!(error.to_string().contains(name), "{error}");
    }
    Ok(())
}

/// After the type of a column has changed, the server refuses statements that were prepared before.
async fn a_table_that_changes_under_a_store_is_prepared_for_anew(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let own = harness.store(cx.namespace()).await?;
    let callers = harness.store_with(1, cx.namespace()).await?;
    let table = format!("\"{}\".idem_records", cx.namespace());
    let held = cx.request(&cx.key("held"));
    cx.hold(&held).await?;
    // Each connection prepares the statement that decides everything, and one of a transaction.
    let duplicate = || cx.request(held.key());
    for kind in ["varchar(9999)", "text", "varchar(8888)"] {
        for store in [&own, &callers] {
            assert_eq!(
                store.claim_many(&[duplicate()]).await.remove(0)?.name(),
                "in_flight"
            );
            assert_eq!(store.claim(&duplicate()).await?.name(), "in_flight");
            let transactions = Transactions::new(store);
            let mut attempts = transactions.attempts();
            let returned = loop {
                let mut transaction = attempts.begin().await?;
                let returned = store.claim_in(&mut transaction, &duplicate()).await;
                if let Some(returned) = attempts.finish(transaction, returned).await {
                    break returned?;
                }
            };
            assert_eq!(returned.name(), "in_flight");
        }
        harness
            .execute(format!(
                "ALTER TABLE {table} ALTER COLUMN metadata TYPE {kind}"
            ))
            .await?;
    }
    Ok(())
}

/// The next token would be one more. The other keys of a batch are claimed.
async fn a_token_at_its_end_is_named_and_hurts_no_neighbour(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let claim = cx.claim(&cx.request(&cx.key("end"))).await?;
    cx.store().release(&claim).await?;
    let table = format!("\"{}\".idem_records", cx.namespace());
    harness
        .execute(format!("UPDATE {table} SET token = {}", i64::MAX))
        .await?;
    let end = || cx.request(claim.key());
    let [before, after] = ["before", "fresh"].map(|id| cx.request(&cx.key(id)));
    let mut returned = store.claim_many(&[before, end(), after]).await;
    let (after, at_end, before) = (returned.remove(2), returned.remove(1), returned.remove(0));
    assert_eq!([before?.name(), after?.name()], ["acquired"; 2]);
    for error in [at_end.unwrap_err(), store.claim(&end()).await.unwrap_err()] {
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Corrupt, Effect::None)
        );
        assert!(error.to_string().contains("delete that row"), "{error}");
    }
    Ok(())
}

/// Each change is one that a person may make to a table, and `verify` names the remedy.
async fn what_is_wrong_with_a_table_is_named(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let records = format!("\"{}\".idem_records", cx.namespace());
    let marks = format!("\"{}\".idem_records_watermarks", cx.namespace());
    let [part, moved] = ["part", "moved"].map(|name| format!("\"{}\".{name}", cx.namespace()));
    let partitioned = format!(
        "ALTER TABLE {records} RENAME TO moved;
        CREATE TABLE {records} (LIKE {moved}) PARTITION BY HASH (id);
        CREATE TABLE {part} PARTITION OF {records} FOR VALUES WITH (MODULUS 1, REMAINDER 0);
        COMMENT ON TABLE {records} IS 'idem records, schema version 1';"
    );
    let plain = format!("DROP TABLE {records}; ALTER TABLE {moved} RENAME TO idem_records");
    store.verify().await?;
    for (does, undoes, says) in [
        (
            format!("ALTER TABLE {records} RENAME COLUMN metadata TO m"),
            format!("ALTER TABLE {records} RENAME COLUMN m TO metadata"),
            "no column metadata text; add it",
        ),
        (
            format!("ALTER TABLE {records} ALTER COLUMN attempts TYPE bigint"),
            format!("ALTER TABLE {records} ALTER COLUMN attempts TYPE integer"),
            "ALTER COLUMN attempts TYPE integer, ALTER COLUMN attempts SET NOT NULL",
        ),
        (
            format!("ALTER TABLE {records} ADD COLUMN extra text NOT NULL"),
            format!("ALTER TABLE {records} DROP COLUMN extra"),
            "extra",
        ),
        (
            format!("ALTER TABLE {records} ALTER COLUMN result SET NOT NULL"),
            format!("ALTER TABLE {records} ALTER COLUMN result DROP NOT NULL"),
            "DROP NOT NULL",
        ),
        (
            format!("ALTER TABLE {marks} DROP CONSTRAINT idem_records_watermarks_pkey"),
            format!("ALTER TABLE {marks} ADD PRIMARY KEY (scope, operation, id)"),
            "PRIMARY KEY (scope, operation, id)",
        ),
        (
            format!("DROP INDEX \"{}\".idem_records_purge_at", cx.namespace()),
            format!("CREATE INDEX idem_records_purge_at ON {records} (purge_at)"),
            "no index on purge_at",
        ),
        (
            format!("ALTER TABLE {records} ALTER COLUMN token DROP NOT NULL"),
            format!("ALTER TABLE {records} ALTER COLUMN token SET NOT NULL"),
            "SET NOT NULL",
        ),
        (
            format!("ALTER TABLE {records} SET UNLOGGED"),
            format!("ALTER TABLE {records} SET LOGGED"),
            "SET LOGGED",
        ),
        (
            format!(
                "CREATE TABLE {part} (PRIMARY KEY (id, operation, scope)) INHERITS ({records})"
            ),
            format!("DROP TABLE {part}"),
            "partitioned",
        ),
        (
            format!("{partitioned} CREATE UNIQUE INDEX part_key ON {part} (id, operation, scope)"),
            plain.clone(),
            "partitioned",
        ),
        (
            format!("{partitioned} ALTER TABLE {records} ADD PRIMARY KEY (id, operation, scope)"),
            plain,
            "partitioned",
        ),
    ] {
        harness.execute(does).await?;
        let error = store.verify().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains(says), "{error}");
        harness.execute(undoes).await?;
        store.verify().await?;
    }
    let role = format!("{}_nobody", cx.namespace());
    let schema = cx.namespace();
    harness.create_role(cx, &role, "SELECT").await?;
    let verified = match harness.mode() {
        StatementMode::Prepared => {
            let powerless = harness.store_as(&role, schema).await?;
            let verified = powerless.verify().await;
            powerless.pool().close().await;
            verified
        }
        // The pooler of the tests logs every client in as the same role.
        StatementMode::Unprepared => Ok(()),
    };
    harness
        .execute(format!("DROP OWNED BY \"{role}\"; DROP ROLE \"{role}\""))
        .await?;
    if harness.mode() == StatementMode::Prepared {
        let error = verified.unwrap_err().to_string();
        assert!(error.contains("GRANT INSERT, UPDATE, DELETE ON"), "{error}");
    }
    let claim = store.claim(&cx.request(&cx.key("one"))).await?.acquired();
    let done = Response::new(200, "done");
    store.complete(&claim.expect("free"), &done, HOUR).await?;
    Ok(())
}
