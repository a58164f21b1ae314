use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::error::Doing;
use crate::server::Kind;
use crate::tools::connect;
use crate::{Error, Image, Product, Result, Server, Site};

const PORT: u16 = 4222;

/// NATS with JetStream, on disk: no login. It is no store, but the broker of the queue example.
pub(crate) static SERVER: Server = Server {
    product: "NATS",
    packages: &["nats-server"],
    programs: &["nats-server"],
    accounts: &["nats", "nobody"],
    image: Some(Image {
        arguments: &["-js"],
        ..Image::new("nats:2.10", PORT)
    }),
    ..Server::new("nats", &Nats)
};

#[derive(Debug)]
struct Nats;

impl Kind for Nats {
    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = site.command(&["nats-server"]);
        command.args(["-js", "-a", "127.0.0.1", "-p", &site.port.to_string()]);
        command.arg("-sd").arg(site.path("streams"));
        command
    }

    fn url(&self, port: u16) -> String {
        format!("nats://127.0.0.1:{port}")
    }

    /// Its package has no client, and its protocol is lines of text: the greeting contains product
    /// and version, and the server answers a ping once JetStream has read its data.
    fn probe(&self, url: &str, _programs: &Path) -> Result<Product> {
        let what = || "no greeting".to_owned();
        let mut stream = connect(url, PORT)?;
        let mut lines = BufReader::new(stream.try_clone().doing(what)?);
        let [mut greeting, mut pong] = [String::new(), String::new()];
        lines.read_line(&mut greeting).doing(what)?;
        let ping = b"CONNECT {\"verbose\":false}\r\nPING\r\n";
        stream.write_all(ping).doing(what)?;
        lines.read_line(&mut pong).doing(what)?;
        product(&greeting, &pong)
    }
}

fn product(greeting: &str, pong: &str) -> Result<Product> {
    let wrong = || Error::failed("no NATS with JetStream answers there");
    let info = greeting.strip_prefix("INFO ").ok_or_else(wrong)?;
    let info: Value = serde_json::from_str(info).map_err(|_| wrong())?;
    // A server that requires a login answers the ping with that; its greeting has the version.
    let is_up = pong.starts_with("PONG") || pong.contains("Authorization");
    if !is_up || info["jetstream"] != true {
        return Err(wrong());
    }
    Ok(Product::new("NATS", info["version"].as_str()))
}

#[cfg(test)]
mod tests {
    use super::product;

    #[test]
    fn only_a_nats_with_streams_is_one() {
        let greeting = r#"INFO {"server_id":"x","version":"2.9.10","jetstream":true}"#;
        let answers = product(greeting, "PONG\r\n").unwrap();
        assert_eq!(answers.to_string(), "NATS 2.9.10");
        let refused = "-ERR 'Authorization Violation'\r\n";
        assert!(product(greeting, refused).is_ok());
        assert!(product(greeting, "").is_err());
        assert!(product(r#"INFO {"version":"2.9.10"}"#, "PONG").is_err());
        assert!(product("+OK", "PONG").is_err());
    }
}
