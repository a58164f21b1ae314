use std::fs;
use std::path::Path;

use crate::cluster::eventually;
use crate::error::Doing;
use crate::folder::tail;
use crate::mariadb::{self, client, probe};
use crate::node::Node;
use crate::server::Kind;
use crate::tools::{ask, find};
use crate::{Error, Product, Result, Server};

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
    tls: None,
    image: None,
    kind: &Galera,
    ..mariadb::SERVER
};

/// The settings that make a MariaDB a node. The requirements of replication come first.
///
/// A killed node leaves the cluster after the suspect time-out, when the others agree; the
/// keep-alive period has to be below a third of it. Shorter time-outs remove nodes that are merely
/// slow on a busy machine.
const REPLICATION: &str = "--binlog-format=ROW --default-storage-engine=InnoDB \
    --innodb-autoinc-lock-mode=2 --wsrep-on=ON --wsrep-cluster-name=idem \
    --wsrep-cluster-address=gcomm://{peers} --wsrep-node-name=node{port1} \
    --wsrep-node-address=127.0.0.1 --wsrep-sst-method=rsync \
    --wsrep-sst-receive-address=127.0.0.1:{port3} \
    --wsrep-provider-options=base_host=127.0.0.1;base_port={port1};\
    gmcast.listen_addr=tcp://127.0.0.1:{port1};ist.recv_addr=127.0.0.1:{port2};\
    gcache.size=32M;\
    evs.keepalive_period=PT0.5S;evs.inactive_check_period=PT0.5S;evs.suspect_timeout=PT2S;\
    evs.inactive_timeout=PT4S;evs.install_timeout=PT2S";

/// Makes a node start the cluster, with its own data. The others join the running nodes and get
/// missing data from one of them.
const FIRST: &str = "--wsrep-new-cluster";

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

#[derive(Debug)]
struct Galera;

impl Kind for Galera {
    fn accepts(&self, _folder: &Path) -> bool {
        provider().is_some() && find(&["rsync"], None, |_| true).is_some()
    }

    fn arguments(&self, node: &Node) -> String {
        let provider = provider().unwrap_or(PROVIDERS[0]);
        format!("{REPLICATION} --wsrep-provider={provider} {}", node.role)
    }

    /// Each of the nodes that `url` names has to answer.
    fn probe(&self, url: &str, programs: &Path) -> Result<Product> {
        let nodes = url
            .split(',')
            .map(|url| probe(SERVER.product, url, programs));
        let nodes: Vec<_> = nodes.collect::<Result<_>>()?;
        let first = nodes.into_iter().next();
        first.ok_or_else(|| Error::setting("no URL"))
    }

    fn is_ready(&self, node: &Node) -> Result<()> {
        self.check(&[node], status(node)?.size)
    }

    /// Starts one node after the other: of two nodes that join at once, one waits for longer than
    /// the other takes.
    fn begin(&self, nodes: &mut [Node]) -> Result<Product> {
        nodes[0].prepare()?;
        nodes[0].role = FIRST.into();
        let products = nodes.iter_mut().map(|node| {
            node.spawn()?;
            node.wait_ready()
        });
        let products: Vec<_> = products.collect::<Result<_>>()?;
        Ok(products[0].clone())
    }

    fn restart(&self, nodes: &mut [Node], node: usize) -> Result<()> {
        nodes[node].stop()?;
        if !goes_on(nodes)? {
            return Err(Error::failed(
                "a node cannot join: the others are no cluster; `restart_all` starts it anew",
            ));
        }
        nodes[node].role = start_at(&position(&nodes[node])?.0);
        nodes[node].restart()
    }

    fn restart_all(&self, nodes: &mut [Node]) -> Result<()> {
        if !goes_on(nodes)? {
            nodes.iter_mut().try_for_each(Node::stop)?;
            start_anew(nodes)?;
        }
        let stopped = |nodes: &[Node]| nodes.iter().position(|node| !node.is_running());
        while let Some(node) = stopped(nodes) {
            self.restart(nodes, node)?;
        }
        Ok(())
    }

    fn check(&self, running: &[&Node], size: usize) -> Result<()> {
        for node in running {
            let status = status(node)?;
            if !status.is_synced || status.size != size {
                return Err(Error::failed(format!("{} is {status:?}", node.url())));
            }
        }
        Ok(())
    }
}

/// Returns whether the running nodes are a cluster, once they have noticed which are gone: a killed
/// node has to leave before it can come back.
fn goes_on(nodes: &[Node]) -> Result<bool> {
    let running: Vec<_> = nodes.iter().filter(|node| node.is_running()).collect();
    eventually(|| {
        let said = running.iter().map(|node| status(node));
        let said: Vec<_> = said.collect::<Result<_>>()?;
        let settled = |status: &Status| status.is_synced && status.size == running.len();
        if said.iter().all(|status| !status.is_primary) {
            Ok(false)
        } else if said.iter().all(settled) {
            Ok(true)
        } else {
            Err(Error::failed("the nodes do not agree on which are there"))
        }
    })
}

/// Lets the node with the latest data start the cluster, although it does not know that it was the
/// last to leave. It also removes its peers, for which it would otherwise wait.
fn start_anew(nodes: &mut [Node]) -> Result<()> {
    let mut furthest = (0, String::new(), i64::MIN);
    for (number, node) in nodes.iter().enumerate() {
        let (text, write) = position(node)?;
        if write > furthest.2 {
            furthest = (number, text, write);
        }
        let data = node.folder.path().join("data");
        let _ = fs::remove_file(data.join("gvwstate.dat"));
        let known = fs::read_to_string(data.join("grastate.dat")).unwrap_or_default();
        let safe = known.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
        node.folder.write("data/grastate.dat", &safe)?;
    }
    let first = &mut nodes[furthest.0];
    first.role = format!("{FIRST} {}", start_at(&furthest.1));
    first.restart()
}

fn start_at(position: &str) -> String {
    format!("--wsrep-start-position={position}")
}

/// Returns the position of a stopped node's data: as the server takes it, and the number of the
/// last write, -1 without data. A killed node has it only in InnoDB; its server searches for it,
/// which takes a second.
fn position(node: &Node) -> Result<(String, i64)> {
    let mut command = node.server_command();
    let output = command.arg("--wsrep-recover").output();
    let output = output.doing(|| "cannot run mariadbd".into())?;
    let said = String::from_utf8_lossy(&output.stderr);
    position_in(&said).ok_or_else(|| {
        let said = tail(&said);
        Error::failed(format!("a node does not say how far its data goes:{said}"))
    })
}

/// Reads the identifier of the cluster's history, a colon, and the number of the last write.
fn position_in(log: &str) -> Option<(String, i64)> {
    let (_, text) = log.rsplit_once("WSREP: Recovered position: ")?;
    let text = text.split_whitespace().next()?;
    // MariaDB's own transaction number may follow after a comma.
    let (_, write) = text.split(',').next()?.rsplit_once(':')?;
    Some((text.into(), write.parse().ok()?))
}

/// The status that a node reports.
#[derive(Debug)]
struct Status {
    /// Whether it takes reads and writes and has all of the cluster's data.
    is_synced: bool,
    /// Whether it is among the majority.
    is_primary: bool,
    /// The number of nodes that it sees, including itself.
    size: usize,
}

/// Reads the status through the node's socket, as `root`: other logins may be refused in a
/// minority.
fn status(node: &Node) -> Result<Status> {
    let mut client = client(node.programs());
    node.folder.settle(&mut client);
    client.args(["--user=root", "--socket=s"]);
    client.args(["--execute", "SHOW GLOBAL STATUS LIKE 'wsrep%'"]);
    ask(&mut client, "").map(|text| status_in(&text))
}

fn status_in(text: &str) -> Status {
    let fields = || text.lines().filter_map(|line| line.split_once('\t'));
    let is = |field| fields().any(|known| known == field);
    let is_primary = is(("wsrep_cluster_status", "Primary"));
    let is_ready = is(("wsrep_ready", "ON")) && is(("wsrep_local_state_comment", "Synced"));
    let size = fields().find(|(name, _)| *name == "wsrep_cluster_size");
    Status {
        is_synced: is_ready && is_primary,
        is_primary,
        size: size.and_then(|(_, size)| size.parse().ok()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::{position_in, status_in};

    const CLUSTER: &str = "01cc980c-e5ea-11f1-b2f4-5bc8adfe3539";

    #[test]
    fn the_position_is_read_from_the_servers_log() {
        let log = format!(
            "[Note] InnoDB: started\n2026-11-21 [Note] WSREP: Recovered position: {CLUSTER}:42\n"
        );
        assert_eq!(position_in(&log), Some((format!("{CLUSTER}:42"), 42)));
        assert_eq!(position_in("[ERROR] disk on fire"), None);
    }

    #[test]
    fn a_transaction_number_behind_it_is_kept_for_the_server() {
        let log = format!("WSREP: Recovered position: {CLUSTER}:7,0-1-9");
        assert_eq!(position_in(&log), Some((format!("{CLUSTER}:7,0-1-9"), 7)));
    }

    #[test]
    fn a_node_is_synced_when_it_is_ready_in_the_majority() {
        let text = "wsrep_local_state_comment\tSynced\nwsrep_cluster_size\t3\n\
            wsrep_cluster_status\tPrimary\nwsrep_ready\tON\n";
        let status = status_in(text);
        assert!(status.is_synced && status.size == 3, "{status:?}");
        assert!(!status_in(&text.replace("Primary", "non-Primary")).is_synced);
        assert!(!status_in(&text.replace("Synced", "Donor/Desynced")).is_synced);
        assert!(!status_in("").is_synced);
    }
}
