//! A real MariaDB and a real MySQL, started, crashed, started again and thrown away. Shown as ignored, with the
//! reason, where there is none; `cargo xtask test` gets them on Debian.

mod mariadb_client;
mod support;

use idem_servers::{Durability, Instance, Options, Transport, start_private};
use mariadb_client::{query, query_with};
use support::{Outcome, Run, trials};

const MARIADB: &[(&str, Run)] = &[
    ("mariadb_keeps_rows_over_a_kill_and_a_restart", || {
        keeps_rows("mariadb")
    }),
    ("mariadb_is_fast_large_and_says_its_version", || {
        is_fast_and_large("mariadb")
    }),
    (
        "mariadb_lets_a_client_in_that_checks_its_certificate",
        || speaks_tls("mariadb"),
    ),
    ("mariadb_leaves_no_folder_when_dropped", || {
        leaves_nothing("mariadb")
    }),
];
const MYSQL: &[(&str, Run)] = &[
    ("mysql_keeps_rows_over_a_kill_and_a_restart", || {
        keeps_rows("mysql")
    }),
    ("mysql_is_fast_large_and_says_its_version", || {
        is_fast_and_large("mysql")
    }),
    ("mysql_lets_a_client_in_that_checks_its_certificate", || {
        speaks_tls("mysql")
    }),
    ("mysql_leaves_no_folder_when_dropped", || {
        leaves_nothing("mysql")
    }),
];

fn main() {
    let mut all = trials("mariadb", "mariadb", MARIADB);
    all.extend(trials("mysql", "mariadb", MYSQL));
    support::main(all);
}

fn setting(server: &Instance, name: &str) -> Result<String, libtest_mimic::Failed> {
    query(server.url(), &format!("SELECT @@{name}"))
}

fn keeps_rows(name: &str) -> Outcome {
    let options = Options::new().with_durability(Durability::Durable);
    let mut server = start_private(name, &options)?;
    let url = server.url().to_owned();
    query(
        &url,
        "CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)",
    )?;
    assert_eq!(setting(&server, "innodb_flush_log_at_trx_commit")?, "1");
    server.kill()?;
    let answer = idem_servers::server(name)?.probe(&url);
    assert!(answer.is_err(), "it still answers: {answer:?}");
    server.restart()?;
    assert_eq!(server.url(), url);
    assert_eq!(query(&url, "SELECT sum(n) FROM t")?, "3");
    Ok(())
}

fn is_fast_and_large(name: &str) -> Outcome {
    let server = start_private(name, &Options::new())?;
    assert_eq!(server.product().name, idem_servers::server(name)?.product());
    let version = server.product().version.clone().ok_or("no version")?;
    let told = setting(&server, "version")?;
    assert!(told.starts_with(&version), "{told} is not {version}");
    assert_eq!(setting(&server, "innodb_flush_log_at_trx_commit")?, "2");
    assert_eq!(setting(&server, "max_connections")?, "500");
    query(server.url(), "SET GLOBAL max_connections = 400")?;
    Ok(server.stop()?)
}

fn speaks_tls(name: &str) -> Outcome {
    let server = start_private(name, &Options::new().with_transport(Transport::Tls))?;
    let authority = server.ca_certificate().ok_or("no certificate")?;
    let authority = format!("--ssl-ca={}", authority.display());
    let used = query_with(
        server.url(),
        "SHOW STATUS LIKE 'Ssl_cipher'",
        &[&authority, "--ssl-verify-server-cert"],
    )?;
    assert!(used.split_whitespace().nth(1).is_some(), "{used}");
    Ok(())
}

fn leaves_nothing(name: &str) -> Outcome {
    let server = start_private(name, &Options::new())?;
    let data = setting(&server, "datadir")?;
    assert!(!data.is_empty());
    drop(server);
    assert!(!std::path::Path::new(&data).exists());
    Ok(())
}
