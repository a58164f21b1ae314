use std::process::Command;

use idem_servers::Instance;

use crate::common::Database;
use crate::{Outcome, output};

pub(crate) static POSTGRES: Database = Database {
    name: "postgres",
    client: "psql",
    ask: psql,
    write: "CREATE TABLE t AS SELECT 1 AS n",
    read: "SELECT n FROM t",
    rewrite: "UPDATE t SET n = 2",
    version: "SHOW server_version",
    folder: "SHOW data_directory",
    durable: ("SHOW fsync", "on"),
    fast: &[("SHOW fsync", "off"), ("SHOW max_connections", "300")],
    tls: speaks_tls,
};

pub(crate) fn psql(url: &str, sql: &str) -> Outcome<String> {
    output(Command::new("psql").args(["-X", "-At", url, "-c", sql]))
}

fn speaks_tls(server: &Instance, authority: &str) -> Outcome {
    let url = server.url();
    let url = format!("{url}?sslmode=verify-full&sslrootcert={authority}");
    let question = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(psql(&url, question)?, "t");
    Ok(())
}
