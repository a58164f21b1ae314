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
