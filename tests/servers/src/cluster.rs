use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::folder::Folder;
use crate::local::Local;
use crate::site::Account;
use crate::watchdog::Watchdog;
use crate::{Error, Identity, Lifetime, Options, Product, Result, Server, galera, redis_cluster};

pub(crate) const TIME_TO_SETTLE: Duration = Duration::from_secs(60);
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Which kind of cluster a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterKind {
    /// Every node has all data; the majority goes on.
    Galera,
    /// Each master has a part of the keys, and a replica that takes over from it.
    Redis,
}

impl ClusterKind {
    fn group(self) -> &'static dyn Group {
        match self {
            Self::Galera => &galera::Majority,
            Self::Redis => &redis_cluster::Slots,
        }
    }
}

/// What is particular about the nodes of one kind of cluster. Numbers of nodes are those of the slice.
pub(crate) trait Group: Debug + Sync {
    /// Starts the nodes for the first time and makes a cluster of them; answers what they are.
    fn begin(&self, nodes: &mut [Local]) -> Result<Product>;

    /// Starts a node again, which may run, and waits until it belongs to the others.
    fn restart(&self, nodes: &mut [Local], node: usize) -> Result<()>;

    /// Starts the nodes that do not run, and waits until all belong together.
    fn restart_all(&self, nodes: &mut [Local]) -> Result<()>;

    /// Fails, saying why, unless the nodes that run take requests and each sees exactly `size` nodes.
    fn check(&self, running: &[&Local], size: usize) -> Result<()>;
}

/// A cluster of our own whose nodes can be killed and started again one by one. Nodes are numbered from 0.
///
/// Dropping it ends the nodes and removes their data, unless it is detached.
#[derive(Debug)]
pub struct Cluster {
    /// Before the folder that theirs are in.
    nodes: Vec<Local>,
    kind: ClusterKind,
    urls: Vec<String>,
    product: Product,
    folder: Folder,
    lifetime: Lifetime,
    watchdog: Option<Watchdog>,
}

impl Cluster {
    pub(crate) fn start(
        server: &'static dyn Server,
        kind: ClusterKind,
        programs: &Path,
        options: &Options,
    ) -> Result<Self> {
        let folder = Folder::create(server.name(), Account::for_server(server.account())?)?;
        let mut cluster = Self {
            nodes: Vec::new(),
            kind,
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
        for number in 0..server.nodes() {
            let local = Local::of_cluster(server, programs, options, &cluster.folder, number)?;
            cluster.urls.push(local.url());
            cluster.nodes.push(local);
        }
        cluster.product = kind.group().begin(&mut cluster.nodes)?;
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

    /// All nodes' URLs with commas between them: what `IDEM_GALERA_URL` and `IDEM_REDIS_CLUSTER_URL` hold.
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

    /// Kills a node with SIGKILL. The others go on without it after two to three seconds: of Galera, if they are the
    /// majority, and until then their writes wait; of Redis, the killed master's replica takes over, and until then
    /// writes of its keys fail.
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

    /// Freezes a node (SIGSTOP): it keeps its ports and connections and answers nothing.
    pub fn freeze(&mut self, node: usize) -> Result<()> {
        self.node(node).map(Local::freeze)
    }

    /// Lets a frozen node go on.
    pub fn thaw(&mut self, node: usize) -> Result<()> {
        self.node(node).map(Local::thaw)
    }

    /// Freezes all nodes.
    pub fn freeze_all(&mut self) {
        self.nodes.iter_mut().for_each(Local::freeze);
    }

    /// Lets all frozen nodes go on.
    pub fn thaw_all(&mut self) {
        self.nodes.iter_mut().for_each(Local::thaw);
    }

    /// Ends all nodes in good order.
    pub fn pause_all(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Local::stop)
    }

    /// Starts a node again on the same port, stopping it first if it runs, and waits until it has joined the others and
    /// has their data.
    ///
    /// Galera: fails if the others are no majority (two were killed at once) or none runs: then it is for
    /// [`restart_all`](Self::restart_all). Redis: a master whose replica runs comes back as a replica of that one, for
    /// whose take-over this waits; one without comes back with what it had on disk, in a fast cluster nothing.
    pub fn restart(&mut self, node: usize) -> Result<()> {
        self.node(node)?;
        self.kind.group().restart(&mut self.nodes, node)
    }

    /// Starts the nodes that do not run, and waits until they have all data. Galera: if those that run are no majority,
    /// or none does, the one whose data goes furthest starts the cluster anew, and the others join it.
    pub fn restart_all(&mut self) -> Result<()> {
        self.kind.group().restart_all(&mut self.nodes)
    }

    /// Waits until every node that runs takes requests, has the others' data and sees exactly `size` nodes, itself
    /// among them. Frozen nodes are not asked.
    pub fn wait_for_size(&self, size: usize) -> Result<()> {
        wait_for_size(self.kind.group(), &self.nodes, size)
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

/// As [`Cluster::wait_for_size`].
pub(crate) fn wait_for_size(group: &dyn Group, nodes: &[Local], size: usize) -> Result<()> {
    let deadline = Instant::now() + TIME_TO_SETTLE;
    loop {
        let running: Vec<_> = nodes.iter().filter(|local| local.is_running()).collect();
        match group.check(&running, size) {
            Ok(()) => return Ok(()),
            Err(reason) if Instant::now() > deadline => {
                return Err(Error::failed(format!(
                    "the cluster did not become one of {size} nodes"
                ))
                .with_source(reason));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}
