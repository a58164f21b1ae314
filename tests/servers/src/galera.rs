use std::fs;
use std::path::Path;

use crate::error::Doing;
use crate::mariadb::{self, client};
use crate::node::Node;
use crate::tools::{ask, on_path};
use crate::{Error, Result, Server};

/// The status of a node that takes reads and writes, belongs to the majority, and has all of the
/// cluster's data.
const SYNCED: &[&str] = &[
    "wsrep_ready\tON",
    "wsrep_cluster_status\tPrimary",
    "wsrep_local_state_comment\tSynced",
];

/// MariaDB Galera: a cluster of three nodes, each of which takes reads and writes; user, password
/// and database are those of MariaDB here. Its URL is the three nodes' URLs with commas between
/// them.
pub(crate) const SERVER: Server = Server {
    name: "galera",
    product: "MariaDB Galera",
    packages: &["mariadb-server", "galera-4", "rsync"],
    nodes: 3,
    // Besides the clients': for group communication, for missed writes, and for a copy of all data.
    ports: 4,
    // The requirements of replication come first. A killed node leaves the cluster after the
    // suspect time-out, when the others agree; the keep-alive period has to be below a third of it.
    // Shorter time-outs remove nodes that are merely slow on a busy machine.
    options: "--max-connections=500 --skip-log-bin \
        --binlog-format=ROW --default-storage-engine=InnoDB \
        --innodb-autoinc-lock-mode=2 --wsrep-on=ON --wsrep-cluster-name=idem \
        --wsrep-provider={provider} \
        --wsrep-cluster-address=gcomm://{peers} --wsrep-node-name=node{port1} \
        --wsrep-node-address=127.0.0.1 --wsrep-sst-method=rsync \
        --wsrep-sst-receive-address=127.0.0.1:{port3} \
        --wsrep-provider-options=base_host=127.0.0.1;base_port={port1};\
        gmcast.listen_addr=tcp://127.0.0.1:{port1};ist.recv_addr=127.0.0.1:{port2};\
        gcache.size=32M;\
        evs.keepalive_period=PT0.5S;evs.inactive_check_period=PT0.5S;evs.suspect_timeout=PT2S;\
        evs.inactive_timeout=PT4S;evs.install_timeout=PT2S",
    tls: None,
    image: None,
    accepts,
    is_ready,
    begin,
    may_return,
    recover,
    check,
    ..mariadb::SERVER
};

/// The paths of Galera's library in Debian, in the vendors' packages and in others.
const PROVIDERS: &[&str] = &[
    "/usr/lib/galera/libgalera_smm.so",
    "/usr/lib64/galera-4/libgalera_smm.so",
    "/usr/lib64/galera/libgalera_smm.so",
];

fn provider() -> Option<&'static str> {
    let mut known = PROVIDERS.iter().copied();
    known.find(|path| Path::new(path).is_file())
}

fn accepts(_folder: &Path) -> bool {
    provider().is_some() && on_path("rsync").is_some()
}

fn is_ready(node: &Node) -> Result<()> {
    has_status(node, SYNCED)
}

/// Starts one node after the other: of two nodes that join at once, one waits for longer than
/// the other takes. The first has its own data, and the others get theirs from it.
fn begin(nodes: &mut [Node]) -> Result<()> {
    nodes[0].prepare()?;
    nodes[0].role = "--wsrep-new-cluster";
    for node in nodes.iter_mut() {
        node.set("provider", provider().unwrap_or_default());
        node.spawn()?;
        node.wait_ready()?;
    }
    nodes[0].role = "";
    Ok(())
}

/// A killed node has to leave before it can come back.
fn may_return(_node: &Node, others: &[&Node]) -> Result<()> {
    check(others, others.len())
}

/// Starts the node with the latest write as a new cluster, which the others join.
fn recover(nodes: &mut [Node]) -> Result<()> {
    let positions = nodes.iter_mut().map(position);
    let positions = positions.collect::<Result<Vec<_>>>()?;
    let latest = (0..nodes.len()).max_by_key(|node| positions[*node]);
    let (before, latest) = nodes.split_at_mut(latest.unwrap_or_default());
    let Some((latest, after)) = latest.split_first_mut() else {
        return Ok(());
    };
    // The node cannot know that it has the latest write.
    let state = latest.folder.path().join("data/grastate.dat");
    let text = fs::read_to_string(&state).doing(|| format!("cannot read {}", state.display()))?;
    let text = text.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
    latest.folder.write("data/grastate.dat", &text)?;
    latest.role = "--wsrep-new-cluster";
    latest.spawn()?;
    latest.role = "";
    latest.wait_ready()?;
    for node in before.iter_mut().chain(after) {
        node.spawn()?;
        node.wait_ready()?;
    }
    Ok(())
}

/// Returns the number of the last write that the node has on disk.
fn position(node: &mut Node) -> Result<i64> {
    node.role = "--wsrep-recover";
    let mut command = node.server_command();
    node.role = "";
    let output = command.output();
    let output = output.doing(|| format!("cannot run {}", command.get_program().display()))?;
    let log = String::from_utf8_lossy(&output.stderr);
    // `WSREP: Recovered position: ` and the cluster, a colon and the number.
    let mut positions = log
        .lines()
        .filter_map(|line| line.split_once("Recovered position: "))
        .filter_map(|(_, position)| position.trim().rsplit_once(':')?.1.parse().ok());
    let number = positions.next_back();
    number.ok_or_else(|| Error::failed(format!("{}: no position in its log:\n{log}", node.url)))
}

fn check(running: &[&Node], size: usize) -> Result<()> {
    let size = format!("wsrep_cluster_size\t{size}");
    let wanted = [SYNCED, &[&size]].concat();
    running
        .iter()
        .try_for_each(|node| has_status(node, &wanted))
}

/// Checks that a node reports all of these lines. Reads them through its socket, as `root`: other
/// logins may be refused in a minority.
fn has_status(node: &Node, wanted: &[&str]) -> Result<()> {
    let mut client = client(node.programs());
    node.folder.settle(&mut client);
    client.args(["--user=root", "--socket=s"]);
    client.args(["--execute", "SHOW GLOBAL STATUS LIKE 'wsrep%'"]);
    let status = ask(&mut client)?;
    let lacks = |line: &&&str| status.lines().all(|reported| reported != **line);
    match wanted.iter().find(lacks) {
        Some(line) => Err(Error::failed(format!("{}: not {line:?}", node.url))),
        None => Ok(()),
    }
}
