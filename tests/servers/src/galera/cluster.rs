use std::path::Path;
use std::time::{Duration, Instant};

use super::position::Position;
use super::status::Status;
use super::{Node, Start};
use crate::folder::Folder;
use crate::local::Local;
use crate::site::Account;
use crate::watchdog::Watchdog;
use crate::{Error, Identity, Lifetime, Options, Product, Result, Server};

const TIME_TO_SETTLE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// A cluster of our own whose nodes can be killed and started again one by one. Nodes are numbered from 0.
///
/// Dropping it ends the nodes and removes their data, unless it is detached.
#[derive(Debug)]
pub struct Cluster {
    /// Before the folder that theirs are in.
    nodes: Vec<Local>,
    urls: Vec<String>,
    product: Product,
    folder: Folder,
    lifetime: Lifetime,
    watchdog: Option<Watchdog>,
}

impl Cluster {
    pub(crate) fn start(
        server: &'static dyn Server,
        programs: &Path,
        options: &Options,
    ) -> Result<Self> {
        let folder = Folder::create(server.name(), Account::for_server(server.account())?)?;
        let mut cluster = Self {
            nodes: Vec::new(),
            urls: Vec::new(),
            product: Product::new(server.product(), None),
            folder,
            lifetime: options.lifetime,
            watchdog: None,
        };
        if options.lifetime == Lifetime::Scoped {
            let watchdog = Watchdog::start(cluster.folder.path(), server.stop_signal())?;
            cluster.watchdog = Some(watchdog);
        }
        // One after the other: of two that join at once one waits for longer than the other takes.
        for node in Node::group_of(server.nodes())? {
            let mut local = Local::of_cluster(server, programs, options, &cluster.folder, node)?;
            let started = local.begin();
            cluster.urls.push(local.url());
            cluster.nodes.push(local);
            cluster.product = started?;
        }
        Ok(cluster)
    }

    /// How many nodes there are, running or not.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// What a client of that node connects to. The same after a restart.
    ///
    /// # Panics
    ///
    /// If there is no node of that number.
    pub fn url(&self, node: usize) -> &str {
        &self.urls[node]
    }

    /// All nodes' URLs with commas between them: what `IDEM_GALERA_URL` holds.
    pub fn urls(&self) -> String {
        self.urls.join(",")
    }

    /// What answers there.
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// The last lines of a node's log, each on an indented line of its own.
    pub fn log_tail(&self, node: usize) -> String {
        self.nodes
            .get(node)
            .map(|local| local.folder().log_tail())
            .unwrap_or_default()
    }

    /// Kills a node with SIGKILL. The others go on without it after two to three seconds, if they are the majority;
    /// until then their writes wait.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        self.node(node)?.kill()
    }

    /// Ends a node in good order: the others go on at once.
    pub fn pause(&mut self, node: usize) -> Result<()> {
        self.node(node)?.stop()
    }

    /// Kills all nodes with SIGKILL.
    pub fn kill_all(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Local::kill)
    }

    /// Ends all nodes in good order.
    pub fn pause_all(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Local::stop)
    }

    /// Starts a node again on the same data and port, stopping it first if it runs, and waits until it has joined the
    /// others and has all their data. Fails if the others are no majority (two were killed at once) or none runs:
    /// then it is for [`restart_all`](Self::restart_all).
    pub fn restart(&mut self, node: usize) -> Result<()> {
        self.node(node)?.stop()?;
        if !self.goes_on()? {
            return Err(Error::failed(
                "a node cannot join: the others are no cluster; `restart_all` starts it anew",
            ));
        }
        let local = self.node(node)?;
        let position = local.position()?;
        local.join_at(&position);
        local.restart()
    }

    /// Starts the nodes that do not run, and waits until they have all data. If those that run are no majority, or
    /// none does, the one whose data goes furthest starts the cluster anew, and the others join it.
    pub fn restart_all(&mut self) -> Result<()> {
        if !self.goes_on()? {
            self.pause_all()?;
            self.start_anew()?;
        }
        let stopped = |nodes: &[Local]| nodes.iter().position(|local| !local.is_running());
        while let Some(node) = stopped(&self.nodes) {
            self.restart(node)?;
        }
        Ok(())
    }

    /// Whether the nodes that run are a cluster, once they have noticed who is gone: a killed node has to be out before
    /// it can come back.
    fn goes_on(&self) -> Result<bool> {
        let running: Vec<_> = self.nodes.iter().filter(|node| node.is_running()).collect();
        let deadline = Instant::now() + TIME_TO_SETTLE;
        while Instant::now() < deadline {
            let said: Result<Vec<_>> = running
                .iter()
                .map(|local| Status::ask(&local.site()))
                .collect();
            let said = said?;
            if said.iter().all(|status| !status.is_primary()) {
                return Ok(false);
            }
            let settled = |status: &Status| status.is_synced() && status.size == running.len();
            if said.iter().all(settled) {
                return Ok(true);
            }
            std::thread::sleep(PAUSE);
        }
        Err(Error::failed("the nodes do not agree on who is there"))
    }

    fn start_anew(&mut self) -> Result<()> {
        let positions: Result<Vec<_>> = self.nodes.iter().map(Local::position).collect();
        let positions = positions?;
        let furthest = positions.iter().map(|position| position.write).max();
        let first = positions
            .iter()
            .position(|position| Some(position.write) == furthest)
            .unwrap_or(0);
        for local in &self.nodes {
            Position::allow_start(&local.site())?;
        }
        let local = self.node(first)?;
        local.start_at(&positions[first]);
        local.restart()
    }

    /// Waits until every node that runs is synced and sees exactly `size` nodes, itself among them.
    pub fn wait_for_size(&self, size: usize) -> Result<()> {
        let deadline = Instant::now() + TIME_TO_SETTLE;
        loop {
            let running = self.nodes.iter().filter(|local| local.is_running());
            let said: Vec<_> = running.map(|local| Status::ask(&local.site())).collect();
            let settled = |status: &Result<Status>| matches!(status, Ok(status) if status.is_synced() && status.size == size);
            if said.iter().all(settled) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::failed(format!(
                    "the cluster did not become one of {size} nodes: {said:?}"
                )));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn node(&mut self, node: usize) -> Result<&mut Local> {
        let count = self.nodes.len();
        self.nodes
            .get_mut(node)
            .ok_or_else(|| Error::setting(format!("there is no node {node}, only 0..{count}")))
    }

    /// Ends the nodes and removes everything of them. Dropping does the same and keeps quiet about errors.
    pub fn stop(mut self) -> Result<()> {
        self.clear()
    }

    /// The data is thrown away, so no node has to leave in good order.
    pub(crate) fn clear(&mut self) -> Result<()> {
        let ended = self.kill_all();
        self.nodes.clear();
        self.folder.remove();
        self.watchdog = None;
        ended
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn identities(&self) -> Vec<Identity> {
        self.nodes.iter().filter_map(Local::identity).collect()
    }

    /// Lets go of a detached cluster.
    pub(crate) fn release(&mut self) {
        self.nodes.iter_mut().for_each(Local::release);
        self.nodes.clear();
    }

    fn is_released(&self) -> bool {
        self.lifetime == Lifetime::Detached && self.nodes.is_empty()
    }
}

/// Also after a start that failed half-way.
impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.is_released() {
            let _ = self.clear();
        }
    }
}

impl Local {
    fn position(&self) -> Result<Position> {
        Position::recover(&self.site())
    }

    fn join_at(&mut self, position: &Position) {
        self.set_start(Start::Join, &position.text);
    }

    fn start_at(&mut self, position: &Position) {
        self.set_start(Start::Anew, &position.text);
    }

    fn set_start(&mut self, start: Start, position: &str) {
        if let Some(node) = self.node_mut() {
            node.start = start;
            node.position = Some(position.into());
        }
    }
}
