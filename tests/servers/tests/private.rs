//! A real PostgreSQL, started, crashed, started again and thrown away.

use std::process::Command;

use idem_servers::{Durability, Identity, Instance, Options, Transport, start_private};

/// None, and a line that says so, where there is no PostgreSQL and none can be installed here.
fn postgres(options: &Options) -> Option<Instance> {
    match start_private("postgres", options) {
        Ok(instance) => Some(instance),
        Err(error) if error.kind() == idem_servers::ErrorKind::Missing => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// psql, if it is on this machine.
fn psql(url: &str, sql: &str) -> Option<String> {
    let output = match Command::new("psql")
        .args(["-X", "-At", url, "-c", sql])
        .output()
    {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: no psql: {error}");
            return None;
        }
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[test]
fn committed_rows_survive_a_kill_and_a_restart() {
    let options = Options::new().with_durability(Durability::Durable);
    let Some(mut server) = postgres(&options) else {
        return;
    };
    let url = server.url().to_owned();
    if psql(
        &url,
        "CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)",
    )
    .is_none()
    {
        return;
    }
    assert_eq!(psql(&url, "SHOW fsync").as_deref(), Some("on"));
    server.kill().unwrap();
    assert!(
        idem_servers::server("postgres")
            .unwrap()
            .probe(&url)
            .is_err(),
        "it still answers"
    );
    server.restart().unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(psql(&url, "SELECT sum(n) FROM t").as_deref(), Some("3"));
}

#[test]
fn a_server_is_fast_large_and_says_its_version() {
    let Some(server) = postgres(&Options::new()) else {
        return;
    };
    assert_eq!(server.product().name, "PostgreSQL");
    let version = server.product().version.clone().unwrap();
    let Some(told) = psql(server.url(), "SHOW server_version") else {
        return;
    };
    assert!(told.starts_with(&version), "{told} is not {version}");
    assert_eq!(psql(server.url(), "SHOW fsync").as_deref(), Some("off"));
    assert_eq!(
        psql(server.url(), "SHOW max_connections").as_deref(),
        Some("300")
    );
    server.stop().unwrap();
}

#[test]
fn a_tls_client_that_checks_the_certificate_gets_in() {
    let Some(server) = postgres(&Options::new().with_transport(Transport::Tls)) else {
        return;
    };
    let authority = server.ca_certificate().unwrap();
    let url = format!(
        "{}?sslmode=verify-full&sslrootcert={}",
        server.url(),
        authority.display()
    );
    let Some(used) = psql(
        &url,
        "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    ) else {
        return;
    };
    assert_eq!(used, "t");
}

#[test]
fn a_dropped_server_leaves_neither_process_nor_folder() {
    let Some(server) = postgres(&Options::new()) else {
        return;
    };
    let url = server.url().to_owned();
    let Some(data) = psql(&url, "SHOW data_directory") else {
        return;
    };
    let pid = std::fs::read_to_string(format!("{data}/postmaster.pid")).unwrap();
    let process = Identity::of(pid.lines().next().unwrap().parse().unwrap());
    assert!(process.is_alive());
    drop(server);
    assert!(!process.is_alive());
    assert!(!std::path::Path::new(&data).exists());
}
