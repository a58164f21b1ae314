use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use bson::{Document, doc};

use crate::error::Doing;
use crate::node::Node;
use crate::server::Image;
use crate::tools::connect;
use crate::{Error, Product, Result, Server, secantus};

const PORT: u16 = 27017;
/// Connects to that node only: the members of a set may use names that a client cannot reach, as
/// with the port of a container.
pub(crate) const URL: &str = "mongodb://127.0.0.1:{port}/?directConnection=true";

/// MongoDB as a replica set of one, because of transactions; no login. If neither an image nor a
/// `mongod` is available, a server that speaks its protocol is built from the Rust registry: the
/// product says which one answers. Every commit is in the journal at once if the client requests
/// that, whatever the durability.
pub(crate) const SERVER: Server = Server {
    product: "MongoDB",
    programs: &["mongod"],
    stand_in: Some(&secantus::SERVER),
    url: URL,
    arguments: "--bind_ip 127.0.0.1 --nounixsocket --port {port} --dbpath {folder}/data",
    options: "--replSet idem --wiredTigerCacheSizeGB 0.25",
    fast: "--journalCommitInterval 500",
    image: Some(Image::new(PORT)),
    install: |_, progress| secantus::BUILT.install(progress),
    is_ready,
    ..Server::new("mongo", probe)
};

/// For a server that requires TLS, or is known only by DNS, this finds nothing else.
pub(crate) fn probe(_server: &Server, url: &str, _programs: &Path) -> Result<Product> {
    let unknown = Product::new(SERVER.product, None);
    if url.starts_with("mongodb+srv:") {
        return Ok(unknown);
    }
    // Of `mongodb://one:27017,two:27017/` the first host has to answer.
    let mut stream = connect(url.split(',').next().unwrap_or(url), PORT)?;
    if url.contains("tls=true") || url.contains("ssl=true") {
        return Ok(unknown);
    }
    ask(&mut stream, doc! { "hello": 1 })?;
    // Some servers require a login first.
    let returned = ask(&mut stream, doc! { "buildInfo": 1 });
    let product = returned.ok().and_then(|returned| named_in(&returned));
    Ok(product.unwrap_or(unknown))
}

/// The server answers before it takes writes. A `mongod` waits for the command that makes it a
/// replica set.
pub(crate) fn is_ready(node: &Node) -> Result<()> {
    let mut stream = connect(&node.url, PORT)?;
    let state = ask(&mut stream, doc! { "hello": 1 })?;
    let is = |flag| state.get_bool(flag).unwrap_or(false);
    if is("isWritablePrimary") {
        return Ok(());
    }
    if is("isreplicaset") {
        let host = format!("127.0.0.1:{}", node.port(0));
        let set = doc! { "_id": "idem", "members": [{ "_id": 0, "host": host }] };
        ask(&mut stream, doc! { "replSetInitiate": set })?;
    }
    Err(Error::failed("the node is not the primary"))
}

/// A secantusd names itself, beside the version of the MongoDB that it follows.
fn named_in(returned: &Document) -> Option<Product> {
    let named = |field, name| Some(Product::new(name, Some(returned.get_str(field).ok()?)));
    named("secantusVersion", secantus::SERVER.product).or_else(|| named("version", SERVER.product))
}

/// Runs one command on the database `admin`: one document in a frame. MongoDB's shell is in no
/// package registry, and its driver is larger than everything else here.
/// <https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/>
fn ask(stream: &mut TcpStream, mut command: Document) -> Result<Document> {
    const OP_MSG: i32 = 2013;
    /// The header, four bytes of flags, and a byte that says that one document follows.
    const HEAD: usize = 21;
    let what = || "no MongoDB answers".to_owned();
    command.insert("$db", "admin");
    let body = command.to_vec().doing(what)?;
    let length = i32::try_from(HEAD + body.len()).unwrap_or(i32::MAX);
    let mut message = [length, 1, 0, OP_MSG, 0].map(i32::to_le_bytes).concat();
    message.push(0);
    message.extend(body);
    stream.write_all(&message).doing(what)?;
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).doing(what)?;
    let answer = Document::from_reader(stream).doing(what)?;
    let ok = answer.get("ok").map(ToString::to_string);
    if head[12..16] == OP_MSG.to_le_bytes() && ok.is_some_and(|ok| ok.starts_with('1')) {
        return Ok(answer);
    }
    let reason = answer
        .get_str("errmsg")
        .unwrap_or("refused without a reason");
    Err(Error::failed(reason))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::named_in;

    #[test]
    fn a_server_is_not_taken_for_the_mongodb_that_it_follows() {
        let name = |returned| named_in(&returned).unwrap().to_string();
        assert_eq!(name(doc! { "version": "8.0.4" }), "MongoDB 8.0.4");
        let other = doc! { "version": "8.2.11", "secantusVersion": "0.5.3" };
        assert_eq!(name(other), "secantusd (MongoDB-compatible) 0.5.3");
        assert_eq!(named_in(&doc! {}), None);
    }
}
