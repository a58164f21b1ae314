use std::path::Path;
use std::process::Command;

use crate::server::{Image, Setting, Tls};
use crate::tools::{ask, tool};
use crate::{Error, Product, Result, Server};

/// Redis: no login. TLS is on a separate port.
pub(crate) const SERVER: Server = Server {
    product: "Redis",
    packages: &["redis-server"],
    programs: &["redis-server"],
    url: "redis://127.0.0.1:{port}",
    // Of two with one name the later counts.
    arguments: "--bind 127.0.0.1 --protected-mode no --port {port} --dir {folder}",
    options: "--save '' --repl-diskless-sync-delay 0",
    fast: "--appendonly no",
    durable: "--appendonly yes --appendfsync always",
    tls: Some(Tls {
        arguments: "--tls-port {port1} --tls-auth-clients no \
                    --tls-ca-cert-file {folder}/ca.crt --tls-cert-file {folder}/server.crt \
                    --tls-key-file {folder}/server.key",
        scheme: Some("rediss"),
    }),
    setting: Setting::Arguments("--{name} {value}"),
    image: Some(Image::new(6379)),
    ..Server::new("redis", probe)
};

/// The client program, of Redis or of Valkey.
pub(crate) const CLIENTS: &[&str] = &["redis-cli", "valkey-cli"];

pub(crate) fn probe(server: &Server, url: &str, programs: &Path) -> Result<Product> {
    info(url, programs).map(|info| named_in(&info, server.product))
}

/// Returns the client program, for the server at `url`.
pub(crate) fn client(url: &str, programs: &Path) -> Command {
    let mut client = tool(programs, CLIENTS);
    client.args(["-u", url, "-e", "--no-auth-warning"]);
    if url.starts_with("rediss:") {
        client.arg("--insecure");
    }
    client
}

/// Returns the answer to `INFO`, empty if the server refuses the login. Fails while the server
/// still reads its data.
pub(crate) fn info(url: &str, programs: &Path) -> Result<String> {
    match ask(client(url, programs).arg("INFO")) {
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
