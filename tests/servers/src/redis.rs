use std::path::Path;
use std::process::Command;

use crate::certificate::{self, AUTHORITY, KEY, OWN};
use crate::server::{Kind, Tls};
use crate::tools::{ask, tool};
use crate::{Durability, Error, Image, Product, Result, Server, Site};

/// Redis: no login. TLS is on a separate port.
pub(crate) static SERVER: Server = Server {
    product: "Redis",
    packages: &["redis-server"],
    programs: &["redis-server"],
    accounts: &["redis", "nobody"],
    takes_settings: true,
    tls: Tls::SecondPort("rediss"),
    image: Some(Image {
        arguments: &["redis-server", "--save", "", "--appendonly", "no"],
        question: &[
            "sh",
            "-c",
            "redis-cli INFO server | sed -n s/^redis_version://p",
        ],
        ..Image::new("redis:7.4", 6379)
    }),
    ..Server::new("redis", &Redis("Redis"))
};

/// A server that takes Redis's settings, by the name of its product.
#[derive(Debug)]
pub(crate) struct Redis(pub(crate) &'static str);

impl Kind for Redis {
    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        certificate::make(site)
    }

    fn command(&self, site: &Site<'_>) -> Command {
        command(site)
    }

    fn url(&self, port: u16) -> String {
        url(port)
    }

    fn probe(&self, url: &str, programs: &Path) -> Result<Product> {
        probe(self.0, url, programs)
    }
}

pub(crate) fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// Returns the server of this site, or either of the two in the folder: both take the same
/// settings.
pub(crate) fn server(site: &Site<'_>) -> Command {
    site.command(&[site.server.programs[0], "redis-server", "valkey-server"])
}

/// Returns the server with all settings on its command line; of two with one name the later counts.
pub(crate) fn command(site: &Site<'_>) -> Command {
    let mut command = server(site);
    command.args(["--bind", "127.0.0.1", "--protected-mode", "no"]);
    command.args(["--port", &site.port.to_string()]);
    command.arg("--dir").arg(site.folder);
    command.args(["--save", "", "--repl-diskless-sync-delay", "0"]);
    command.args(match site.options.durability {
        Durability::Fast => ["--appendonly", "no"].as_slice(),
        Durability::Durable => &["--appendonly", "yes", "--appendfsync", "always"],
    });
    if let (true, Some(port)) = (site.has_tls(), site.second_port) {
        command.args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no"]);
        for (name, file) in [("ca-cert", AUTHORITY), ("cert", OWN), ("key", KEY)] {
            command
                .arg(format!("--tls-{name}-file"))
                .arg(site.path(file));
        }
    }
    for (name, value) in &site.options.settings {
        command.arg(format!("--{name}")).arg(value);
    }
    command
}

/// Returns the client program, for the server at `url`.
pub(crate) fn client(url: &str, programs: &Path) -> Command {
    let mut client = tool(programs, &["redis-cli", "valkey-cli"]);
    client.args(["-u", url, "-e", "--no-auth-warning"]);
    if url.starts_with("rediss:") {
        client.arg("--insecure");
    }
    client
}

/// Returns the answer to `INFO`, empty if the server refuses the login. Fails while the server
/// still reads its data.
pub(crate) fn info(url: &str, programs: &Path) -> Result<String> {
    match ask(client(url, programs).arg("INFO"), "") {
        Ok(info) if field(&info, "loading") == Some("1") => {
            Err(Error::failed("the server still reads its data"))
        }
        Err(error) if error.to_string().contains("NOAUTH") => Ok(String::new()),
        answer => answer,
    }
}

/// Returns the value of a line `name:value`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim_end)
}

pub(crate) fn probe(product: &str, url: &str, programs: &Path) -> Result<Product> {
    info(url, programs).map(|info| named_in(&info, product))
}

/// A Valkey names itself, although it also reports a Redis version. If the server does not say, it
/// is this product, without a version.
pub(crate) fn named_in(info: &str, product: &str) -> Product {
    let name = field(info, "server_name").unwrap_or("redis");
    match (name, field(info, &format!("{name}_version"))) {
        ("redis", None) => Product::new(product, None),
        ("redis", version) => Product::new("Redis", version),
        ("valkey", version) => Product::new("Valkey", version),
        (other, version) => Product::new(other, version),
    }
}

#[cfg(test)]
mod tests {
    use super::{field, named_in};

    #[test]
    fn a_valkey_is_not_taken_for_the_redis_that_it_is_compatible_with() {
        let product = |info| named_in(info, "unknown").to_string();
        assert_eq!(product("redis_version:7.0.15\r\n"), "Redis 7.0.15");
        let valkey = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n";
        assert_eq!(product(valkey), "Valkey 8.0.1");
        assert_eq!(product("redis_mode:standalone"), "unknown");
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n";
        assert_eq!(field(text, "redis_mode"), Some("cluster"));
        assert_eq!(field(text, "redis"), None);
    }
}
