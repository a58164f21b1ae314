use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::certificate::authority;
use crate::folder::Folder;
use crate::local::Local;
use crate::server::ClusterKind;
use crate::site::Account;
use crate::watchdog::Watchdog;
use crate::{Error, Identity, Lifetime, Options, Product, Result, Server, Signal};
use crate::{galera, redis_cluster};

const TIME_TO_SETTLE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// One kind of cluster. Numbers of nodes are those of the slice.
pub(crate) trait Group: Debug + Sync {
    /// Starts the nodes for the first time and makes a cluster of them.
    fn begin(&self, nodes: &mut [Local]) -> Result<Product>;

    /// Starts a node again, which may run, and waits until it belongs to the others.
    fn restart(&self, nodes: &mut [Local], node: usize) -> Result<()>;

    /// Starts the nodes that do not run, and waits until all belong together.
    fn restart_all(&self, nodes: &mut [Local]) -> Result<()>;

    /// Fails, with the reason, unless the nodes that run take requests and each sees exactly
    /// `size` nodes.
    fn check(&self, running: &[&Local], size: usize) -> Result<()>;
}

/// A server of one process.
#[derive(Debug)]
struct Single;

impl Group for Single {
    fn begin(&self, nodes: &mut [Local]) -> Result<Product> {
        begin_each(nodes)
    }

    fn restart(&self, nodes: &mut [Local], node: usize) -> Result<()> {
        nodes[node].restart()
    }

    fn restart_all(&self, nodes: &mut [Local]) -> Result<()> {
        let mut stopped = nodes.iter_mut().filter(|local| !local.is_running());
        stopped.try_for_each(Local::restart)
    }

    fn check(&self, _running: &[&Local], _size: usize) -> Result<()> {
        Ok(())
    }
}

/// Starts the nodes for the first time, one after the other.
pub(crate) fn begin_each(nodes: &mut [Local]) -> Result<Product> {
    let mut product = None;
    for local in nodes {
        local.launch()?;
        product = Some(local.settle()?);
    }
    product.ok_or_else(|| Error::setting("a server has nodes"))
}

fn group(kind: ClusterKind) -> &'static dyn Group {
    match kind {
        ClusterKind::Single => &Single,
        ClusterKind::Galera => &galera::Majority,
        ClusterKind::Redis => &redis_cluster::Slots,
    }
}

/// A cluster of our own whose nodes can be killed and started again one by one. Nodes are numbered
/// from 0.
///
/// Dropping it ends the nodes and removes their data, unless it is detached.
#[derive(Debug)]
pub struct Cluster {
    server: &'static Server,
    nodes: Vec<Local>,
    urls: Vec<String>,
    product: Product,
    folder: Folder,
    is_released: bool,
    watchdog: Option<Watchdog>,
}

impl Cluster {
    pub(crate) fn start(
        server: &'static Server,
        programs: &Path,
        options: &Options,
    ) -> Result<Self> {
        let account = Account::first_of(server.accounts)?;
        let mut cluster = Self {
            server,
            nodes: Vec::new(),
            urls: Vec::new(),
            product: Product::new(server.product, None),
            folder: Folder::create(server.name, account)?,
            is_released: false,
            watchdog: None,
        };
        if options.lifetime == Lifetime::Scoped {
            let watchdog = Watchdog::start(cluster.folder.path(), server.stop_signal)?;
            cluster.watchdog = Some(watchdog);
        }
        for number in 0..server.nodes {
            let local = Local::new(server, programs, options, &cluster.folder, number)?;
            cluster.urls.push(local.url());
            cluster.nodes.push(local);
        }
        cluster.product = group(server.cluster).begin(&mut cluster.nodes)?;
        Ok(cluster)
    }

    /// How many nodes there are, running or not.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The URL for clients of that node. The same after a restart.
    ///
    /// # Panics
    ///
    /// If there is no node of that number.
    pub fn url(&self, node: usize) -> &str {
        &self.urls[node]
    }

    /// All nodes' URLs with commas between them, as in `IDEM_GALERA_URL`.
    pub fn urls(&self) -> String {
        self.urls.join(",")
    }

    /// The software that answers there.
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// Kills a node with SIGKILL. The others go on without it after two to three seconds: of
    /// Galera, if they are the majority, and until then their writes wait; of Redis, the killed
    /// master's replica takes over, and until then writes of its keys fail.
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

    pub(crate) fn freeze_all(&mut self) {
        self.nodes.iter_mut().for_each(Local::freeze);
    }

    pub(crate) fn thaw_all(&mut self) {
        self.nodes.iter_mut().for_each(Local::thaw);
    }

    pub(crate) fn pause_all(&mut self) -> Result<()> {
        self.nodes.iter_mut().try_for_each(Local::stop)
    }

    /// Starts a node again on the same port, stopping it first if it runs, and waits until it has
    /// joined the others and has their data.
    ///
    /// Galera: fails if the others are no majority (two were killed at once) or none runs: that is
    /// for [`restart_all`](Self::restart_all). Redis: a master whose replica runs comes back as a
    /// replica of that one, for whose take-over this waits; one without comes back with what it
    /// had on disk, in a fast cluster nothing.
    pub fn restart(&mut self, node: usize) -> Result<()> {
        self.node(node)?;
        group(self.server.cluster).restart(&mut self.nodes, node)
    }

    /// Starts the nodes that do not run, and waits until they have all data. Galera: if those that
    /// run are no majority, or none does, the one whose data goes furthest starts the cluster anew,
    /// and the others join it.
    pub fn restart_all(&mut self) -> Result<()> {
        group(self.server.cluster).restart_all(&mut self.nodes)
    }

    /// Waits until every node that runs takes requests, has the others' data and sees exactly
    /// `size` nodes, itself among them. Frozen nodes do not count as running.
    pub fn wait_for_size(&self, size: usize) -> Result<()> {
        wait_for_size(group(self.server.cluster), &self.nodes, size)
    }

    fn node(&mut self, node: usize) -> Result<&mut Local> {
        let count = self.nodes.len();
        let missing = || Error::setting(format!("there is no node {node}, only 0..{count}"));
        self.nodes.get_mut(node).ok_or_else(missing)
    }

    /// Ends the nodes and removes everything of them. Dropping does the same and keeps quiet about
    /// errors.
    pub fn stop(mut self) -> Result<()> {
        self.clear()
    }

    pub(crate) fn clear(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_released, true) {
            return Ok(());
        }
        let ended = match self.end_signal() {
            Signal::Kill => self.kill_all(),
            _ => self.pause_all(),
        };
        self.folder.remove();
        self.watchdog = None;
        ended
    }

    /// The signal that ends a server whose data is thrown away: no node of a cluster has to wait
    /// until the others know that it leaves.
    pub(crate) fn end_signal(&self) -> Signal {
        match self.server.cluster {
            ClusterKind::Single => self.server.stop_signal,
            _ => Signal::Kill,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn tls_url(&self) -> Option<String> {
        self.nodes.first()?.site().tls_url()
    }

    pub(crate) fn ca_certificate(&self) -> Option<PathBuf> {
        authority(self.nodes.first()?.folder().path())
    }

    pub(crate) fn identities(&self) -> Vec<Identity> {
        self.nodes.iter().filter_map(Local::identity).collect()
    }

    /// Lets go of a detached cluster.
    pub(crate) fn release(&mut self) {
        self.is_released = true;
    }
}

/// Also after a start that failed half-way.
impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.clear();
    }
}

/// As [`Cluster::wait_for_size`].
pub(crate) fn wait_for_size(group: &dyn Group, nodes: &[Local], size: usize) -> Result<()> {
    let settled = eventually(|| {
        let running: Vec<_> = nodes.iter().filter(|local| local.is_running()).collect();
        group.check(&running, size)
    });
    settled.map_err(|reason| {
        let what = format!("the cluster did not become one of {size} nodes");
        Error::failed(what).with_source(reason)
    })
}

/// Tries until it succeeds, for a minute at most.
pub(crate) fn eventually<T>(mut done: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + TIME_TO_SETTLE;
    loop {
        match done() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::Cluster;
    use crate::server::Kind;
    use crate::site::{Account, is_root};
    use crate::{Error, Options, Product, Result, Server, Site};

    /// Ends with its reason.
    #[derive(Debug)]
    struct Broken;

    static BROKEN: Server = Server::new("broken", &Broken);

    impl Kind for Broken {
        fn command(&self, site: &Site<'_>) -> Command {
            let mut command = site.command(&["sh"]);
            command.args(["-c", "id -u; echo the disk is on fire >&2; exit 3"]);
            command
        }

        fn url(&self, port: u16) -> String {
            format!("broken://127.0.0.1:{port}")
        }

        fn probe(&self, _url: &str, _programs: &Path) -> Result<Product> {
            Err(Error::failed("does not answer"))
        }
    }

    #[test]
    fn a_server_that_does_not_start_shows_its_log_and_does_not_run_as_root() {
        let started = Cluster::start(&BROKEN, Path::new("/bin"), &Options::new());
        let error = started.unwrap_err().to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.contains("\n    the disk is on fire"), "{error}");
        if is_root() {
            let nobody = Account::first_of(&["nobody"]).unwrap().unwrap();
            assert!(
                error.contains(&format!("\n    {}\n", nobody.uid)),
                "{error}"
            );
        }
    }

    #[test]
    fn root_without_the_servers_account_learns_how_to_make_it() {
        if is_root() {
            let error = Account::first_of(&["idem-no-such-account"]).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("useradd --system idem-no-such-account")
            );
        }
    }
}
