use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::server::{in_sbin, on_path};
use crate::site::has_account;
use crate::url::Url;
use crate::{Error, Image, Product, Result, Server, Site};

const PROGRAM: &str = "nats-server";
const PORT: u16 = 4222;

/// NATS with JetStream, on disk: no log-in. No store, but the broker of the queue's example.
#[derive(Clone, Copy, Debug)]
pub struct Nats;

impl Server for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn product(&self) -> &'static str {
        "NATS"
    }

    fn packages(&self) -> &'static [&'static str] {
        &[PROGRAM]
    }

    fn account(&self) -> &'static str {
        if has_account("nats") {
            "nats"
        } else {
            "nobody"
        }
    }

    fn programs(&self) -> Option<PathBuf> {
        on_path(&[PROGRAM]).or_else(|| in_sbin(&[PROGRAM]))
    }

    fn image(&self) -> Option<Image> {
        Some(Image {
            default: "nats:2.10",
            port: PORT,
            environment: &[],
            arguments: &["-js"],
            licence: None,
        })
    }

    fn prepare(&self, _site: &Site<'_>) -> Result<()> {
        Ok(())
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = site.command(PROGRAM);
        command.args(["-js", "-a", "127.0.0.1", "-p", &site.port().to_string()]);
        command.arg("-sd").arg(site.path("streams"));
        command
    }

    fn url(&self, port: u16) -> String {
        format!("nats://127.0.0.1:{port}")
    }

    /// It greets with what it is. That it takes messages on streams is told by the answer to a ping: it answers none
    /// before JetStream has read what it has.
    fn probe(&self, url: &str) -> Result<Product> {
        let url = Url::parse(url, PORT)?;
        let told = |source| Error::failed("no greeting").with_source(source);
        let mut stream = url.connect().map_err(told)?;
        let mut greeting = String::new();
        let mut answers = BufReader::new(stream.try_clone().map_err(told)?);
        answers.read_line(&mut greeting).map_err(told)?;
        stream
            .write_all(b"CONNECT {\"verbose\":false}\r\nPING\r\n")
            .map_err(told)?;
        let mut pong = String::new();
        answers.read_line(&mut pong).map_err(told)?;
        product(&greeting, &pong)
    }
}

fn product(greeting: &str, pong: &str) -> Result<Product> {
    let wrong = || Error::failed("no NATS with JetStream answers there");
    let info = greeting.strip_prefix("INFO ").ok_or_else(wrong)?;
    let info: Value = serde_json::from_str(info).map_err(|_| wrong())?;
    // One that wants a log-in answers the ping with that, and has told its version.
    let is_up = pong.starts_with("PONG") || pong.contains("Authorization");
    if !is_up || info["jetstream"] != true {
        return Err(wrong());
    }
    Ok(Product::new(
        "NATS",
        info["version"].as_str().map(Into::into),
    ))
}

#[cfg(test)]
mod tests {
    use super::product;

    #[test]
    fn only_a_nats_with_streams_is_one() {
        let greeting = r#"INFO {"server_id":"x","version":"2.9.10","jetstream":true}"#;
        assert_eq!(
            product(greeting, "PONG\r\n").unwrap().to_string(),
            "NATS 2.9.10"
        );
        let refused = "-ERR 'Authorization Violation'\r\n";
        assert!(product(greeting, refused).is_ok());
        assert!(product(greeting, "").is_err());
        assert!(product(r#"INFO {"version":"2.9.10"}"#, "PONG").is_err());
        assert!(product("+OK", "PONG").is_err());
    }
}
