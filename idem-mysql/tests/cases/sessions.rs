//! Whatever the settings of a session or a server, the answers are the same, or the store refuses
//! the setting.

use std::time::Duration;

use idem_conformance::{Case, CaseError, CaseResult, Context};
use idem_core::{
    BatchStore, ClaimOutcome, Effect, ErrorKind, IdempotencyStore, Limits, Metadata, Record,
    Response,
};
use idem_mysql::MySqlStore;
use sqlx::Executor;
use sqlx::mysql::MySqlPoolOptions;

use super::case;
use crate::support;

pub(super) const ANY_SESSION_ANSWERS_THE_SAME: Case =
    case(9, "any_session_answers_the_same", |cx| {
        Box::pin(any_session_answers_the_same(cx))
    });
pub(super) const ANY_COLLATION_ANSWERS_THE_SAME: Case =
    case(10, "any_collation_answers_the_same", |cx| {
        Box::pin(any_collation_answers_the_same(cx))
    });
pub(super) const UNSUITABLE_SETTINGS_ARE_REFUSED: Case =
    case(11, "unsuitable_settings_are_refused", |cx| {
        Box::pin(unsuitable_settings_are_refused(cx))
    });

pub(super) const HOSTILE_SESSIONS_OF_A_POOL_ANSWER_THE_SAME: Case =
    case(9, "hostile_sessions_of_a_pool_answer_the_same", |cx| {
        Box::pin(hostile_sessions_of_a_pool_answer_the_same(cx))
    });
pub(super) const A_COLUMNS_TYPE_MAY_CHANGE_UNDER_A_CONNECTION: Case =
    case(14, "a_columns_type_may_change_under_a_connection", |cx| {
        Box::pin(a_columns_type_may_change_under_a_connection(cx))
    });
pub(super) const A_TOKEN_AT_THE_END_OF_ITS_RANGE_IS_NAMED: Case =
    case(5, "a_token_at_the_end_of_its_range_is_named", |cx| {
        Box::pin(a_token_at_the_end_of_its_range_is_named(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// Isolation levels, modes and time zones in common use.
const SETTINGS: &[&str] = &[
    "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET SESSION sql_mode = ''",
    "SET SESSION sql_mode = 'TRADITIONAL'",
    "SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'",
    "SET SESSION sql_mode = 'HIGH_NOT_PRECEDENCE,IGNORE_SPACE,NO_UNSIGNED_SUBTRACTION,PAD_CHAR_TO_FULL_LENGTH'",
    "SET SESSION time_zone = '+13:00'",
    "SET SESSION time_zone = '-11:30'",
    "SET SESSION time_zone = 'SYSTEM'",
    "SET NAMES latin1",
    "SET SESSION collation_connection = 'utf16_general_ci'",
];
/// Settings for other purposes, and those with which dumps are loaded.
const HOSTILE: &[&str] = &[
    "SET SESSION sql_safe_updates = 1",
    "SET SESSION innodb_lock_wait_timeout = 1, SESSION lock_wait_timeout = 1",
    "SET SESSION unique_checks = 0, SESSION foreign_key_checks = 0",
    "SET SESSION sql_auto_is_null = 1",
    "SET SESSION auto_increment_increment = 7, SESSION auto_increment_offset = 3",
    "SET SESSION group_concat_max_len = 4, SESSION div_precision_increment = 0",
    "SET SESSION max_join_size = 100000",
    "SET SESSION optimizer_switch = 'derived_merge=off,index_merge=off,materialization=off,semijoin=off'",
    "SET SESSION tmp_table_size = 1024, SESSION max_heap_table_size = 16384",
    "SET SESSION wait_timeout = 100, SESSION net_read_timeout = 5",
    "SET SESSION sql_select_limit = 20000",
];
const MARIADB_ONLY: &[&str] =
    &["SET SESSION sql_mode = 'SIMULTANEOUS_ASSIGNMENT,STRICT_ALL_TABLES'"];
const MYSQL_ONLY: &[&str] =
    &["SET SESSION sql_mode = 'TIME_TRUNCATE_FRACTIONAL,STRICT_ALL_TABLES'"];

async fn set_up(cx: &Context, setting: &'static str) -> CaseResult<MySqlStore> {
    let harness = support::harness(cx)?;
    let options = harness
        .options()?
        .pipes_as_concat(false)
        .no_engine_substitution(false)
        .timezone(None)
        .set_names(false);
    let pool = MySqlPoolOptions::new()
        .max_connections(3)
        .after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(setting).await.map(drop) })
        });
    Ok(harness.store_with(pool, options, cx.namespace()).await?)
}

async fn any_session_answers_the_same(cx: &Context) -> CaseResult {
    let own = match cx.harness().name() {
        "mysql" => MYSQL_ONLY,
        _ => MARIADB_ONLY,
    };
    for (number, setting) in SETTINGS.iter().chain(own).enumerate() {
        let store = set_up(cx, setting).await?;
        store.verify().await?;
        live(cx, &store, &format!("{number}")).await?;
        store.pool().close().await;
    }
    Ok(())
}

/// Sessions of a caller's pool with settings that this store does not need.
async fn hostile_sessions_of_a_pool_answer_the_same(cx: &Context) -> CaseResult {
    for (number, setting) in HOSTILE.iter().enumerate() {
        let store = set_up(cx, setting).await?;
        let what = format!("hostile {number}");
        live(cx, &store, &what)
            .await
            .map_err(|error| CaseError::new(format!("{setting}: {error}")))?;
        store.pool().close().await;
    }
    // A read-only session is reported, and nothing was done.
    let store = set_up(cx, "SET SESSION TRANSACTION READ ONLY").await?;
    let error = store
        .claim(&cx.request(&cx.key("read only")))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::None),
        "{error}"
    );
    Ok(())
}

/// Statements that were prepared before still work.
async fn a_columns_type_may_change_under_a_connection(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    live(cx, &store, "before").await?;
    for (number, change) in [
        "MODIFY attempts BIGINT NOT NULL",
        "ADD COLUMN note INT NULL FIRST",
        "MODIFY id VARBINARY(300) NOT NULL",
    ]
    .iter()
    .enumerate()
    {
        harness
            .execute(format!(
                "ALTER TABLE `{}`.idem_records {change}",
                cx.namespace()
            ))
            .await?;
        live(cx, &store, &format!("after {number}")).await?;
    }
    Ok(())
}

/// No acquisition can get a greater token.
async fn a_token_at_the_end_of_its_range_is_named(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let claim = cx.claim(&cx.request(&cx.key("one"))).await?;
    store.release(&claim).await?;
    harness
        .execute(format!(
            "UPDATE `{}`.idem_records SET token = {}",
            cx.namespace(),
            i64::MAX
        ))
        .await?;
    let request = cx.request(claim.key());
    let mut transaction = store.pool().begin().await?;
    for error in [
        store.claim(&request).await.unwrap_err(),
        store
            .claim_in(&mut transaction, &request)
            .await
            .unwrap_err(),
    ] {
        assert_eq!(
            (error.kind(), error.effect()),
            (ErrorKind::Corrupt, Effect::None),
            "{error}"
        );
        assert!(error.to_string().contains("token"), "{error}");
        assert!(error.to_string().contains("delete the row"), "{error}");
    }
    Ok(transaction.rollback().await?)
}

/// Runs the life of a few keys; reads everything through another session, too.
async fn live(cx: &Context, store: &MySqlStore, id: &str) -> CaseResult {
    let key = cx.key(format!("Straße {id} 💶"));
    let metadata = Metadata::from_iter([("hôte", "zürich 💶")]);
    let request = cx.request(&key).with_metadata(metadata.clone());
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let again = store.claim(&request).await?.acquired().expect("its own");
    assert_eq!(again.token(), claim.token());
    let seen = cx.store().get(&key).await?.expect("held");
    assert_eq!(seen.info().metadata, metadata);
    let renewed = store.renew(&claim, 2 * HOUR).await?;
    let left = renewed.lease_ends_at().as_micros() - claim.lease_ends_at().as_micros();
    assert!(left > 0, "renewed by {left} µs");
    assert!(matches!(
        cx.store().claim(&cx.request(&key)).await?,
        ClaimOutcome::InFlight(_)
    ));
    let response = Response::new(200, vec![0, 255, b'\'', b'\\', 0]);
    store.complete(&claim, &response, HOUR).await?;
    store.complete(&claim, &response, HOUR).await?;
    let Some(Record::Completed(record)) = cx.store().get(&key).await? else {
        return Err("not completed".into());
    };
    assert_eq!(record.response, response);
    let outcome = store.claim(&cx.other_request(&key)).await?;
    assert!(matches!(outcome, ClaimOutcome::Conflict(_)));
    in_a_transaction(cx, store, id).await?;
    taken_over_and_purged(cx, store, id).await
}

async fn in_a_transaction(cx: &Context, store: &MySqlStore, id: &str) -> CaseResult {
    let request = cx.request(&cx.key(format!("in a transaction {id}")));
    let response = Response::new(200, "done");
    let mut transaction = store.pool().begin().await?;
    let claim = store.claim_in(&mut transaction, &request).await?;
    let claim = claim.acquired().expect("fresh");
    store
        .complete_in(&mut transaction, &claim, &response, HOUR)
        .await?;
    transaction.commit().await?;
    let returned = store.claim(&cx.request(request.key())).await?;
    assert!(matches!(returned, ClaimOutcome::Completed(_)));
    Ok(())
}

async fn taken_over_and_purged(cx: &Context, store: &MySqlStore, id: &str) -> CaseResult {
    let request = cx.request(&cx.key(format!("stale {id}")));
    let stale = cx.stale_claim(&request).await?;
    let batch = store
        .claim_many(&[
            cx.request(stale.key()),
            cx.request(&cx.key(format!("new {id}"))),
        ])
        .await;
    let mut tokens = Vec::new();
    for outcome in batch {
        let claim = outcome?.acquired().expect("stale or fresh");
        tokens.push(claim.token());
        store.release(&claim).await?;
    }
    assert!(tokens[0] > stale.token());
    assert_eq!(store.delete_expired(10).await?, 2, "both were released");
    Ok(())
}

/// Keys and metadata are bytes; a database's own character set and collation say nothing about
/// them.
async fn any_collation_answers_the_same(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    for (number, set) in ["latin1", "utf8mb4", "utf16", "ascii"].iter().enumerate() {
        let database = format!("{}_{number}", cx.namespace());
        let create = format!("CREATE DATABASE `{database}` DEFAULT CHARACTER SET {set}");
        harness.execute(create).await?;
        let worked = tell_apart(cx, &harness.store(&database).await?).await;
        harness
            .execute(format!("DROP DATABASE `{database}`"))
            .await?;
        worked?;
    }
    Ok(())
}

async fn tell_apart(cx: &Context, store: &MySqlStore) -> CaseResult {
    store.migrate().await?;
    for id in ["a", "A", "á", "a ", "a\u{301}", "ß", "ss", "💶"] {
        let claim = store.claim(&cx.request(&cx.key(id))).await?.acquired();
        assert!(claim.is_some_and(|claim| claim.key().id() == id));
    }
    Ok(())
}

async fn unsuitable_settings_are_refused(cx: &Context) -> CaseResult {
    let mut refused = vec![
        ("SET SESSION autocommit = 0", "autocommit"),
        ("SET SESSION completion_type = 'CHAIN'", "completion_type"),
        ("SET SESSION sql_select_limit = 1", "sql_select_limit"),
    ];
    if cx.harness().name() == "mariadb" {
        refused.push((
            "SET SESSION sql_mode = 'EMPTY_STRING_IS_NULL'",
            "EMPTY_STRING_IS_NULL",
        ));
        refused.push(("SET SESSION sql_mode = 'ORACLE'", "ORACLE"));
    }
    for (setting, named) in refused {
        let store = set_up(cx, setting).await?;
        let request = cx.request(&cx.key(named));
        for error in [
            store.verify().await.unwrap_err(),
            store.migrate().await.unwrap_err(),
            store.claim(&request).await.unwrap_err(),
            store.get(request.key()).await.unwrap_err(),
            store.delete_expired(1).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Misconfigured);
            assert!(error.to_string().contains(named), "{error}");
        }
    }
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let large = Limits::DEFAULT.with_max_result_bytes(2 << 30);
    let config = store.config().clone().with_limits(large);
    let large = MySqlStore::with_config(store.pool().clone(), config);
    let error = large.verify().await.unwrap_err();
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    Ok(())
}
