use std::path::PathBuf;
use std::time::Duration;

use crate::error::Doing;
use crate::folder::{Folder, NOBODY, is_root};
use crate::node::{Node, Runner};
use crate::process::retry;
use crate::watchdog::Watchdog;
use crate::{Error, Options, Product, Result, Server};

const TIME_TO_SETTLE: Duration = Duration::from_secs(60);

/// A private cluster whose nodes can be killed and started again one by one. Nodes are numbered
/// from 0.
///
/// Dropping it ends the nodes and removes their data.
#[derive(Debug)]
pub struct Cluster {
    server: &'static Server,
    nodes: Vec<Node>,
    folder: Folder,
    /// Ends the nodes; `None` once they are detached.
    watchdog: Option<Watchdog>,
}

impl Cluster {
    pub(crate) fn start(
        server: &'static Server,
        runner: &Runner,
        options: &Options,
    ) -> Result<Self> {
        // Most servers refuse to run as root; the socket of a container engine may need it.
        let runs_programs = matches!(runner, Runner::Programs(_));
        let owner = (runs_programs && is_root()).then_some(NOBODY);
        let folder = Folder::create(server.name, owner)?;
        let mut cluster = Self {
            server,
            nodes: Vec::new(),
            watchdog: Some(Watchdog::start(folder.path(), server.end_signal())?),
            folder,
        };
        for number in 0..server.nodes {
            let node = Node::new(server, runner, options, &cluster.folder, number)?;
            cluster.nodes.push(node);
        }
        let peers = cluster.nodes.iter();
        let peers: Vec<_> = peers.map(|node| node.fill("127.0.0.1:{port1}")).collect();
        for node in &mut cluster.nodes {
            node.set("peers", peers.join(","));
        }
        (server.begin)(&mut cluster.nodes)?;
        Ok(cluster)
    }

    /// Returns the number of nodes, running or not.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the URL of that node for clients. It is the same after a restart.
    ///
    /// # Panics
    ///
    /// Panics if there is no node with that number.
    pub fn url(&self, node: usize) -> &str {
        &self.nodes[node].url
    }

    /// Returns all nodes' URLs with commas between them, as in `IDEM_GALERA_URL`.
    pub(crate) fn urls(&self) -> String {
        let urls: Vec<_> = self.nodes.iter().map(|node| &*node.url).collect();
        urls.join(",")
    }

    /// Returns the product that answers there.
    pub fn product(&self) -> &Product {
        &self.first().product
    }

    /// Kills a node with SIGKILL. The others continue without it after two to three seconds. In
    /// Galera they have to be the majority, and their writes wait until then. In Redis the killed
    /// master's replica takes over, and writes of its keys fail until then.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        self.node(node)?.kill()
    }

    /// Freezes a node (SIGSTOP): it keeps its ports and connections and answers nothing.
    pub fn freeze(&mut self, node: usize) -> Result<()> {
        self.node(node).map(Node::freeze)
    }

    /// Lets a frozen node continue.
    pub fn thaw(&mut self, node: usize) -> Result<()> {
        self.node(node).map(Node::thaw)
    }

    /// Restarts a node on the same port, stopping it first if it runs, and waits until it has
    /// joined the others and has their data.
    ///
    /// Galera: fails if the others are no majority. Redis: a master with a running replica waits
    /// for that replica's takeover and comes back as its replica. A master without one comes back
    /// with its data on disk, which in a fast cluster is nothing. Patroni: another node has to lead.
    pub fn restart(&mut self, node: usize) -> Result<()> {
        self.node(node)?.stop()?;
        let may_return = self.server.may_return;
        let others = running(&self.nodes);
        eventually(|| may_return(&self.nodes[node], &others))?;
        let size = others.len() + 1;
        self.nodes[node].restart()?;
        self.wait_for_size(size)
    }

    /// Waits until every running node takes requests, has the others' data and sees exactly `size`
    /// nodes, including itself. Frozen nodes do not count as running.
    pub fn wait_for_size(&self, size: usize) -> Result<()> {
        wait_for_size(&self.nodes, size)
    }

    /// Starts a killed node on the same port and data, and does not wait for it: while no other node
    /// runs, it may be one that must not lead.
    pub fn start_again(&mut self, node: usize) -> Result<()> {
        self.node(node)?.stop()?;
        self.nodes[node].spawn()
    }

    /// Starts the nodes again on their data after all of them have ended, and waits until they are a
    /// cluster. Galera: the node with the latest write comes first, as its manual says of a crash of
    /// all nodes (<https://galeracluster.com/library/documentation/crash-recovery.html>).
    pub fn recover(&mut self) -> Result<()> {
        for node in &mut self.nodes {
            node.stop()?;
        }
        (self.server.recover)(&mut self.nodes)?;
        self.wait_for_size(self.nodes.len())
    }

    /// Returns the running nodes with their numbers.
    pub(crate) fn running(&self) -> impl Iterator<Item = (usize, &Node)> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.is_running())
    }

    fn node(&mut self, node: usize) -> Result<&mut Node> {
        let count = self.nodes.len();
        let missing = || Error::failed(format!("there is no node {node}, only 0..{count}"));
        self.nodes.get_mut(node).ok_or_else(missing)
    }

    pub(crate) fn first(&self) -> &Node {
        &self.nodes[0]
    }

    /// Lets the nodes continue to run. Returns their folder.
    pub(crate) fn detach(mut self) -> PathBuf {
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
        self.folder.path().into()
    }
}

/// Also after a start that failed half-way.
impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(watchdog) = self.watchdog.take() {
            self.nodes.iter_mut().for_each(Node::thaw);
            watchdog.end(|| self.nodes.iter_mut().for_each(Node::reap));
        }
    }
}

/// Does the same as [`Cluster::wait_for_size`].
pub(crate) fn wait_for_size(nodes: &[Node], size: usize) -> Result<()> {
    eventually(|| (nodes[0].server.check)(&running(nodes), size))
        .doing(|| format!("the cluster did not become one of {size} nodes"))
}

fn running(nodes: &[Node]) -> Vec<&Node> {
    nodes.iter().filter(|node| node.is_running()).collect()
}

/// Retries until it succeeds, for a minute at most.
pub(crate) fn eventually<T>(done: impl FnMut() -> Result<T>) -> Result<T> {
    retry(TIME_TO_SETTLE, done)
}

#[cfg(test)]
mod tests {
    use super::Cluster;
    use crate::folder::{NOBODY, is_root};
    use crate::node::Runner;
    use crate::{Error, Options, Server};

    /// Fails with its reason.
    static BROKEN: Server = Server {
        programs: &["sh"],
        files: &[("run", "id -u; echo the disk is on fire >&2; exit 3")],
        arguments: "run",
        ..Server::new("broken", |_, _, _| Err(Error::failed("does not answer")))
    };

    #[test]
    fn a_server_that_does_not_start_shows_its_log_and_does_not_run_as_root() {
        let runner = Runner::Programs("/bin".into());
        let started = Cluster::start(&BROKEN, &runner, &Options::new());
        let error = started.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("\n    the disk is on fire"), "{error}");
        if is_root() {
            let line = format!("\n    {NOBODY}\n");
            assert!(error.contains(&line), "{error}");
        }
    }
}
