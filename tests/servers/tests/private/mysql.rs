use std::process::Command;

use idem_servers::Instance;

use crate::common::Database;
use crate::{Outcome, output};

pub(crate) static MARIADB: Database = Database {
    name: "mariadb",
    ..MYSQL
};

pub(crate) static MYSQL: Database = Database {
    name: "mysql",
    client: "mariadb",
    ask: query,
    write: "CREATE TABLE t (n int); INSERT INTO t VALUES (1)",
    read: "SELECT sum(n) FROM t",
    rewrite: "INSERT INTO t VALUES (1)",
    version: "SELECT @@version",
    folder: "SELECT @@datadir",
    durable: ("SELECT @@innodb_flush_log_at_trx_commit", "1"),
    fast: &[
        ("SELECT @@innodb_flush_log_at_trx_commit", "2"),
        ("SELECT @@max_connections", "500"),
        // Only a user with every privilege may do this.
        ("SET GLOBAL max_connections = 400", ""),
    ],
    tls: speaks_tls,
};

/// Returns the first column of the server's answer, one row per line.
pub(crate) fn query(url: &str, sql: &str) -> Outcome<String> {
    query_with(url, sql, &[])
}

/// Does the same with more options for the client.
fn query_with(url: &str, sql: &str, options: &[&str]) -> Outcome<String> {
    let port = url
        .rsplit_once("127.0.0.1:")
        .and_then(|(_, rest)| rest.split('/').next())
        .ok_or("no port")?;
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "--batch", "--skip-column-names"]);
    client.args(["--host=127.0.0.1", "--user=idem", "--password=idem"]);
    client.args(["--database=idem", "--port", port]);
    output(client.args(options).args(["--execute", sql]))
}

fn speaks_tls(server: &Instance, authority: &str) -> Outcome {
    let authority = format!("--ssl-ca={authority}");
    let options = [authority.as_str(), "--ssl-verify-server-cert"];
    let used = query_with(server.url(), "SHOW STATUS LIKE 'Ssl_cipher'", &options)?;
    assert!(used.split_whitespace().nth(1).is_some(), "{used}");
    Ok(())
}
