use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;

use crate::error::Doing;
use crate::server::Image;
use crate::tools::connect;
use crate::{Error, Product, Result, Server};

const PORT: u16 = 4222;

/// NATS with JetStream, on disk: no login. It is no store, but the broker of the queue example.
pub(crate) const SERVER: Server = Server {
    product: "NATS",
    packages: &["nats-server"],
    programs: &["nats-server"],
    url: "nats://127.0.0.1:{port}",
    arguments: "-a 127.0.0.1 -p {port} -sd {folder}/data",
    options: "-js",
    image: Some(Image::new(PORT)),
    ..Server::new("nats", probe)
};

/// Its package has no client. The server greets a client, once JetStream has read its data,
/// with a line that contains its version.
fn probe(_server: &Server, url: &str, _programs: &Path) -> Result<Product> {
    let mut greeting = String::new();
    let mut lines = BufReader::new(connect(url, PORT)?);
    let what = || "no greeting".into();
    lines.read_line(&mut greeting).doing(what)?;
    product(&greeting)
}

fn product(greeting: &str) -> Result<Product> {
    let info = greeting.strip_prefix("INFO ").unwrap_or_default();
    let info: Value = serde_json::from_str(info).unwrap_or_default();
    match info["version"].as_str() {
        Some(version) if info["jetstream"] == true => Ok(Product::new("NATS", Some(version))),
        _ => Err(Error::failed("no NATS with JetStream answers there")),
    }
}

#[cfg(test)]
mod tests {
    use super::product;

    #[test]
    fn only_a_nats_with_streams_is_one() {
        let greeting = r#"INFO {"server_id":"x","version":"2.9.10","jetstream":true}"#;
        let answers = product(greeting).unwrap();
        assert_eq!(answers.to_string(), "NATS 2.9.10");
        assert!(product(r#"INFO {"version":"2.9.10"}"#).is_err());
        assert!(product("+OK").is_err());
        assert!(product("").is_err());
    }
}
