use std::io::{Read, Write};
use std::path::Path;

use crate::built::Built;
use crate::error::Doing;
use crate::server::Image;
use crate::tools::connect;
use crate::{Error, Product, Result, Server};

/// The port of DynamoDB Local, and of most imitations.
const PORT: u16 = 8000;

/// DynamoDB is a service: there is no server of it to start. A URL in the environment may name the
/// service, and a container has Amazon's imitation of it, whose licence the user accepts. Otherwise
/// this is dynoxide, an imitation on SQLite, built from the Rust registry: it writes each request in
/// one transaction, in memory or in a file. The product says which one answers.
pub(crate) const SERVER: Server = Server {
    product: "DynamoDB",
    cached: Some("dynoxide/bin"),
    programs: &["dynoxide"],
    url: "http://127.0.0.1:{port}",
    arguments: "serve --host 127.0.0.1 --port {port}",
    durable: "--db-path {folder}/data/items.sqlite",
    image: Some(Image {
        port: PORT,
        licence: Some("ACCEPT_DYNAMODB_LOCAL_LICENCE"),
    }),
    install: |_, progress| BUILT.install(progress),
    ..Server::new("dynamodb", probe)
};

const BUILT: Built = Built {
    name: "dynoxide",
    package: "dynoxide-rs@3.2.0",
    features: "--no-default-features --features native-sqlite,http-server,cli",
    tools: &[("cc", "gcc")],
    reason: "as an imitation of DynamoDB: some four minutes",
};

/// Asks for anything. The service and its imitations name themselves in a header, also when they
/// refuse it. Of a server behind TLS this finds nothing out.
fn probe(_server: &Server, url: &str, _programs: &Path) -> Result<Product> {
    if url.starts_with("https:") {
        connect(url, 443)?;
        return Ok(Product::new(SERVER.product, None));
    }
    let mut stream = connect(url, PORT)?;
    let what = || "no DynamoDB answers".to_owned();
    let request = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).doing(what)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).doing(what)?;
    let answer = String::from_utf8_lossy(&answer);
    match answer.starts_with("HTTP/1.1 ") {
        true => Ok(product(&answer)),
        false => Err(Error::failed(what())),
    }
}

/// Returns the product that answers so.
fn product(answer: &str) -> Product {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    let headers = head.lines().filter_map(|line| line.split_once(':'));
    let mut servers = headers.filter(|(name, _)| name.eq_ignore_ascii_case("server"));
    let server = servers.next().map_or("", |(_, value)| value.trim());
    let (name, version) = server.split_once('/').unwrap_or((server, ""));
    let version = version.split(' ').next().filter(|text| !text.is_empty());
    match name {
        "Dynoxide" => Product::new("dynoxide, an imitation of DynamoDB", version),
        // The version is that of its HTTP server.
        "Werkzeug" => Product::new("moto, an imitation of DynamoDB", None),
        "Server" => Product::new(SERVER.product, None),
        _ => Product::new("an unknown imitation of DynamoDB", None),
    }
}

#[cfg(test)]
mod tests {
    use super::product;

    #[test]
    fn an_imitation_is_not_taken_for_the_service() {
        let name = |server: &str| {
            let answer = format!("HTTP/1.1 200 OK\r\ndate: now\r\n{server}\r\n\r\nServer: Server");
            product(&answer).to_string()
        };
        let imitation = "dynoxide, an imitation of DynamoDB 1.5.0";
        assert_eq!(name("server: Dynoxide/1.5.0"), imitation);
        assert_eq!(
            name("Server: Werkzeug/3.1.9 Python/3.11.7"),
            "moto, an imitation of DynamoDB"
        );
        assert_eq!(name("Server: Server"), "DynamoDB");
        let unknown = "an unknown imitation of DynamoDB";
        assert_eq!(name("Server: Jetty(12.0.8)"), unknown);
        assert_eq!(name("x: y"), unknown);
    }
}
