//! A real PostgreSQL, started, crashed, started again and thrown away. Shown as ignored, with the reason, where there
//! is none; `cargo xtask test` installs one on Debian as root.

use std::process::{Command, Stdio};

use idem_servers::{Durability, Identity, Options, Transport, start_private};
use libtest_mimic::{Arguments, Failed, Trial};

type Outcome = Result<(), Failed>;
type Run = fn() -> Outcome;

const TRIALS: &[(&str, Run)] = &[
    (
        "committed_rows_survive_a_kill_and_a_restart",
        committed_rows_survive,
    ),
    (
        "a_server_is_fast_large_and_says_its_version",
        fast_large_and_named,
    ),
    (
        "a_tls_client_that_checks_the_certificate_gets_in",
        tls_client_gets_in,
    ),
    (
        "a_dropped_server_leaves_neither_process_nor_folder",
        nothing_is_left,
    ),
    (PGBOUNCER, pgbouncer_answers),
];
const PGBOUNCER: &str = "pgbouncer_answers_for_the_server_behind_it";

fn main() {
    let arguments = Arguments::from_args();
    let trial = |(name, run): &(&str, Run)| {
        let missing = missing(name);
        let reason = missing.map(|reason| format!(" ({reason})"));
        let shown = format!("{name}{}", reason.unwrap_or_default());
        Trial::test(shown, *run).with_ignored_flag(missing.is_some())
    };
    libtest_mimic::run(&arguments, TRIALS.iter().map(trial).collect()).exit();
}

/// Why a trial cannot run here.
fn missing(trial: &str) -> Option<&'static str> {
    let server = idem_servers::server("postgres").ok()?;
    let named = std::env::var_os(server.programs_variable()).is_some();
    let client = Command::new("psql")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    if !named && server.programs().is_none() {
        Some("no PostgreSQL on this machine")
    } else if client.is_err() {
        Some("no psql on this machine")
    } else if trial == PGBOUNCER && pgbouncer().is_none() {
        Some("no PgBouncer on this machine")
    } else {
        None
    }
}

fn pgbouncer() -> Option<std::path::PathBuf> {
    idem_servers::server("pgbouncer").ok()?.programs()
}

fn psql(url: &str, sql: &str) -> Result<String, Failed> {
    let output = Command::new("psql")
        .args(["-X", "-At", url, "-c", sql])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn committed_rows_survive() -> Outcome {
    let options = Options::new().with_durability(Durability::Durable);
    let mut server = start_private("postgres", &options)?;
    let url = server.url().to_owned();
    psql(
        &url,
        "CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)",
    )?;
    assert_eq!(psql(&url, "SHOW fsync")?, "on");
    server.kill()?;
    let answer = idem_servers::server("postgres")?.probe(&url);
    assert!(answer.is_err(), "it still answers: {answer:?}");
    server.restart()?;
    assert_eq!(server.url(), url);
    assert_eq!(psql(&url, "SELECT sum(n) FROM t")?, "3");
    Ok(())
}

fn fast_large_and_named() -> Outcome {
    let server = start_private("postgres", &Options::new())?;
    assert_eq!(server.product().name, "PostgreSQL");
    let version = server.product().version.clone().ok_or("no version")?;
    let told = psql(server.url(), "SHOW server_version")?;
    assert!(told.starts_with(&version), "{told} is not {version}");
    assert_eq!(psql(server.url(), "SHOW fsync")?, "off");
    assert_eq!(psql(server.url(), "SHOW max_connections")?, "300");
    Ok(server.stop()?)
}

fn tls_client_gets_in() -> Outcome {
    let server = start_private("postgres", &Options::new().with_transport(Transport::Tls))?;
    let authority = server.ca_certificate().ok_or("no certificate")?;
    let (url, authority) = (server.url(), authority.display());
    let url = format!("{url}?sslmode=verify-full&sslrootcert={authority}");
    let used = psql(
        &url,
        "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    )?;
    assert_eq!(used, "t");
    Ok(())
}

fn nothing_is_left() -> Outcome {
    let server = start_private("postgres", &Options::new())?;
    let data = psql(server.url(), "SHOW data_directory")?;
    let pid = std::fs::read_to_string(format!("{data}/postmaster.pid"))?;
    let process = Identity::of(pid.lines().next().unwrap_or_default().parse()?);
    assert!(process.is_alive());
    drop(server);
    assert!(!process.is_alive());
    assert!(!std::path::Path::new(&data).exists());
    Ok(())
}

fn pgbouncer_answers() -> Outcome {
    let server = start_private("postgres", &Options::new())?;
    let options = Options::new().with_upstream(server.url());
    let pgbouncer = start_private("pgbouncer", &options)?;
    assert_eq!(pgbouncer.product().name, "PgBouncer");
    assert!(
        pgbouncer.product().version.is_some(),
        "{}",
        pgbouncer.product()
    );
    let behind = psql(pgbouncer.url(), "SHOW data_directory")?;
    assert_eq!(behind, psql(server.url(), "SHOW data_directory")?);
    Ok(())
}
