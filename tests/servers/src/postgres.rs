use std::path::PathBuf;
use std::process::Command;

use crate::certificate::Certificate;
use crate::server::{holds, on_path};
use crate::url::Url;
use crate::{Durability, Error, Image, Product, Result, Server, Signal, Site, Transport};

mod wire;

pub(crate) use wire::{Answer, Session};

const PROGRAMS: &[&str] = &["initdb", "postgres"];
const PORT: u16 = 5432;
const DATABASE: &str = "idem";

/// PostgreSQL: superuser `postgres`, no password, database `idem`.
#[derive(Clone, Copy, Debug)]
pub struct Postgres;

impl Server for Postgres {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn product(&self) -> &'static str {
        "PostgreSQL"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["postgresql"]
    }

    fn account(&self) -> &'static str {
        "postgres"
    }

    fn programs(&self) -> Option<PathBuf> {
        on_path(PROGRAMS)
            .or_else(newest_of_debian)
            .or_else(told_by_pg_config)
    }

    fn image(&self) -> Option<Image> {
        Some(Image {
            default: "postgres:17.6-alpine",
            port: PORT,
            environment: &[
                ("POSTGRES_HOST_AUTH_METHOD", "trust"),
                ("POSTGRES_DB", DATABASE),
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
            licence: None,
        })
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        let mut initdb = site.command("initdb");
        initdb.args([
            "-U",
            "postgres",
            "--auth=trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "-D",
        ]);
        site.run(initdb.arg(site.path("data")))?;
        if site.options().transport() == Transport::Tls {
            Certificate::make(site)?;
        }
        Ok(())
    }

    /// No unix socket: its path may be too long for the system.
    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = site.command("postgres");
        command
            .arg("-D")
            .arg(site.path("data"))
            .args(["-p", &site.port().to_string(), "-k", ""]);
        for setting in settings(site) {
            command.args(["-c", &setting]);
        }
        command
    }

    fn takes_settings(&self) -> bool {
        true
    }

    fn url(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/{DATABASE}")
    }

    fn probe(&self, url: &str) -> Result<Product> {
        let url = Url::parse(url, PORT)?;
        let version = match Session::open(&url, url.database.as_deref())? {
            Answer::Welcome(session) => session.version().map(first_word),
            Answer::LogIn => None,
            // There, but our database is not yet.
            Answer::Refused { code, .. } if code == "3D000" => {
                match Session::open(&url, Some("postgres"))? {
                    Answer::Welcome(session) => session.version().map(first_word),
                    _ => None,
                }
            }
            // A wrong log-in or a demand for TLS: only a server that is ready says so.
            Answer::Refused { code, .. } if code.starts_with("28") => None,
            Answer::Refused { message, .. } => return Err(Error::failed(message)),
        };
        Ok(Product::new(self.product(), version))
    }

    fn welcome(&self, url: &str) -> Result<()> {
        let url = Url::parse(url, PORT)?;
        match Session::open(&url, Some("postgres"))? {
            Answer::Welcome(mut session) => {
                let known = format!("SELECT 1 FROM pg_database WHERE datname = '{DATABASE}'");
                if session.query(&known)?.is_none() {
                    session.query(&format!("CREATE DATABASE {DATABASE}"))?;
                }
                Ok(())
            }
            Answer::LogIn => Err(Error::failed("a server of our own asks for a password")),
            Answer::Refused { message, .. } => Err(Error::failed(message)),
        }
    }

    fn stop_signal(&self) -> Signal {
        Signal::Quit
    }
}

fn settings(site: &Site<'_>) -> Vec<String> {
    let mut settings = vec![
        "listen_addresses=127.0.0.1".into(),
        "max_connections=300".into(),
    ];
    match site.options().durability() {
        Durability::Fast => settings.extend(
            ["fsync", "synchronous_commit", "full_page_writes"].map(|name| format!("{name}=off")),
        ),
        Durability::Durable => {
            settings.extend(["shared_buffers=1GB", "max_wal_size=4GB"].map(ToOwned::to_owned));
        }
    }
    if site.options().transport() == Transport::Tls {
        let [key, certificate] = [Certificate::KEY, Certificate::OWN].map(|file| site.path(file));
        settings.push("ssl=on".into());
        settings.push(format!("ssl_key_file={}", key.display()));
        settings.push(format!("ssl_cert_file={}", certificate.display()));
    }
    let own = site.options().settings().iter();
    settings.extend(own.map(|(name, value)| format!("{name}={value}")));
    settings
}

/// Debian keeps the programs of each major version in a folder of its own, outside `$PATH`.
fn newest_of_debian() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut found: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                entry.path().join("bin"),
            ))
        })
        .filter(|(_, folder)| holds(folder, PROGRAMS))
        .collect();
    found.sort();
    found.pop().map(|(_, folder)| folder)
}

fn told_by_pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    holds(&folder, PROGRAMS).then_some(folder)
}

/// `15.18 (Debian 15.18-0+deb12u1)` is 15.18.
fn first_word(version: &str) -> String {
    version.split_whitespace().next().unwrap_or(version).into()
}
