use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Doing;
use crate::node::Node;
use crate::postgres::{self, psql};
use crate::server::Setting;
use crate::tools::{connect, find, holds, run, tool};
use crate::unpacked::Unpacked;
use crate::{Cluster, Error, Product, Result, Server, packages};

/// PostgreSQL with a standby, which Patroni starts, promotes and brings back, for tests only. Their
/// etcd is at [`Options::with_upstream`](crate::Options::with_upstream).
///
/// Start it with [`start_private_cluster`](crate::start_private_cluster)`("patroni", …)`: each node
/// is a Patroni and its PostgreSQL, at whose URL the database is that of a private PostgreSQL.
/// Settings are those of Patroni's dynamic configuration, such as `synchronous_mode`, which is on
/// here. Nothing is forced to disk, whatever the durability.
#[derive(Clone, Copy, Debug)]
pub struct Patroni;

impl Patroni {
    /// How long the leader's lock outlives its last renewal, in seconds: the shortest time that
    /// Patroni's documentation allows. A standby is promoted so long after the leader was killed.
    pub const TTL: u64 = 20;

    /// Returns the running node that leads and takes writes, by its REST API; `None` while there is
    /// none.
    pub fn leader(cluster: &Cluster) -> Option<usize> {
        let mut nodes = cluster.running();
        let found = nodes.find(|(_, node)| leads(node).is_ok());
        found.map(|(number, _)| number)
    }
}

/// What Patroni needs besides PostgreSQL. An installed one would start at the machine's next boot.
pub(crate) const UNPACKED: Unpacked = Unpacked {
    name: "patroni",
    suites: "bookworm",
    packages: "patroni python3-etcd etcd-server etcd-client",
};

/// The Python runs from its own folder, with the packages beside it. PostgreSQL is this machine's.
pub(crate) const SERVER: Server = Server {
    product: "Patroni",
    packages: &["patroni", "python3-etcd"],
    unpacked: Some(UNPACKED),
    cached: Some("patroni/usr/bin"),
    programs: &["python3", "patroni"],
    upstream: Some("etcd"),
    nodes: 2,
    // Besides PostgreSQL's: for Patroni's REST API.
    ports: 2,
    url: postgres::SERVER.url,
    files: &[("patroni.yml", CONFIGURATION)],
    arguments: "-m patroni {folder}/patroni.yml",
    setting: Setting::Line("    {name}: {value}\n"),
    install: packages::unpack_for,
    is_ready,
    begin,
    check,
    ..Server::new("patroni", probe)
};

/// The dynamic configuration comes last, so that settings can follow it. The loop runs more often
/// than by default, within the rule `loop_wait + 2 * retry_timeout <= ttl`
/// (<https://patroni.readthedocs.io/en/latest/dynamic_configuration.html>). Patroni itself uses the
/// socket: all connections to the port are those of clients and of the standby.
const CONFIGURATION: &str = r"
scope: idem
name: node{port}
restapi:
  listen: 127.0.0.1:{port1}
  connect_address: 127.0.0.1:{port1}
etcd3:
  host: {host}:{host_port}
postgresql:
  listen: 127.0.0.1:{port}
  connect_address: 127.0.0.1:{port}
  data_dir: '{folder}/data'
  bin_dir: '{postgres}'
  pgpass: '{folder}/pgpass'
  basebackup: [checkpoint: fast, no-sync]
  use_unix_socket: true
  use_unix_socket_repl: true
  authentication:
    superuser: {username: postgres}
    replication: {username: postgres}
  parameters:
    unix_socket_directories: '{folder}'
bootstrap:
  initdb: [auth: trust, encoding: UTF8, locale: C, no-sync]
  pg_hba:
  - local all all trust
  - local replication all trust
  - host all all 127.0.0.1/32 trust
  - host replication all 127.0.0.1/32 trust
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: {max_connections: 300, wal_log_hints: 'on', fsync: 'off'}
";

/// A node that comes back answers for a moment, before its data is rewound.
fn probe(server: &Server, url: &str, programs: &Path) -> Result<Product> {
    let version = |url: &str| psql(url, programs, "SHOW server_version");
    let postgres = version(url).or_else(|_| version(&url.replace("/idem", "/postgres")))?;
    let postgres = Product::returned(postgres::SERVER.product, &postgres);
    let version = run(tool(programs, &["python3"]).args(["-m", "patroni", "--version"]))?;
    let version = version.split_whitespace().last();
    let product = format!("{postgres}, {}", server.product);
    Ok(Product::new(&product, version))
}

/// The leader creates the database at the first start, and the standby gets it from there.
fn is_ready(node: &Node) -> Result<()> {
    if psql(&node.url, node.programs(), "SELECT 1").is_ok() {
        return Ok(());
    }
    leads(node)?;
    postgres::is_ready(node)
}

/// The programs of PostgreSQL that Patroni runs.
const POSTGRES: &[&str] = &[
    "postgres",
    "initdb",
    "pg_basebackup",
    "pg_controldata",
    "pg_ctl",
    "pg_isready",
    "pg_rewind",
];

/// Returns the folder with all of them: that of a server alone may have only some.
fn postgres() -> Option<PathBuf> {
    let server = postgres::SERVER;
    let own = server.programs().filter(|folder| holds(folder, POSTGRES));
    own.or_else(|| find(POSTGRES, server.folder, |_| true))
}

/// Starts one node after the other: the second one gets its data from the first.
fn begin(nodes: &mut [Node]) -> Result<()> {
    let missing = || Error::missing(format!("no folder has all of {}", POSTGRES.join(", ")));
    let postgres = postgres().ok_or_else(missing)?;
    for node in nodes.iter_mut() {
        node.set("postgres", postgres.display().to_string());
        node.launch()?;
        node.wait_ready()?;
    }
    let nodes: Vec<_> = nodes.iter().collect();
    crate::cluster::eventually(|| check(&nodes, nodes.len()))
}

/// One node has to lead, and all others stream from it. Where commits wait for one, Patroni must
/// have noted which: it promotes no other.
fn check(running: &[&Node], size: usize) -> Result<()> {
    let leader = running.iter().find(|node| leads(node).is_ok());
    let leader = leader.ok_or_else(|| Error::failed("no node leads"))?;
    let sql = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
    let streams = psql(&leader.url, leader.programs(), sql)?;
    let followers = (size - 1).to_string();
    if running.len() != size || streams.trim() != followers {
        let what = format!("{} streams, not {followers}", streams.trim());
        return Err(Error::failed(what));
    }
    let noted = synchronous(&get(leader, "cluster")?)?;
    if size > 1 && is_synchronous(leader) && noted == 0 {
        return Err(Error::failed("no standby is noted as synchronous"));
    }
    Ok(())
}

fn is_synchronous(node: &Node) -> bool {
    let mut settings = node.options.settings.iter().rev();
    let found = settings.find(|(name, _)| name == "synchronous_mode");
    found.is_none_or(|(_, value)| value != "false")
}

/// An error unless the node leads and takes writes.
fn leads(node: &Node) -> Result<()> {
    let status = get(node, "primary")?;
    match takes_writes(&status)? {
        true => Ok(()),
        false => Err(Error::failed("the leader is still being promoted")),
    }
}

/// Tells whether the answer to `/primary` is that of a PostgreSQL that takes writes. Its status is
/// 200 as soon as the node holds the leader's lock, while PostgreSQL may still be a replica. The
/// role of one that was promoted is `master`, and `primary` since Patroni 4.
fn takes_writes(status: &str) -> Result<bool> {
    let status = parse(status)?;
    let is_primary = status["role"] == "master" || status["role"] == "primary";
    Ok(is_primary && status["state"] == "running")
}

fn parse(answer: &str) -> Result<Value> {
    let what = || "the REST API of Patroni does not answer".to_owned();
    serde_json::from_str(answer).doing(what)
}

/// Returns the number of synchronous standbys in the answer to `/cluster`.
fn synchronous(cluster: &str) -> Result<usize> {
    let cluster = parse(cluster)?;
    let members = cluster["members"].as_array().into_iter().flatten();
    Ok(members
        .filter(|member| member["role"] == "sync_standby")
        .count())
}

/// Returns the answer of a node's REST API; an error unless its status is 200. Patroni's own client
/// takes half a second to start.
fn get(node: &Node, path: &str) -> Result<String> {
    let what = || format!("no answer to /{path}");
    let url = format!("http://127.0.0.1:{}", node.port(1));
    let mut stream = connect(&url, 0)?;
    let request = format!("GET /{path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).doing(what)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).doing(what)?;
    let body = body(&answer).ok_or_else(|| Error::failed(format!("/{path}: not 200")))?;
    Ok(body.to_owned())
}

/// Returns the body of an answer whose status is 200.
fn body(answer: &str) -> Option<&str> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?;
    (status == "200").then_some(body)
}

#[cfg(test)]
mod tests {
    use super::{CONFIGURATION, Patroni, body, synchronous, takes_writes};

    #[test]
    fn only_an_answer_of_success_has_a_body() {
        assert_eq!(body("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"), Some("{}"));
        assert_eq!(body("HTTP/1.0 503 Service Unavailable\r\n\r\n{}"), None);
        assert_eq!(body("HTTP/1.0 200 OK\r\n"), None);
    }

    #[test]
    fn synchronous_standbys_are_told_from_others() {
        let members = r#"{"members": [{"role": "leader"}, {"role": "sync_standby"}]}"#;
        assert_eq!(synchronous(members).unwrap(), 1);
        let members = r#"{"members": [{"role": "leader"}, {"role": "replica"}]}"#;
        assert_eq!(synchronous(members).unwrap(), 0);
        assert!(synchronous("").is_err());
    }

    #[test]
    fn a_leader_that_is_still_promoted_takes_no_writes() {
        let takes = |state: &str, role: &str| {
            takes_writes(&format!(r#"{{"state": "{state}", "role": "{role}"}}"#)).unwrap()
        };
        assert!(takes("running", "master"));
        assert!(takes("running", "primary"));
        assert!(!takes("running", "replica"));
        assert!(!takes("starting", "master"));
        assert!(takes_writes("").is_err());
    }

    #[test]
    fn the_lock_lasts_as_long_as_it_says() {
        let line = format!("    ttl: {}\n", Patroni::TTL);
        assert!(CONFIGURATION.contains(&line));
    }
}
