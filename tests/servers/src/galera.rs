use std::path::Path;

use crate::mariadb::{self, client, probe};
use crate::node::Node;
use crate::server::Kind;
use crate::tools::{ask, on_path};
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
        provider().is_some() && on_path("rsync").is_some()
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
        first.ok_or_else(|| Error::failed("no URL"))
    }

    fn is_ready(&self, node: &Node) -> Result<()> {
        self.check(&[node], status(node)?.size)
    }

    /// Starts one node after the other: of two nodes that join at once, one waits for longer than
    /// the other takes. The first has its own data, and the others get theirs from it.
    fn begin(&self, nodes: &mut [Node]) -> Result<Product> {
        nodes[0].prepare()?;
        nodes[0].role = "--wsrep-new-cluster";
        let products = nodes.iter_mut().map(|node| {
            node.spawn()?;
            node.wait_ready()
        });
        let products: Vec<_> = products.collect::<Result<_>>()?;
        nodes[0].role = "";
        Ok(products[0].clone())
    }

    /// A killed node has to leave before it can come back.
    fn may_return(&self, _node: &Node, others: &[&Node]) -> Result<()> {
        self.check(others, others.len())
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

/// The status that a node reports.
#[derive(Debug)]
struct Status {
    /// Whether it takes reads and writes and has all of the cluster's data.
    is_synced: bool,
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
    ask(&mut client).map(|text| status_in(&text))
}

fn status_in(text: &str) -> Status {
    let fields = || text.lines().filter_map(|line| line.split_once('\t'));
    let is = |field| fields().any(|known| known == field);
    // Among the majority.
    let is_primary = is(("wsrep_cluster_status", "Primary"));
    let is_ready = is(("wsrep_ready", "ON")) && is(("wsrep_local_state_comment", "Synced"));
    let size = fields().find(|(name, _)| *name == "wsrep_cluster_size");
    Status {
        is_synced: is_ready && is_primary,
        size: size.and_then(|(_, size)| size.parse().ok()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::status_in;

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
