use std::path::{Path, PathBuf};
use std::process::Command;

use crate::certificate::Certificate;
use crate::server::{holds, in_sbin, on_path};
use crate::site::has_account;
use crate::url::Url;
use crate::{Durability, Image, Options, Product, Result, Server, Site, Transport, root};

mod wire;

pub(crate) use wire::{Connection, field};

pub(crate) const PROGRAM: &str = "redis-server";
const VALKEY: &str = "valkey-server";
pub(crate) const PORT: u16 = 6379;

/// Redis: no log-in. Where it speaks TLS, it does so on a port of its own: see
/// [`Instance::tls_url`](crate::Instance::tls_url).
#[derive(Clone, Copy, Debug)]
pub struct Redis;

impl Server for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn product(&self) -> &'static str {
        "Redis"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["redis-server"]
    }

    fn account(&self) -> &'static str {
        account("redis")
    }

    fn programs(&self) -> Option<PathBuf> {
        programs()
    }

    fn image(&self) -> Option<Image> {
        Some(Image {
            default: "redis:7.4",
            port: PORT,
            environment: &[],
            arguments: &[PROGRAM, "--save", "", "--appendonly", "no"],
            licence: None,
        })
    }

    fn takes_settings(&self) -> bool {
        true
    }

    fn needs_second_port(&self, options: &Options) -> bool {
        options.transport() == Transport::Tls
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        prepare(site)
    }

    fn command(&self, site: &Site<'_>) -> Command {
        command(site)
    }

    fn url(&self, port: u16) -> String {
        url(port)
    }

    fn tls_url(&self, site: &Site<'_>) -> Option<String> {
        tls_url(site)
    }

    fn probe(&self, url: &str) -> Result<Product> {
        probe(url, self.product())
    }
}

/// Any account does; that of the package where it is installed.
pub(crate) fn account(name: &'static str) -> &'static str {
    if has_account(name) { name } else { "nobody" }
}

pub(crate) fn programs() -> Option<PathBuf> {
    on_path(&[PROGRAM]).or_else(|| in_sbin(&[PROGRAM]))
}

pub(crate) fn prepare(site: &Site<'_>) -> Result<()> {
    if site.options().transport() == Transport::Tls {
        Certificate::make(site)?;
    }
    Ok(())
}

/// The server, with everything that it is told on its command line; what is told later goes before.
pub(crate) fn command(site: &Site<'_>) -> Command {
    let mut command = root::command(site, program(site.programs()));
    command.args(["--bind", "127.0.0.1", "--protected-mode", "no"]);
    command.args(["--port", &site.port().to_string()]);
    command.arg("--dir").arg(site.folder());
    command.args(["--save", "", "--repl-diskless-sync-delay", "0"]);
    command.args(match site.options().durability() {
        Durability::Fast => ["--appendonly", "no"].as_slice(),
        Durability::Durable => &["--appendonly", "yes", "--appendfsync", "always"],
    });
    if let (Transport::Tls, Some(port)) = (site.options().transport(), site.second_port()) {
        command.args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no"]);
        for (name, file) in [
            ("--tls-ca-cert-file", Certificate::AUTHORITY),
            ("--tls-cert-file", Certificate::OWN),
            ("--tls-key-file", Certificate::KEY),
        ] {
            command.arg(name).arg(site.path(file));
        }
    }
    for (name, value) in site.options().settings() {
        command.arg(format!("--{name}")).arg(value);
    }
    command
}

/// Whichever of the two is in the folder: both take the same settings.
pub(crate) fn program(programs: &Path) -> &'static str {
    if holds(programs, &[VALKEY]) && !holds(programs, &[PROGRAM]) {
        VALKEY
    } else {
        PROGRAM
    }
}

pub(crate) fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

pub(crate) fn tls_url(site: &Site<'_>) -> Option<String> {
    let port = site.second_port()?;
    (site.options().transport() == Transport::Tls).then(|| format!("rediss://localhost:{port}"))
}

/// Who answers: a Valkey says so, although it passes for a Redis too. Of a server that is there and does not let us
/// in, or that speaks TLS only, nothing but that is known.
pub(crate) fn probe(url: &str, product: &str) -> Result<Product> {
    let unknown = Product::new(product, None);
    if url.starts_with("rediss:") {
        let url = Url::parse(url, PORT)?;
        return match url.connect() {
            Ok(_) => Ok(unknown),
            Err(error) => Err(crate::Error::failed("no connection").with_source(error)),
        };
    }
    let mut connection = Connection::open(url)?;
    // Refused while the data is still being read.
    match connection.ask(&["PING"]) {
        Ok(_) => {}
        Err(error) if error.to_string().starts_with("NOAUTH") => return Ok(unknown),
        Err(error) => return Err(error),
    }
    let told = connection.ask(&["INFO", "server"])?;
    Ok(named_in(&told).unwrap_or(unknown))
}

fn named_in(info: &str) -> Option<Product> {
    let version = |name: &str| field(info, &format!("{name}_version")).map(Into::into);
    match field(info, "server_name") {
        None | Some("redis") => Some(Product::new("Redis", Some(version("redis")?))),
        Some("valkey") => Some(Product::new("Valkey", version("valkey"))),
        Some(other) => Some(Product::new(other, version(other))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{named_in, probe, program};

    #[test]
    fn a_valkey_is_not_taken_for_the_redis_that_it_says_it_is_compatible_with() {
        let product = |info| named_in(info).unwrap().to_string();
        assert_eq!(product("redis_version:7.0.15\r\n"), "Redis 7.0.15");
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n";
        assert_eq!(product(valkey), "Valkey 8.0.1");
        assert_eq!(named_in("redis_mode:standalone"), None);
    }

    #[test]
    fn the_program_is_redis_unless_only_valkey_is_there() {
        assert_eq!(program(Path::new("/nowhere")), "redis-server");
    }

    #[test]
    fn a_port_that_nobody_listens_on_does_not_answer() {
        assert!(probe("redis://127.0.0.1:1", "Redis").is_err());
        assert!(probe("rediss://127.0.0.1:1", "Redis").is_err());
    }
}
