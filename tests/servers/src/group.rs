use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::local::Local;
use crate::{Error, Product, Result};

const TIME_TO_SETTLE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);

/// One kind of cluster. Node numbers are indices of the slice.
pub(crate) trait Group: Debug + Sync {
    /// Starts the nodes for the first time and forms a cluster of them.
    fn begin(&self, nodes: &mut [Local]) -> Result<Product>;

    /// Restarts a node, which may be running, and waits until it has joined the others.
    fn restart(&self, nodes: &mut [Local], node: usize) -> Result<()>;

    /// Starts the stopped nodes, and waits until all form one cluster.
    fn restart_all(&self, nodes: &mut [Local]) -> Result<()>;

    /// Fails, with the reason, if a running node takes no requests or does not see exactly `size`
    /// nodes.
    fn check(&self, running: &[&Local], size: usize) -> Result<()>;
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

/// Does the same as [`Cluster::wait_for_size`].
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

/// Retries until it succeeds, for a minute at most.
pub(crate) fn eventually<T>(mut done: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + TIME_TO_SETTLE;
    loop {
        match done() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}
