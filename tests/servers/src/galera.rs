use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mariadb::{PROGRAMS, make_data, settings, url};
use crate::server::{in_sbin, on_path};
use crate::{ClusterKind, Error, Product, Result, Server, Site, Transport, greeting};

mod majority;
mod node;
mod position;
mod status;

pub(crate) use majority::Majority;
pub(crate) use node::{Node, Start};

use status::Status;

/// Where Debian, the vendors' packages and others put Galera's library.
const PROVIDERS: &[&str] = &[
    "/usr/lib/galera/libgalera_smm.so",
    "/usr/lib64/galera-4/libgalera_smm.so",
    "/usr/lib64/galera/libgalera_smm.so",
];

/// A killed node is out after the suspect time-out, when the others agree; the keep-alive period has to be below a
/// third of it. Shorter ones put out nodes that are merely slow on a busy machine.
const TIMEOUTS: &str = "evs.keepalive_period=PT0.5S;evs.inactive_check_period=PT0.5S;\
    evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.install_timeout=PT2S";

/// MariaDB Galera: a cluster of three nodes, each of which takes reads and writes; user, password and database are
/// MariaDB's here. Its URL is the three nodes' URLs with commas between them.
#[derive(Clone, Copy, Debug)]
pub struct Galera;

impl Server for Galera {
    fn name(&self) -> &'static str {
        "galera"
    }

    fn product(&self) -> &'static str {
        "MariaDB Galera"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["mariadb-server", "galera-4", "rsync"]
    }

    fn account(&self) -> &'static str {
        "mysql"
    }

    fn programs(&self) -> Option<PathBuf> {
        provider()?;
        on_path(&["rsync"])?;
        on_path(PROGRAMS).or_else(|| in_sbin(PROGRAMS))
    }

    fn cluster(&self) -> Option<ClusterKind> {
        Some(ClusterKind::Galera)
    }

    fn nodes(&self) -> usize {
        3
    }

    /// The first node's data is made; the others get theirs from it when they join.
    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        if site.options().transport() == Transport::Tls {
            return Err(Error::setting("galera is started without TLS only"));
        }
        match node(site)?.start {
            Start::Anew => make_data(site),
            Start::Join => site.make_folder("data").map(drop),
        }
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = mariadbd(site);
        if let Some(node) = site.node() {
            match node.start {
                Start::Anew => command.arg("--wsrep-new-cluster"),
                Start::Join => &mut command,
            };
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
    fn probe(&self, url: &str) -> Result<Product> {
        let versions: Result<Vec<_>> = url.split(',').map(greeting::version).collect();
        let version = versions?.first().map(|version| greeting::number(version));
        Ok(Product::new(self.product(), version))
    }

    fn is_ready(&self, site: &Site<'_>) -> Result<()> {
        let status = Status::ask(site)?;
        if status.is_synced() {
            Ok(())
        } else {
            Err(Error::failed(format!("the node is not synced: {status:?}")))
        }
    }
}

fn node<'a>(site: &'a Site<'_>) -> Result<&'a Node> {
    site.node()
        .ok_or_else(|| Error::failed("galera is started as a cluster only"))
}

/// The server, but not how it starts.
fn mariadbd(site: &Site<'_>) -> Command {
    let mut command = site.command("mariadbd");
    command.args(settings(site));
    command.args(site.node().map(replication).unwrap_or_default());
    command
}

fn provider() -> Option<&'static str> {
    PROVIDERS
        .iter()
        .copied()
        .find(|path| Path::new(path).is_file())
}

/// Everything that makes a MariaDB a node. What replication demands of it stands first.
fn replication(node: &Node) -> Vec<OsString> {
    let [group, state, snapshot] = [node.group(), node.state(), node.snapshot()];
    let provider = provider().unwrap_or(PROVIDERS[0]);
    [
        "--binlog-format=ROW".into(),
        "--default-storage-engine=InnoDB".into(),
        "--innodb-autoinc-lock-mode=2".into(),
        "--wsrep-on=ON".into(),
        format!("--wsrep-provider={provider}"),
        "--wsrep-cluster-name=idem".into(),
        format!("--wsrep-cluster-address=gcomm://{}", node.peers),
        format!("--wsrep-node-name=node{}", node.number),
        "--wsrep-node-address=127.0.0.1".into(),
        "--wsrep-sst-method=rsync".into(),
        format!("--wsrep-sst-receive-address=127.0.0.1:{snapshot}"),
        format!(
            "--wsrep-provider-options=base_host=127.0.0.1;base_port={group};\
             gmcast.listen_addr=tcp://127.0.0.1:{group};ist.recv_addr=127.0.0.1:{state};\
             gcache.size=32M;{TIMEOUTS}"
        ),
    ]
    .map(Into::into)
    .into()
}

#[cfg(test)]
mod tests {
    use super::{Galera, Node, replication};
    use crate::Server;

    #[test]
    fn a_node_is_told_its_own_ports_and_all_peers() {
        let mut nodes = Node::group_of(3).unwrap();
        let node = nodes.remove(1);
        let options: Vec<_> = replication(&node)
            .into_iter()
            .map(|option| option.into_string().unwrap())
            .collect();
        let peers = format!("gcomm://127.0.0.1:{}", nodes[0].group());
        assert!(options.iter().any(|option| option.contains(&peers)));
        let own = format!("base_port={};", node.group());
        assert!(options.iter().any(|option| option.contains(&own)));
    }

    #[test]
    fn every_node_of_a_url_has_to_answer() {
        assert!(
            Galera
                .probe("mysql://127.0.0.1:1,mysql://127.0.0.1:2")
                .is_err()
        );
    }
}
