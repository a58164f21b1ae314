//! The two hunts: a duplicate gets a stored result that no other server has yet, and then the
//! server that has it is lost.
//!
//! The servers are private ones, so an ordinary run ignores these tests.

use std::path::{Path, PathBuf};

use idem_core::BoxError;
use idem_postgres::{Config, Replays};
use idem_prove::cluster::{Caller, Told, postgres, redis, without_losses};
use idem_prove::history::Calls;
use idem_prove::judge::{Judgement, judge};
use idem_prove::search::Bounds;

/// Runs it to its end on a runtime of its own.
fn wait_for<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(work)
}

fn judgement(calls: &Calls) -> Judgement {
    judge(&calls.history().unwrap(), Bounds::default())
}

/// Runs the scenario; returns what the duplicate was told, and the history.
fn run(scenario: impl AsyncFnOnce(&Path) -> Result<Told, BoxError>) -> (Told, Calls) {
    let folder = tempfile::tempdir().unwrap();
    let told = wait_for(scenario(folder.path())).unwrap();
    let calls = Calls::read(folder.path()).unwrap();
    println!("{told:?}\n{}", calls.to_ndjson().unwrap());
    if let Some(folder) = std::env::var_os("IDEM_PROVE_HISTORIES") {
        let name = format!("{:?}-{told:?}.ndjson", std::thread::current().name());
        let path = PathBuf::from(folder).join(name.replace(['"', ':'], "_"));
        std::fs::write(path, calls.to_ndjson().unwrap()).unwrap();
    }
    (told, calls)
}

/// Checks that a replay was told and is gone: only a loss explains it.
#[track_caller]
fn lost((told, calls): (Told, Calls)) {
    assert_eq!(told, Told::Stored);
    let with = judgement(&calls);
    assert!(with.is_accepted() && with.losses == 1, "{with}");
    let without = judgement(&without_losses(&calls));
    assert_eq!(without.refused.len(), 1, "{without}");
}

/// Checks that the duplicate was told nothing, and that nothing told is gone.
#[track_caller]
fn kept((told, calls): (Told, Calls)) {
    assert_eq!(told, Told::Nothing);
    let without = judgement(&without_losses(&calls));
    assert!(without.is_accepted(), "{without}");
}

/// Runs the scenario for each caller.
fn each(
    scenario: &impl AsyncFn(&Path, Caller) -> Result<Told, BoxError>,
    check: impl Fn((Told, Calls)),
) {
    for caller in Caller::ALL {
        println!("{caller:?}");
        check(run(async |folder| scenario(folder, caller).await));
    }
}

fn replicated() -> Config {
    Config::new().with_replays(Replays::Replicated)
}

#[test]
#[ignore = "needs PostgreSQL, Redis or Valkey"]
fn postgres_tells_after_a_crash_what_no_standby_has() {
    each(
        &async |folder, caller| {
            postgres::crash_of_a_waiting_commit(folder, 1, &Config::new(), caller).await
        },
        lost,
    );
}

#[test]
#[ignore = "needs PostgreSQL, Redis or Valkey"]
fn postgres_tells_after_a_crash_only_what_standbys_have_where_that_is_configured() {
    each(
        &async |folder, caller| {
            postgres::crash_of_a_waiting_commit(folder, 1, &replicated(), caller).await
        },
        kept,
    );
}

/// The server acknowledges the completion itself. Its replays can wait, but it is lost.
#[test]
#[ignore = "needs PostgreSQL, Redis or Valkey"]
fn postgres_acknowledges_a_commit_whose_wait_was_cancelled() {
    let caller = Caller::Duplicate;
    let (told, calls) = run(async |folder| {
        postgres::cancel_of_a_waiting_commit(folder, 1, &replicated(), caller).await
    });
    assert_eq!(told, Told::Nothing);
    lost((Told::Stored, calls));
}

#[test]
#[ignore = "needs PostgreSQL, Redis or Valkey"]
fn redis_tells_only_what_replicas_have() {
    for product in ["redis", "valkey"] {
        each(
            &async |folder, caller| {
                redis::loss_of_a_waiting_completion(folder, 1, product, caller).await
            },
            kept,
        );
    }
}
