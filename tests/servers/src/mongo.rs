use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::wait_until;
use crate::server::{holds, on_path};
use crate::site::has_account;
use crate::url::Url;
use crate::{Durability, Error, Image, Product, Result, Server, Site, Transport};

mod bson;
mod secantus;
mod wire;

use bson::{Document, Writer};
use wire::Connection;

const PROGRAM: &str = "mongod";
const PORT: u16 = 27017;
const REPLICA_SET: &str = "idem";
const TIME_TO_ELECT: Duration = Duration::from_secs(30);

/// MongoDB as a replica set of one, for the sake of transactions; no log-in. Where neither an image nor a `mongod` is
/// to be had, a server that speaks its protocol is built from the Rust registry: the product says which one answers.
#[derive(Clone, Copy, Debug)]
pub struct MongoDb;

impl Server for MongoDb {
    fn name(&self) -> &'static str {
        "mongo"
    }

    fn product(&self) -> &'static str {
        "MongoDB"
    }

    fn packages(&self) -> &'static [&'static str] {
        &[]
    }

    fn install(&self, progress: fn(&str)) -> Result<()> {
        secantus::install(progress)
    }

    fn advice(&self) -> String {
        format!("Put a `{PROGRAM}` on `$PATH`")
    }

    fn account(&self) -> &'static str {
        if has_account("mongodb") {
            "mongodb"
        } else {
            "nobody"
        }
    }

    fn programs(&self) -> Option<PathBuf> {
        on_path(&[PROGRAM]).or_else(secantus::programs)
    }

    fn image(&self) -> Option<Image> {
        Some(Image {
            default: "mongo:8.0",
            port: PORT,
            environment: &[],
            arguments: &["--replSet", REPLICA_SET, "--bind_ip_all"],
            licence: None,
        })
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        if site.options().transport() == Transport::Tls {
            return Err(Error::setting("mongo is started without TLS only"));
        }
        site.make_folder("data").map(drop)
    }

    fn command(&self, site: &Site<'_>) -> Command {
        if is_mongod(site.programs()) {
            mongod(site)
        } else {
            secantus::command(site)
        }
    }

    /// To that very node: what the members of a set call each other need not be what a client can reach, as with the
    /// port of a container.
    fn url(&self, port: u16) -> String {
        format!("mongodb://127.0.0.1:{port}/?directConnection=true")
    }

    /// Of a server that wants TLS, or that only the name service knows, nothing is known.
    fn probe(&self, url: &str) -> Result<Product> {
        let unknown = Product::new(self.product(), None);
        if url.starts_with("mongodb+srv:") {
            return Ok(unknown);
        }
        if url.contains("tls=true") || url.contains("ssl=true") {
            let place = Url::parse(first_host(url), PORT)?;
            return match place.connect() {
                Ok(_) => Ok(unknown),
                Err(error) => Err(Error::failed("no connection").with_source(error)),
            };
        }
        let mut connection = connect(url)?;
        connection.ask("hello")?;
        // Some want a log-in first.
        let told = connection.ask("buildInfo");
        Ok(told
            .ok()
            .and_then(|told| named_in(&told))
            .unwrap_or(unknown))
    }

    /// It answers before it takes writes.
    fn is_ready(&self, site: &Site<'_>) -> Result<()> {
        let state = connect(&self.url(site.port()))?.ask("hello")?;
        if is_primary(&state) || awaits_initiation(&state) {
            Ok(())
        } else {
            Err(Error::failed("the node is not the primary"))
        }
    }

    /// A `mongod` waits to be told that it is a set of its own.
    fn welcome(&self, url: &str) -> Result<()> {
        let mut connection = connect(url)?;
        if awaits_initiation(&connection.ask("hello")?) {
            initiate(&mut connection)?;
        }
        let elected = || {
            let state = connection.ask("hello");
            state.is_ok_and(|state| is_primary(&state))
        };
        if wait_until(TIME_TO_ELECT, elected) {
            Ok(())
        } else {
            Err(Error::failed("the node does not become the primary"))
        }
    }
}

fn is_mongod(programs: &Path) -> bool {
    holds(programs, &[PROGRAM])
}

/// Every commit is in its journal at once where the client asks for that, whatever the durability.
fn mongod(site: &Site<'_>) -> Command {
    let mut command = site.command(PROGRAM);
    command.args(["--bind_ip", "127.0.0.1", "--nounixsocket"]);
    command.args(["--port", &site.port().to_string()]);
    command.args(["--replSet", REPLICA_SET, "--wiredTigerCacheSizeGB", "0.25"]);
    command.arg("--dbpath").arg(site.path("data"));
    if site.options().durability() == Durability::Fast {
        command.args(["--journalCommitInterval", "500"]);
    }
    command
}

fn connect(url: &str) -> Result<Connection> {
    Connection::open(&Url::parse(first_host(url), PORT)?)
}

/// Of `mongodb://one:27017,two:27017/`.
fn first_host(url: &str) -> &str {
    url.split(',').next().unwrap_or(url)
}

/// A secantusd says so, beside the version of the MongoDB that it follows.
fn named_in(told: &Document) -> Option<Product> {
    if let Some(version) = told.text("secantusVersion") {
        return Some(Product::new(secantus::PRODUCT, Some(version.into())));
    }
    let version = told.text("version")?;
    Some(Product::new("MongoDB", Some(version.into())))
}

fn is_primary(state: &Document) -> bool {
    state.flag("isWritablePrimary")
}

fn awaits_initiation(state: &Document) -> bool {
    state.flag("isreplicaset")
}

/// As a set of itself, under the port that it knows: from outside a container that is another one.
fn initiate(connection: &mut Connection) -> Result<()> {
    let told = connection.ask("getCmdLineOpts")?;
    let port = told.part("parsed").and_then(|parsed| parsed.part("net"));
    let port = port.and_then(|net| net.number("port"));
    let host = format!("127.0.0.1:{}", port.unwrap_or(PORT.into()));
    let member = Writer::new().number("_id", 0).text("host", &host);
    let members = Writer::new().part("0", member);
    let set = Writer::new()
        .text("_id", REPLICA_SET)
        .list("members", members);
    let command = Writer::new().part("replSetInitiate", set);
    connection.send(command).map(drop)
}

#[cfg(test)]
mod tests {
    use super::bson::Writer;
    use super::{first_host, named_in};

    #[test]
    fn a_server_is_not_taken_for_the_mongodb_that_it_follows() {
        let real = Writer::new().text("version", "8.0.4");
        let other = Writer::new()
            .text("version", "8.2.11")
            .text("secantusVersion", "0.5.3");
        let name = |told: Writer| named_in(&told.finish()).unwrap().to_string();
        assert_eq!(name(real), "MongoDB 8.0.4");
        assert_eq!(name(other), "secantusd (MongoDB-compatible) 0.5.3");
        assert_eq!(named_in(&Writer::new().finish()), None);
    }

    #[test]
    fn of_several_hosts_the_first_is_asked() {
        assert_eq!(first_host("mongodb://a:1,b:2/?w=1"), "mongodb://a:1");
        assert_eq!(first_host("mongodb://a:1/?w=1"), "mongodb://a:1/?w=1");
    }
}
