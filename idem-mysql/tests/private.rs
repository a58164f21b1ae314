//! Tests that need a server of their own: it is killed, has no other writers, or speaks TLS.

#[cfg(feature = "tls")]
#[path = "private/tls.rs"]
mod tls;

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use idem_core::{
    Advance, AttemptId, BatchStore, BoxError, ClaimRequest, Effect, ErrorKind, Fingerprint,
    IdempotencyStore, Key, Response, WatermarkStore,
};
use idem_mysql::{Config, MySqlStore, Transactions};
use idem_servers::{Options, start_private};
use idem_stores::{Rule, ServerUrl, no_completion_is_lost, no_decision_rests_on_a_replica};
use libtest_mimic::{Arguments, Failed, Trial};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use tokio::runtime::Runtime;

const HOUR: Duration = Duration::from_secs(3600);

type Test = fn(&Runtime, &str) -> Result<(), BoxError>;

fn main() -> ExitCode {
    let mut trials = Vec::new();
    for server in ["mariadb", "mysql"] {
        let missing = idem_servers::no_private(server);
        let tests: &[(&str, Test)] = &[
            ("hostile_defaults_of_the_server_change_nothing", hostile),
            (
                "no_call_after_a_refused_write_meets_a_connection_to_the_old_primary",
                demoted,
            ),
            (
                "no_decision_rests_on_a_replica_that_a_proxy_reads_from",
                split,
            ),
            (
                "no_acknowledged_completion_is_lost_when_the_server_is_killed",
                crash,
            ),
            ("a_thousand_duplicates_leave_the_log_where_it_is", quiet),
            #[cfg(feature = "tls")]
            (
                "a_verified_tls_connection_is_made_and_an_unverified_one_refused",
                tls::verified,
            ),
        ];
        for (name, test) in tests {
            trials.push(trial(server, name, *test).with_ignored_flag(missing));
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(server: &'static str, name: &str, test: Test) -> Trial {
    Trial::test(format!("{server}::{name}"), move || {
        let runtime = Runtime::new().map_err(|error| Failed::from(error.to_string()))?;
        test(&runtime, server)
            .map_err(|error| Failed::from(format!("{error}: {:?}", error.source())))
    })
}

fn request(id: impl AsRef<str>) -> ClaimRequest {
    let key = Key::new("tenant", "payments.create", id).expect("a valid id");
    ClaimRequest::new(key, Fingerprint::raw("request")).with_lease(HOUR)
}

async fn store(url: &str) -> Result<MySqlStore, BoxError> {
    let store = MySqlStore::connect(url, Config::new()).await?;
    store.migrate().await?;
    Ok(store)
}

fn crash(runtime: &Runtime, server: &str) -> Result<(), BoxError> {
    no_completion_is_lost(runtime, server, async |url| store(&url).await)
}

/// No other client writes to this server, so the log stands still. The server's own housekeeping
/// may move it, so a few tries are allowed. A thousand writes would move it in each.
fn quiet(runtime: &Runtime, server: &str) -> Result<(), BoxError> {
    let server = start_private(server, &Options::new())?;
    runtime.block_on(async {
        let store = store(server.url()).await?;
        let completed = request("completed");
        let claim = store
            .claim(&completed)
            .await?
            .acquired()
            .ok_or("a fresh key")?;
        store
            .complete(&claim, &Response::new(200, "done"), HOUR)
            .await?;
        // The store expects fresh keys now.
        for number in 0..64 {
            let _fresh = store.claim(&request(format!("fresh-{number}"))).await?;
        }
        let held = request("held");
        let _held = store.claim(&held).await?;
        let duplicates =
            [&completed, &held].map(|request| request.clone().with_attempt(AttemptId::random()));
        let mut moved = Vec::new();
        for _ in 0..5 {
            let before = log_position(&store).await?;
            for number in 0..1000 {
                let outcome = store.claim(&duplicates[number % 2]).await?;
                assert!(outcome.acquired().is_none());
            }
            let after = log_position(&store).await?;
            if before == after {
                return Ok(());
            }
            moved.push(format!("{before} to {after}"));
        }
        Err(format!("the log moved: {}", moved.join(", ")).into())
    })
}

/// Returns the end of the redo log in bytes, as the server counts it.
async fn log_position(store: &MySqlStore) -> Result<u64, BoxError> {
    let status = sqlx::raw_sql("SHOW ENGINE INNODB STATUS");
    let row = status.fetch_one(store.pool()).await?;
    let report: Vec<u8> = row.try_get_unchecked(2)?;
    let report = String::from_utf8_lossy(&report);
    let mut lines = report.lines();
    let position = lines.find_map(|line| line.strip_prefix("Log sequence number"));
    Ok(position
        .ok_or("the server returns no position")?
        .trim()
        .parse()?)
}

/// Settings that a server can have for all sessions, and for the beginning of sessions of users
/// without SUPER.
const HOSTILE: &[&str] = &[
    "SET GLOBAL autocommit = 0",
    "SET GLOBAL completion_type = 'CHAIN'",
    "SET GLOBAL sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,PAD_CHAR_TO_FULL_LENGTH'",
    "SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
    "SET GLOBAL sql_select_limit = 1",
    "SET GLOBAL sql_safe_updates = 1",
    "SET GLOBAL unique_checks = 0",
    "SET GLOBAL wait_timeout = 20",
    "SET GLOBAL lock_wait_timeout = 1",
    "SET GLOBAL optimizer_switch = 'derived_merge=off,materialization=off'",
    "SET GLOBAL time_zone = '-11:30'",
    "SET GLOBAL init_connect = 'SET autocommit = 0, sql_select_limit = 1, sql_auto_is_null = 1'",
];

/// Creates a user without privileges of an administrator.
async fn app_user(url: &str, root: &mut MySqlConnection) -> Result<MySqlConnectOptions, BoxError> {
    for sql in [
        "CREATE USER app@'%' IDENTIFIED BY 'secret'",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON idem_records TO app@'%'",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON idem_records_watermarks TO app@'%'",
    ] {
        sqlx::raw_sql(sql).execute(&mut *root).await?;
    }
    let options = MySqlConnectOptions::from_str(url)?;
    Ok(options.username("app").password("secret"))
}

/// A failover leaves the old primary as a replica, which still serves the connections that it has.
fn demoted(runtime: &Runtime, name: &str) -> Result<(), BoxError> {
    let server = start_private(name, &Options::new())?;
    runtime.block_on(async {
        let prepared = store(server.url()).await?;
        let mut root = prepared.pool().acquire().await?;
        let options = app_user(server.url(), &mut root).await?;
        let url = options.to_url_lossy();
        let config = Config::new().with_batching(false);
        // The store cannot close what is idle in a caller's pool.
        let pool = MySqlPoolOptions::new().max_connections(1);
        let pool = pool.connect_lazy_with(options);
        for (name, store, least) in [
            (
                "own",
                MySqlStore::connect(url.as_str(), config.clone()).await?,
                2,
            ),
            ("pool", MySqlStore::with_config(pool, config), 1),
        ] {
            let claim = async |id: &str| store.claim(&request(format!("{name} {id}"))).await;
            let deadline = Instant::now() + Duration::from_secs(60);
            // The second of two callers at once opens a connection, which may come late.
            let before = loop {
                let (one, two) = tokio::join!(claim("one"), claim("two"));
                let _claims = (one?, two?);
                let before = sessions(&mut root, "").await?;
                if before.split(',').count() >= least {
                    break before;
                }
                assert!(Instant::now() < deadline, "{name}: {before}");
            };
            // It has been set up by then.
            for _ in 0..32 {
                let _claim = claim("one").await?;
            }
            let reads_only = "SET GLOBAL read_only = 1";
            sqlx::raw_sql(reads_only).execute(&mut *root).await?;
            let refused = claim("three").await.expect_err("read only");
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
            assert_eq!(refused.effect(), Effect::None, "{refused}");
            // This user may write, as where a proxy sends only the reads to a replica.
            let verified = prepared.verify().await.expect_err("read only");
            assert!(verified.to_string().contains("splits reads"), "{verified}");
            let writes = "SET GLOBAL read_only = 0";
            sqlx::raw_sql(writes).execute(&mut *root).await?;
            let _claim = claim("three").await?.acquired().ok_or("fresh")?;
            let old = format!("AND id IN ({before})");
            while !sessions(&mut root, &old).await?.is_empty() {
                assert!(Instant::now() < deadline, "{name}: some of {before} stay");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            store.close().await;
        }
        Ok(())
    })
}

/// A proxy sends reads to a replica that has nothing of what the primary has, except that the loser
/// of a key seems to hold it.
fn split(runtime: &Runtime, name: &str) -> Result<(), BoxError> {
    let servers = [
        start_private(name, &Options::new())?,
        start_private(name, &Options::new())?,
    ];
    let urls = [servers[0].url(), servers[1].url()].map(ServerUrl::from);
    runtime.block_on(async {
        let loser = request("lost").with_attempt(AttemptId::random());
        let [primary, replica] = [
            store(urls[0].as_str()).await?,
            store(urls[1].as_str()).await?,
        ];
        let _held = replica.claim(&loser).await?;
        let mut claims = Vec::new();
        for request in [loser, request("done")] {
            let won = request.clone().with_attempt(AttemptId::random());
            let claim = primary.claim(&won).await?.acquired().ok_or("fresh")?;
            let done = Response::new(200, "done");
            primary.complete(&claim, &done, HOUR).await?;
            claims.push((request, claim));
        }
        for store in [&primary, &replica] {
            for sql in ["CREATE USER app@'%'", "GRANT ALL ON idem.* TO app@'%'"] {
                sqlx::raw_sql(sql).execute(store.pool()).await?;
            }
        }
        let reads_only = "SET GLOBAL read_only = 1";
        sqlx::raw_sql(reads_only).execute(replica.pool()).await?;
        let urls = urls.map(|url| url.each(|url| url.replace("idem:idem@", "app@")));
        let rules: [Rule; 2] = [
            (|text| text.starts_with("SELECT"), true, true),
            (
                |text| text.trim_start_matches('(').starts_with("SELECT"),
                false,
                false,
            ),
        ];
        let open = async |url: &str, batching| {
            let config = Config::new().with_batching(batching).with_timeout(HOUR);
            Ok::<_, BoxError>(MySqlStore::connect(url, config).await?)
        };
        no_decision_rests_on_a_replica(&urls, &rules, &claims, "read only", open).await
    })
}

/// Returns the ids of the sessions of [`app_user`], with commas between them.
async fn sessions(root: &mut MySqlConnection, filter: &str) -> Result<String, BoxError> {
    let sql = format!(
        "SELECT CAST(COALESCE(GROUP_CONCAT(id), '') AS CHAR) FROM information_schema.processlist \
         WHERE user = 'app' {filter}"
    );
    loop {
        let row = sqlx::raw_sql(AssertSqlSafe(sql.clone())).fetch_one(&mut *root);
        match row.await {
            // MySQL also reads the text of a statement that runs, whose values may be no text.
            Err(error) if error.to_string().contains("3854") => tokio::task::yield_now().await,
            row => return Ok(row?.try_get(0)?),
        }
    }
}

/// A store of `connect` sets its sessions; a pool of the caller's is refused.
fn hostile(runtime: &Runtime, name: &str) -> Result<(), BoxError> {
    let server = start_private(name, &Options::new())?;
    runtime.block_on(async {
        let prepared = store(server.url()).await?;
        let mut root = prepared.pool().acquire().await?;
        let modes = match name {
            "mariadb" => &["SET GLOBAL sql_mode = 'ORACLE,EMPTY_STRING_IS_NULL'"][..],
            _ => &[],
        };
        let options = app_user(server.url(), &mut root).await?;
        let url = options.to_url_lossy();
        // By itself first: the others would hide that nothing is committed.
        let without_commit = &["SET GLOBAL init_connect = 'SET autocommit = 0'"][..];
        for settings in [without_commit, &[HOSTILE, modes].concat()] {
            for sql in settings {
                sqlx::raw_sql(*sql).execute(&mut *root).await?;
            }
            let store = MySqlStore::connect(url.as_str(), Config::new()).await?;
            let claim = store.claim(&request("kept")).await?;
            let claim = claim.acquired().ok_or("fresh")?;
            store
                .complete(&claim, &Response::new(200, ""), HOUR)
                .await?;
            // Acknowledged results are visible to a session that was set up before all this.
            let count = "SELECT COUNT(*) FROM idem_records WHERE state = 1";
            let count = sqlx::raw_sql(count).fetch_one(&mut *root).await?;
            assert_eq!(count.try_get::<i64, _>(0)?, 1, "completed and committed");
            core(&store).await?;
            store.verify().await?;
            for table in ["idem_records", "idem_records_watermarks"] {
                let delete = format!("DELETE FROM {table}");
                sqlx::query(AssertSqlSafe(delete))
                    .execute(&mut *root)
                    .await?;
            }
        }
        // By default, sqlx sets the SQL mode and the time zone itself.
        let pool = MySqlPoolOptions::new().connect_with(options).await?;
        let error = MySqlStore::new(pool).claim(&request("refused")).await;
        let error = error.expect_err("nothing would be committed");
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        assert!(error.to_string().contains("autocommit"), "{error}");
        Ok(())
    })
}

/// Runs a step of each law that writes, with answers that are read again.
async fn core(store: &MySqlStore) -> Result<(), BoxError> {
    let response = Response::new(200, "it's \\ done");
    let (first, second) = (request("first"), request("second"));
    let claim = store.claim(&first).await?.acquired().ok_or("fresh")?;
    let rival = first.clone().with_attempt(AttemptId::random());
    assert_eq!(store.claim(&rival).await?.name(), "in_flight");
    let claim = store.renew(&claim, 2 * HOUR).await?;
    store.complete(&claim, &response, HOUR).await?;
    store.complete(&claim, &response, HOUR).await?;
    assert_eq!(store.claim(&rival).await?.name(), "completed");
    let mut attempts = Transactions::new(store).attempts();
    let mut transaction = attempts.begin().await?;
    let claim = store.claim_in(&mut transaction, &second).await?.acquired();
    let claim = claim.ok_or("fresh")?;
    store
        .complete_in(&mut transaction, &claim, &response, HOUR)
        .await?;
    transaction.commit().await?;
    // More rows at once than a session may show.
    let many: Vec<_> = (0..20).map(|id| request(format!("many {id}"))).collect();
    let mut claims = Vec::new();
    for outcome in store.claim_many(&many).await {
        claims.push(outcome?.acquired().ok_or("fresh")?);
    }
    for outcome in store.claim_many(&many).await {
        assert!(outcome?.acquired().is_some(), "the same attempts");
    }
    for claim in &claims {
        store.release(claim).await?;
    }
    assert_eq!(store.delete_expired(100).await?, 20);
    let source = Key::new("tenant", "events", "source")?;
    assert_eq!(store.advance(&source, 1, HOUR).await?, Advance::Advanced);
    assert_eq!(store.watermark(&source).await?, Some(1));
    Ok(())
}
