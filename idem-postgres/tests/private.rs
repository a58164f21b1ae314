//! Tests that need a server of their own: it is killed, has no other writers, or speaks TLS.

#[path = "private/poolers.rs"]
mod poolers;
#[path = "private/standby.rs"]
mod standby;
#[cfg(feature = "tls")]
#[path = "private/tls.rs"]
mod tls;

use std::process::ExitCode;
use std::time::Duration;

use idem_core::{AttemptId, BoxError, ClaimRequest, Fingerprint, IdempotencyStore, Key, Response};
use idem_postgres::{Config, PostgresStore};
use idem_servers::{Options, start_private};
use idem_stores::no_completion_is_lost;
use libtest_mimic::{Arguments, Failed, Trial};
use sqlx::Row;
use tokio::runtime::Runtime;

const HOUR: Duration = Duration::from_secs(3600);

fn main() -> ExitCode {
    let missing = idem_servers::no_private("postgres");
    let trials = [
        trial(
            "no_acknowledged_completion_is_lost_when_the_server_is_killed",
            crash,
        ),
        trial("a_thousand_duplicates_leave_the_log_where_it_is", quiet),
        #[cfg(feature = "tls")]
        trial(
            "a_verified_tls_connection_is_made_and_an_unverified_one_refused",
            tls::verified,
        ),
        #[cfg(feature = "tls")]
        trial(
            "refusals_that_nobody_reads_cost_no_connection_over_tls",
            tls::unread_refusals,
        ),
        trial(
            "answers_that_rest_on_a_commit_wait_for_standbys_where_configured",
            standby::answers_wait,
        ),
        trial(
            "no_call_after_a_refused_write_meets_a_connection_to_the_old_primary",
            standby::demoted,
        ),
        trial(
            "no_decision_rests_on_a_standby_that_a_proxy_reads_from",
            standby::split,
        ),
        trial(
            "a_connection_that_a_proxy_does_not_serve_holds_nobody_up",
            poolers::queued,
        ),
    ];
    let no_pooler = idem_servers::no_private("pgbouncer");
    let poolers = [
        trial(
            "a_commit_whose_answer_a_pooler_has_lost_is_not_reported_as_undone",
            poolers::lost_commit,
        ),
        trial("a_full_pooler_is_waited_for", poolers::full),
        trial(
            "connect_refuses_a_pooler_that_mixes_prepared_statements_up",
            poolers::refused,
        ),
        trial(
            "statements_that_a_pooler_mixes_up_do_no_harm",
            poolers::mixed_up,
        ),
    ];
    let poolers = poolers.map(|trial| trial.with_ignored_flag(missing || no_pooler));
    let trials = trials.map(|trial| trial.with_ignored_flag(missing));
    let trials = trials.into_iter().chain(poolers).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, test: fn(&Runtime) -> Result<(), BoxError>) -> Trial {
    Trial::test(name, move || {
        let runtime = Runtime::new().map_err(|error| Failed::from(error.to_string()))?;
        test(&runtime).map_err(|error| Failed::from(format!("{error}: {:?}", error.source())))
    })
}

fn request(id: impl AsRef<str>) -> ClaimRequest {
    let key = Key::new("tenant", "payments.create", id).expect("a valid id");
    ClaimRequest::new(key, Fingerprint::raw("request")).with_lease(HOUR)
}

async fn store(url: &str) -> Result<PostgresStore, BoxError> {
    let store = PostgresStore::connect(url, Config::new()).await?;
    store.migrate().await?;
    Ok(store)
}

fn crash(runtime: &Runtime) -> Result<(), BoxError> {
    no_completion_is_lost(runtime, "postgres", async |url| store(&url).await)
}

/// No other client writes to this server, so the log stands still. The server's own housekeeping
/// may move it, so a few tries are allowed. A thousand writes would move it in each.
fn quiet(runtime: &Runtime) -> Result<(), BoxError> {
    let server = start_private("postgres", &Options::new())?;
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

async fn log_position(store: &PostgresStore) -> Result<String, BoxError> {
    let row = sqlx::query("SELECT CAST(pg_current_wal_insert_lsn() AS text)");
    Ok(row.fetch_one(store.pool()).await?.try_get(0)?)
}
