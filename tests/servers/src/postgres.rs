use std::path::{Path, PathBuf};
use std::process::Command;

use crate::certificate::{self, KEY, OWN};
use crate::server::{Kind, Tls};
use crate::tools::{ask, find, holds, run, tool};
use crate::{Durability, Image, Product, Result, Server, Signal, Site};

/// PostgreSQL: superuser `postgres`, no password, database `idem`.
pub(crate) static SERVER: Server = Server {
    product: "PostgreSQL",
    packages: &["postgresql"],
    programs: &["initdb", "postgres"],
    accounts: &["postgres"],
    takes_settings: true,
    tls: Tls::SamePort,
    stop_signal: Signal::Quit,
    image: Some(Image {
        environment: &[
            ("POSTGRES_HOST_AUTH_METHOD", "trust"),
            ("POSTGRES_DB", "idem"),
        ],
        arguments: &[
            "postgres",
            "-c",
            "max_connections=300",
            "-c",
            "fsync=off",
            "-c",
            "synchronous_commit=off",
            "-c",
            "full_page_writes=off",
        ],
        // While the image creates its data, its server listens only at the socket.
        question: &[
            "psql",
            "-XAtq",
            "postgres://postgres@127.0.0.1/idem",
            "-c",
            "SHOW server_version",
        ],
        ..Image::new("postgres:17.6-alpine", 5432)
    }),
    ..Server::new("postgres", &Postgres)
};

#[derive(Debug)]
struct Postgres;

impl Kind for Postgres {
    fn programs(&self, server: &Server) -> Option<PathBuf> {
        find(server.programs)
            .or_else(|| newest_of_debian(server.programs))
            .or_else(|| named_by_pg_config(server.programs))
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        let mut initdb = site.command(&["initdb"]);
        initdb.args(["-U", "postgres", "--auth=trust", "-E", "UTF8"]);
        initdb.args(["--locale=C", "--no-sync", "-D"]);
        run(initdb.arg(site.path("data")))?;
        certificate::make(site)
    }

    /// Without a unix socket, whose path may be too long for the system.
    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = site.command(&["postgres"]);
        command.arg("-D").arg(site.path("data"));
        command.args(["-p", &site.port.to_string(), "-k", ""]);
        for setting in settings(site) {
            command.args(["-c", &setting]);
        }
        command
    }

    fn url(&self, port: u16) -> String {
        url(port, "idem")
    }

    /// A missing login, or a database that does not exist yet, hides only the version.
    fn probe(&self, url: &str, programs: &Path) -> Result<Product> {
        let version = psql(url, programs, "SHOW server_version").or_else(|_| {
            let mut is_ready = tool(programs, &["pg_isready"]);
            ask(is_ready.args(["-q", "-d", plain(url)]), "")
        })?;
        Ok(Product::returned("PostgreSQL", &version))
    }

    fn welcome(&self, site: &Site<'_>) -> Result<()> {
        let url = url(site.port, "postgres");
        psql(&url, site.programs, "CREATE DATABASE idem").map(drop)
    }
}

fn url(port: u16, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/{database}")
}

/// Runs one statement and returns what `psql` prints of its rows.
pub(crate) fn psql(url: &str, programs: &Path, sql: &str) -> Result<String> {
    // Debian's `psql` on `$PATH` is a slow wrapper around the one beside the server.
    let beside = SERVER.programs().filter(|_| !holds(programs, &["psql"]));
    let mut psql = tool(beside.as_deref().unwrap_or(programs), &["psql"]);
    psql.env("PGCONNECT_TIMEOUT", "5");
    ask(psql.args(["-XAtqw", plain(url), "-c", sql]), "")
}

/// Removes the parameters: those of drivers are not those of the client programs.
fn plain(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

fn settings(site: &Site<'_>) -> Vec<String> {
    let mut settings = vec![
        "listen_addresses=127.0.0.1".into(),
        "max_connections=300".into(),
    ];
    match site.options.durability {
        Durability::Fast => settings.extend(
            ["fsync", "synchronous_commit", "full_page_writes"].map(|name| format!("{name}=off")),
        ),
        Durability::Durable => {
            settings.extend(["shared_buffers=1GB", "max_wal_size=4GB"].map(ToOwned::to_owned));
        }
    }
    if site.has_tls() {
        settings.push("ssl=on".into());
        for (name, file) in [("ssl_key_file", KEY), ("ssl_cert_file", OWN)] {
            settings.push(format!("{name}={}", site.path(file).display()));
        }
    }
    let own = site.options.settings.iter();
    settings.extend(own.map(|(name, value)| format!("{name}={value}")));
    settings
}

/// Debian keeps the programs of each major version in a separate folder, outside `$PATH`.
fn newest_of_debian(programs: &[&str]) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    versions
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, folder)| holds(folder, programs))
        .max()
        .map(|(_, folder)| folder)
}

fn named_by_pg_config(programs: &[&str]) -> Option<PathBuf> {
    let folder = run(Command::new("pg_config").arg("--bindir")).ok()?;
    Some(PathBuf::from(folder.trim())).filter(|folder| holds(folder, programs))
}
