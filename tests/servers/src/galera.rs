use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Doing;
use crate::folder::tail;
use crate::group::{Group, begin_each, eventually};
use crate::local::Local;
use crate::mariadb::{client, make_data, probe, settings, url};
use crate::node::Node;
use crate::port::Reservation;
use crate::server::{ClusterKind, Kind};
use crate::tools::{ask, find};
use crate::{Error, Product, Result, Server, Site};

/// The paths of Galera's library in Debian, in the vendors' packages and in others.
const PROVIDERS: &[&str] = &[
    "/usr/lib/galera/libgalera_smm.so",
    "/usr/lib64/galera-4/libgalera_smm.so",
    "/usr/lib64/galera/libgalera_smm.so",
];

/// A killed node leaves the cluster after the suspect time-out, when the others agree; the
/// keep-alive period has to be below a third of it. Shorter time-outs remove nodes that are merely
/// slow on a busy machine.
const TIMEOUTS: &str = "evs.keepalive_period=PT0.5S;evs.inactive_check_period=PT0.5S;\
    evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.install_timeout=PT2S";

/// MariaDB Galera: a cluster of three nodes, each of which takes reads and writes; user, password
/// and database are those of MariaDB here. Its URL is the three nodes' URLs with commas between
/// them.
pub(crate) static SERVER: Server = Server {
    product: "MariaDB Galera",
    packages: &["mariadb-server", "galera-4", "rsync"],
    programs: &["mariadbd"],
    accounts: &["mysql"],
    cluster: ClusterKind::Galera,
    nodes: 3,
    ..Server::new("galera", &Galera)
};

#[derive(Debug)]
struct Galera;

impl Kind for Galera {
    fn programs(&self, server: &Server) -> Option<PathBuf> {
        provider()?;
        find(&["rsync"])?;
        find(server.programs)
    }

    /// Creates the first node's data; the others get theirs from it when they join.
    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        match site.node.map(|node| node.is_first) {
            Some(true) => make_data(site),
            _ => site.make_folder("data"),
        }
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = mariadbd(site);
        if let Some(node) = site.node {
            if node.is_first {
                command.arg("--wsrep-new-cluster");
            }
            if let Some(position) = &node.position {
                command.arg(format!("--wsrep-start-position={position}"));
            }
        }
        command
    }

    fn url(&self, port: u16) -> String {
        url(port)
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

    fn is_ready(&self, site: &Site<'_>) -> Result<()> {
        let status = status(site)?;
        if status.is_synced() {
            return Ok(());
        }
        Err(Error::failed(format!("the node is not synced: {status:?}")))
    }
}

/// Returns the server command, without the options of a start.
fn mariadbd(site: &Site<'_>) -> Command {
    let mut command = site.command(&["mariadbd"]);
    command.args(settings(site));
    command.args(site.node.map(replication).unwrap_or_default());
    command
}

fn provider() -> Option<&'static str> {
    let mut known = PROVIDERS.iter().copied();
    known.find(|path| Path::new(path).is_file())
}

/// Returns the settings that make a MariaDB a node. The requirements of replication come first.
fn replication(node: &Node) -> Vec<String> {
    let [group, state, snapshot] = node.ports.each_ref().map(Reservation::port);
    let provider = provider().unwrap_or(PROVIDERS[0]);
    [
        "--binlog-format=ROW".into(),
        "--default-storage-engine=InnoDB".into(),
        "--innodb-autoinc-lock-mode=2".into(),
        "--wsrep-on=ON".into(),
        format!("--wsrep-provider={provider}"),
        "--wsrep-cluster-name=idem".into(),
        format!("--wsrep-cluster-address=gcomm://{}", node.peers),
        format!("--wsrep-node-name=node{group}"),
        "--wsrep-node-address=127.0.0.1".into(),
        "--wsrep-sst-method=rsync".into(),
        format!("--wsrep-sst-receive-address=127.0.0.1:{snapshot}"),
        format!(
            "--wsrep-provider-options=base_host=127.0.0.1;base_port={group};\
             gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{state};\
             gcache.size=32M;{TIMEOUTS}"
        ),
    ]
    .into()
}

/// Nodes that are a cluster as long as most of them see each other.
#[derive(Debug)]
pub(crate) struct Majority;

impl Group for Majority {
    /// Starts one node after the other: of two nodes that join at once, one waits for longer than
    /// the other takes.
    fn begin(&self, nodes: &mut [Local]) -> Result<Product> {
        for (local, node) in nodes.iter_mut().zip(Node::group_of(SERVER.nodes)?) {
            local.node = Some(node);
        }
        begin_each(nodes)
    }

    fn restart(&self, nodes: &mut [Local], node: usize) -> Result<()> {
        nodes[node].stop()?;
        if !goes_on(nodes)? {
            return Err(Error::failed(
                "a node cannot join: the others are no cluster; `restart_all` starts it anew",
            ));
        }
        let position = position(&nodes[node].site())?.0;
        restart_at(&mut nodes[node], position, false)
    }

    fn restart_all(&self, nodes: &mut [Local]) -> Result<()> {
        if !goes_on(nodes)? {
            nodes.iter_mut().try_for_each(Local::stop)?;
            start_anew(nodes)?;
        }
        let stopped = |nodes: &[Local]| nodes.iter().position(|local| !local.is_running());
        while let Some(node) = stopped(nodes) {
            self.restart(nodes, node)?;
        }
        Ok(())
    }

    fn check(&self, running: &[&Local], size: usize) -> Result<()> {
        for local in running {
            let status = status(&local.site())?;
            if !status.is_synced() || status.size != size {
                return Err(Error::failed(format!("{} is {status:?}", local.url())));
            }
        }
        Ok(())
    }
}

/// Returns whether the running nodes are a cluster, once they have noticed which are gone: a killed
/// node has to leave before it can come back.
fn goes_on(nodes: &[Local]) -> Result<bool> {
    let running: Vec<_> = nodes.iter().filter(|node| node.is_running()).collect();
    eventually(|| {
        let said = running.iter().map(|local| status(&local.site()));
        let said: Vec<_> = said.collect::<Result<_>>()?;
        let settled = |status: &Status| status.is_synced() && status.size == running.len();
        if said.iter().all(|status| !status.is_primary()) {
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
fn start_anew(nodes: &mut [Local]) -> Result<()> {
    let mut furthest = (0, String::new(), i64::MIN);
    for (node, local) in nodes.iter().enumerate() {
        let site = local.site();
        let (text, write) = position(&site)?;
        if write > furthest.2 {
            furthest = (node, text, write);
        }
        let _ = fs::remove_file(site.path("data/gvwstate.dat"));
        let state = "data/grastate.dat";
        let known = fs::read_to_string(site.path(state)).unwrap_or_default();
        let safe = known.replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1");
        site.write(state, &safe)?;
    }
    restart_at(&mut nodes[furthest.0], furthest.1, true)
}

fn restart_at(local: &mut Local, position: String, is_first: bool) -> Result<()> {
    if let Some(node) = &mut local.node {
        node.is_first = is_first;
        node.position = Some(position);
    }
    local.restart()
}

/// Returns the position of a stopped node's data: as the server takes it, and the number of the
/// last write, -1 without data. A killed node has it only in InnoDB; its server searches for it,
/// which takes a second.
fn position(site: &Site<'_>) -> Result<(String, i64)> {
    let mut command = mariadbd(site);
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
#[derive(Debug, Default)]
struct Status {
    ready: String,
    state: String,
    cluster: String,
    /// The number of nodes that it sees, including itself.
    size: usize,
}

impl Status {
    /// Returns whether it takes reads and writes and has all of the cluster's data.
    fn is_synced(&self) -> bool {
        self.ready == "ON" && self.state == "Synced" && self.is_primary()
    }

    /// Returns whether it is among the majority.
    fn is_primary(&self) -> bool {
        self.cluster == "Primary"
    }
}

/// Reads the status through the node's socket, as `root`: other logins may be refused in a
/// minority.
fn status(site: &Site<'_>) -> Result<Status> {
    let mut client = client(site.programs);
    site.settle(&mut client);
    client
        .arg("--user=root")
        .arg("--socket")
        .arg(site.path("s"));
    client.args(["--execute", "SHOW GLOBAL STATUS LIKE 'wsrep%'"]);
    ask(&mut client, "").map(|text| status_in(&text))
}

fn status_in(text: &str) -> Status {
    let mut status = Status::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once('\t')) {
        match name {
            "wsrep_ready" => status.ready = value.into(),
            "wsrep_local_state_comment" => status.state = value.into(),
            "wsrep_cluster_status" => status.cluster = value.into(),
            "wsrep_cluster_size" => status.size = value.parse().unwrap_or_default(),
            _ => {}
        }
    }
    status
}

#[cfg(test)]
mod tests {
    use super::{position_in, replication, status_in};
    use crate::node::Node;

    const CLUSTER: &str = "01cc980c-e5ea-11f1-b2f4-5bc8adfe3539";

    #[test]
    fn a_node_has_its_own_ports_and_all_peers_and_the_first_starts_the_cluster() {
        let nodes = Node::group_of(3).unwrap();
        assert!(nodes[0].is_first && !nodes[1].is_first && !nodes[2].is_first);
        let options = replication(&nodes[1]).join(" ");
        for node in &nodes {
            let address = format!("127.0.0.1:{}", node.ports[0].port());
            assert!(options.contains(&address), "{options}");
        }
        let own = format!("base_port={};", nodes[1].ports[0].port());
        assert!(options.contains(&own), "{options}");
    }

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
        assert!(status.is_synced() && status.size == 3, "{status:?}");
        assert!(!status_in(&text.replace("Primary", "non-Primary")).is_synced());
        assert!(!status_in(&text.replace("Synced", "Donor/Desynced")).is_synced());
        assert!(!status_in("").is_synced());
    }
}
