//! Real servers, started, killed, restarted and removed. Trials whose server or client program is
//! not on this machine are shown as ignored, with the reason; `cargo xtask test` installs them on
//! Debian.

mod common;
mod dynamodb;
mod galera;
mod mongo;
mod mysql;
mod nats;
mod patroni;
mod pgbouncer;
mod postgres;
mod redis;
mod redis_cluster;

use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};

type Outcome<T = ()> = Result<T, Failed>;
type Run = fn() -> Outcome;

/// Lists functions as trials, each by its name.
macro_rules! cases {
    ($($run:ident),* $(,)?) => {
        &[$((stringify!($run), $run)),*]
    };
}
pub(crate) use cases;

fn main() {
    let mut all = Vec::new();
    for database in [
        &postgres::POSTGRES,
        &mysql::MARIADB,
        &mysql::MYSQL,
        &redis::REDIS,
        &redis::VALKEY,
    ] {
        all.extend(common::trials(database));
    }
    all.extend(trials("pgbouncer", "psql", pgbouncer::TRIALS));
    all.extend(trials("patroni", "psql", patroni::TRIALS));
    all.extend(trials("galera", "mariadb", galera::TRIALS));
    all.extend(trials("redis", "redis-cli", redis::TRIALS));
    all.extend(trials("redis-cluster", "redis-cli", redis_cluster::TRIALS));
    // There is no client, so this names a program that every machine has.
    all.extend(trials("mongo", "bash", mongo::TRIALS));
    all.extend(trials("dynamodb", "true", dynamodb::TRIALS));
    all.extend(trials("nats", "true", nats::TRIALS));
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

/// Returns the trials, ignored if the server or the client program is not on this machine.
fn trials<R>(server: &str, client: &str, cases: &[(&str, R)]) -> Vec<Trial>
where
    R: Fn() -> Outcome + Copy + Send + 'static,
{
    let missing = missing(server, client);
    let reason = missing
        .as_ref()
        .map(|what| format!(" (no {what} on this machine)"));
    let reason = reason.unwrap_or_default();
    let trial = |(name, run): &(&str, R)| {
        let name = format!("{server}::{name}{reason}");
        Trial::test(name, *run).with_ignored_flag(missing.is_some())
    };
    cases.iter().map(trial).collect()
}

fn missing(name: &str, client: &str) -> Option<String> {
    let server = idem_servers::server(name).ok()?;
    if server.programs().is_none() {
        return Some(server.product().into());
    }
    // It does not run the programs: each of them would start once for each trial.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_client = std::env::split_paths(&path).any(|folder| folder.join(client).is_file());
    (!has_client).then(|| format!("client `{client}`"))
}

/// Runs a client and returns its output.
fn output(client: &mut Command) -> Outcome<String> {
    let output = client.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Waits for the condition; an error when it does not come true.
fn eventually(what: &str, mut done: impl FnMut() -> bool) -> Outcome {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        if Instant::now() > deadline {
            return Err(format!("not within a minute: {what}").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
