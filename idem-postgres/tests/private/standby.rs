//! Commits that wait for a synchronous standby, and answers that rest on them.

use std::time::{Duration, Instant};

use idem_core::{
    Advance, AttemptId, BatchStore, BoxError, ClaimRequest, ErrorKind, Fingerprint,
    IdempotencyStore, Response, WatermarkStore,
};
use idem_postgres::{Config, PostgresStore, Replays};
use idem_servers::{Options, start_private};
use idem_stores::{Rule, ServerUrl, no_decision_rests_on_a_replica};
use sqlx::{Connection, PgConnection};
use tokio::runtime::Runtime;

use crate::{HOUR, request, store};

const WAITING: &str = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";

const STANDBYS: &str = "synchronous_standby_names";

/// The standby does not exist, so nothing that waits for it is answered. The default store answers
/// from what the server has committed.
pub(crate) fn answers_wait(runtime: &Runtime) -> Result<(), BoxError> {
    let options = Options::new().with_setting("synchronous_commit", "remote_apply");
    let server = start_private("postgres", &options)?;
    runtime.block_on(async {
        let replicated = Config::new().with_replays(Replays::Replicated);
        let plain = PostgresStore::connect(server.url(), Config::new()).await?;
        plain.migrate().await?;
        let (done, held) = (request("done"), request("held"));
        let (result, other) = (Response::new(200, "done"), Response::new(200, "other"));
        let claim = plain.claim(&done).await?.acquired().ok_or("fresh")?;
        plain.complete(&claim, &result, HOUR).await?;
        let _held = plain.claim(&held).await?.acquired().ok_or("fresh")?;
        plain.advance(done.key(), 7, HOUR).await?;
        let again = done.clone().with_attempt(AttemptId::random());
        let stranger = ClaimRequest::new(done.key().clone(), Fingerprint::raw("another"));
        for batching in [true, false] {
            let config = replicated.clone().with_batching(batching);
            let hurried = config.clone().with_timeout(Duration::from_millis(500));
            let hurried = PostgresStore::connect(server.url(), hurried).await?;
            let patient = PostgresStore::connect(server.url(), config).await?;
            let check = async |waits: bool| -> Result<(), BoxError> {
                let store = if waits { &hurried } else { &patient };
                let waited = |what: &str, answer: idem_core::Result<bool>| match answer {
                    Ok(is_right) => assert!(!waits && is_right, "{what} was answered: {is_right}"),
                    Err(error) => {
                        assert!(waits, "{what}: {error}");
                        assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {error}");
                    }
                };
                let claimed = store.claim(&again).await;
                waited(
                    "a replay",
                    claimed.map(|outcome| outcome.name() == "completed"),
                );
                let claimed = store.claim(&stranger).await;
                waited(
                    "a conflict",
                    claimed.map(|outcome| outcome.name() == "conflict"),
                );
                for claimed in store.claim_many(std::slice::from_ref(&again)).await {
                    waited(
                        "a batch",
                        claimed.map(|outcome| outcome.name() == "completed"),
                    );
                }
                let record = store.get(done.key()).await;
                waited("a read", record.map(|record| record.is_some()));
                let completed = store.complete(&claim, &result, HOUR).await;
                waited("a repeated completion", completed.map(|()| true));
                let sealed = store.complete(&claim, &other, HOUR).await;
                let sealed = sealed.map(|()| false).or_else(|error| match error.kind() {
                    ErrorKind::AlreadySealed => Ok(true),
                    _ => Err(error),
                });
                waited("another completion", sealed);
                let stale = store.advance(done.key(), 6, HOUR).await;
                waited("a stale version", stale.map(|advance| advance.is_stale()));
                let repeated = store.advance(done.key(), 7, HOUR).await;
                waited(
                    "a version",
                    repeated.map(|advance| advance == Advance::Unchanged),
                );
                // Nobody acts on that for good.
                let in_flight = request("held").with_attempt(AttemptId::random());
                assert_eq!(patient.claim(&in_flight).await?.name(), "in_flight");
                Ok(())
            };
            check(false).await?;
            let mut admin = PgConnection::connect(server.url()).await?;
            let waiting = tokio::spawn(first_wait(server.url().to_owned()));
            set(&mut admin, STANDBYS, "nobody").await?;
            waiting.await??;
            check(true).await?;
            assert_eq!(plain.claim(&again).await?.name(), "completed", "at once");
            set(&mut admin, STANDBYS, "").await?;
            check(false).await?;
            assert_eq!(answer_again(&hurried, &again).await?, "completed");
        }
        Ok(())
    })
}

/// A switchover may leave the connections to the old primary open, which then refuses writes: here a
/// setting does so. After it comes a server that has become a standby.
pub(crate) fn demoted(runtime: &Runtime) -> Result<(), BoxError> {
    let mut server = start_private("postgres", &Options::new())?;
    let url = server.url().to_owned();
    runtime.block_on(async {
        store(&url).await?.pool().close().await;
        let config = Config::new().with_batching(false);
        let store = PostgresStore::connect(&url, config).await?;
        let claim = async |id: &str| store.claim(&request(id)).await;
        let mut admin = PgConnection::connect(&url).await?;
        let deadline = Instant::now() + Duration::from_secs(60);
        // The second of two callers at once opens a connection, which may come late.
        let before = loop {
            let (one, two) = tokio::join!(claim("one"), claim("two"));
            let _claims = (one?, two?);
            let before = sessions(&mut admin).await?;
            if before.len() >= 2 {
                break before;
            }
            assert!(Instant::now() < deadline, "{before:?}");
        };
        // It has been set up by then.
        for _ in 0..32 {
            let _claim = claim("one").await?;
        }
        set(&mut admin, "default_transaction_read_only", "on").await?;
        let mut number = 0;
        let refused = loop {
            number += 1;
            match claim(&format!("fresh {number}")).await {
                Ok(_) => assert!(Instant::now() < deadline, "no claim is refused"),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        let is_old = |pid: &i32| before.contains(pid);
        while sessions(&mut admin).await?.iter().any(is_old) {
            assert!(Instant::now() < deadline, "some of {before:?} stay");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let signal = "DO $$BEGIN EXECUTE format('COPY (SELECT 1) TO %L', \
             current_setting('data_directory') || '/standby.signal'); END$$";
        sqlx::raw_sql(signal).execute(&mut admin).await?;
        Ok::<_, BoxError>(())
    })?;
    server.restart()?;
    runtime.block_on(async {
        let store = PostgresStore::connect(&url, Config::new()).await?;
        let error = store.verify().await.expect_err("a standby");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("standby"), "{error}");
        Ok(())
    })
}

const PAUSED: &str = "SELECT pg_get_wal_replay_pause_state() = 'paused'";

/// A proxy sends reads to a standby that has stopped before everything that is claimed.
pub(crate) fn split(runtime: &Runtime) -> Result<(), BoxError> {
    let server = start_private("postgres", &Options::new())?;
    let primary = runtime.block_on(store(server.url()))?;
    let behind = Options::new().with_upstream(server.url());
    let behind = start_private("postgres-standby", &behind)?;
    runtime.block_on(async {
        let old = primary.claim(&request("old")).await?;
        let old = old.acquired().ok_or("fresh")?;
        let count = "SELECT count(*) FROM idem_records";
        let mut standby = PgConnection::connect(behind.url()).await?;
        while sqlx::query_scalar::<_, i64>(count)
            .fetch_one(&mut standby)
            .await?
            == 0
        {}
        let pause = "SELECT pg_wal_replay_pause()";
        sqlx::raw_sql(pause).execute(&mut standby).await?;
        while !sqlx::query_scalar::<_, bool>(PAUSED)
            .fetch_one(&mut standby)
            .await?
        {}

        let new = primary.claim(&request("new")).await?;
        let mut claims = Vec::new();
        for claim in [old, new.acquired().ok_or("fresh")?] {
            let done = Response::new(200, "done");
            primary.complete(&claim, &done, HOUR).await?;
            claims.push((request(claim.key().id()), claim));
        }
        let urls = [server.url(), behind.url()].map(ServerUrl::from);
        let rules: [Rule; 3] = [
            (obeys, true, true),
            (knows, true, false),
            (sees, false, false),
        ];
        let open = async |url: &str, batching| {
            let config = Config::new().with_batching(batching).with_timeout(HOUR);
            Ok::<_, BoxError>(PostgresStore::connect(url, config).await?)
        };
        no_decision_rests_on_a_replica(&urls, &rules, &claims, "standby", open).await
    })
}

/// As pgcat does.
fn sees(text: &str) -> bool {
    ["SELECT", "WITH"].iter().any(|word| text.starts_with(word))
}

/// A SELECT with a write in a common table expression is a write.
fn knows(text: &str) -> bool {
    let writes = ["INSERT INTO", "UPDATE ", "DELETE FROM"];
    sees(text) && !writes.iter().any(|write| text.contains(write))
}

/// As PgDog does.
fn obeys(text: &str) -> bool {
    knows(text) && !text.contains("/* pgdog_role: primary */")
}

/// Returns the processes of the stores' connections.
async fn sessions(admin: &mut PgConnection) -> Result<Vec<i32>, BoxError> {
    let pids = "SELECT pid FROM pg_stat_activity WHERE application_name = 'idem'";
    Ok(sqlx::query_scalar(pids).fetch_all(admin).await?)
}

/// Returns the answer to a claim from a store whose calls have waited in vain.
async fn answer_again(
    store: &PostgresStore,
    request: &ClaimRequest,
) -> Result<&'static str, BoxError> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match store.claim(request).await {
            Ok(outcome) => return Ok(outcome.name()),
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Err(_) => {}
        }
    }
}

async fn set(admin: &mut PgConnection, setting: &str, value: &str) -> Result<(), BoxError> {
    let set = format!("ALTER SYSTEM SET {setting} = '{value}'");
    sqlx::raw_sql(sqlx::AssertSqlSafe(set))
        .execute(&mut *admin)
        .await?;
    sqlx::raw_sql("SELECT pg_reload_conf()")
        .execute(admin)
        .await?;
    Ok(())
}

/// Commits again and again, until a commit waits.
async fn first_wait(url: String) -> Result<(), BoxError> {
    let mut watch = PgConnection::connect(&url).await?;
    let mut writer = PgConnection::connect(&url).await?;
    let committing = tokio::spawn(async move {
        loop {
            sqlx::query("SELECT pg_logical_emit_message(true, 'test', 'x')")
                .execute(&mut writer)
                .await?;
        }
        #[expect(unreachable_code)]
        Ok::<_, sqlx::Error>(())
    });
    loop {
        let count: i64 = sqlx::query_scalar(WAITING).fetch_one(&mut watch).await?;
        if count > 0 {
            committing.abort();
            return Ok(());
        }
        if committing.is_finished() {
            return Err("a commit failed".into());
        }
    }
}
