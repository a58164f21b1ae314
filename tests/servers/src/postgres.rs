use std::path::Path;

use rustix::process::Signal;

use crate::node::Node;
use crate::server::{Image, Setting, Tls};
use crate::tools::{ask, holds, tool};
use crate::{Product, Result, Server};

/// PostgreSQL: superuser `postgres`, no password, database `idem`.
pub(crate) const SERVER: Server = Server {
    product: "PostgreSQL",
    packages: &["postgresql"],
    programs: &["postgres", "initdb"],
    // Debian keeps the programs of each major version in a separate folder, outside `$PATH`.
    folder: Some("/usr/lib/postgresql/*/bin"),
    url: "postgres://postgres@127.0.0.1:{port}/idem",
    setup: &["initdb -U postgres --auth=trust -E UTF8 --locale=C --no-sync -D {folder}/data"],
    // Without a unix socket, whose path may be too long for the system.
    arguments: "-D {folder}/data -k '' -c listen_addresses=127.0.0.1 -p {port}",
    options: "-c max_connections=300",
    fast: "-c fsync=off -c synchronous_commit=off -c full_page_writes=off",
    durable: "-c shared_buffers=1GB -c max_wal_size=4GB",
    tls: Some(Tls {
        arguments: "-c ssl=on -c ssl_key_file={folder}/server.key \
                    -c ssl_cert_file={folder}/server.crt",
        scheme: None,
    }),
    setting: Setting::Arguments("-c {name}={value}"),
    stop_signal: Signal::QUIT,
    image: Some(Image::new(5432)),
    is_ready,
    ..Server::new("postgres", probe)
};

/// A hot standby of the PostgreSQL at [`Options::with_upstream`](crate::Options::with_upstream),
/// for tests only. It streams from there under the name [`NAME`](Self::NAME), which the primary's
/// `synchronous_standby_names` may contain.
///
/// Start it with [`start_private`](crate::start_private)`("postgres-standby", …)`: it copies the
/// primary's data, and counts as started when it answers. `SELECT pg_promote()` makes it a primary.
#[derive(Clone, Copy, Debug)]
pub struct PostgresStandby;

impl PostgresStandby {
    /// The name under which it streams.
    pub const NAME: &'static str = "standby";
}

/// The copy contains the connection to the primary; its name comes from `cluster_name`
/// (<https://www.postgresql.org/docs/current/runtime-config-logging.html#GUC-CLUSTER-NAME>).
pub(crate) const STANDBY: Server = Server {
    product: "PostgreSQL standby",
    packages: SERVER.packages,
    programs: &["postgres", "pg_basebackup"],
    folder: SERVER.folder,
    upstream: Some(SERVER.name),
    url: SERVER.url,
    setup: &[
        "pg_basebackup -h {host} -p {host_port} -U postgres -D {folder}/data -R -X stream \
              -c fast --no-sync",
    ],
    arguments: "-D {folder}/data -k '' -c listen_addresses=127.0.0.1 -p {port} \
                -c cluster_name=standby",
    options: SERVER.options,
    fast: SERVER.fast,
    durable: SERVER.durable,
    setting: Setting::Arguments("-c {name}={value}"),
    stop_signal: SERVER.stop_signal,
    ..Server::new("postgres-standby", probe)
};

/// A missing login, or a missing database, hides only the version.
pub(crate) fn probe(server: &Server, url: &str, programs: &Path) -> Result<Product> {
    let version = psql(url, programs, "SHOW server_version").or_else(|_| {
        let mut is_ready = tool(programs, &["pg_isready"]);
        ask(is_ready.args(["-q", "-d", plain(url)]))
    })?;
    Ok(Product::returned(server.product, &version))
}

/// Creates the database at the first start.
pub(crate) fn is_ready(node: &Node) -> Result<()> {
    let programs = node.programs();
    if psql(&node.url, programs, "SELECT 1").is_ok() {
        return Ok(());
    }
    let url = node.url.replace("/idem", "/postgres");
    psql(&url, programs, "CREATE DATABASE idem").map(drop)
}

/// Runs one statement and returns what `psql` prints of its rows.
pub(crate) fn psql(url: &str, programs: &Path, sql: &str) -> Result<String> {
    // Debian's `psql` on `$PATH` is a slow wrapper around the one beside the server.
    let beside = SERVER.programs().filter(|_| !holds(programs, &["psql"]));
    let mut psql = tool(beside.as_deref().unwrap_or(programs), &["psql"]);
    psql.env("PGCONNECT_TIMEOUT", "5");
    ask(psql.args(["-XAtqw", plain(url), "-c", sql]))
}

/// Removes the parameters: those of drivers are not those of the client programs.
fn plain(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}
