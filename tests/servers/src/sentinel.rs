use std::path::Path;

use crate::node::Node;
use crate::redis::{self, field, info};
use crate::server::Setting;
use crate::{Error, Product, Result, Server};

/// One Redis Sentinel that decides alone, for tests only: it watches the master at
/// [`Options::with_upstream`](crate::Options::with_upstream) under the name
/// [`MASTER`](Self::MASTER). It promotes a replica when the master has not answered for two
/// seconds, or for the setting `down-after-milliseconds`. It pings at most once a second, so with a
/// shorter time it treats a living master as dead. Settings are Sentinel's, for that master.
///
/// Start it with [`start_private`](crate::start_private)`("redis-sentinel", …)` once the replicas
/// follow their master: it counts as started when it knows all of them. It finds a replica that is
/// added later within ten seconds.
#[derive(Clone, Copy, Debug)]
pub struct RedisSentinel;

impl RedisSentinel {
    /// The name of the master that it watches.
    pub const MASTER: &'static str = "idem";
}

/// The sentinel program is the server program. Its configuration is also its memory: it records
/// which server it promoted.
pub(crate) const SERVER: Server = Server {
    product: "Redis Sentinel",
    packages: redis::SERVER.packages,
    programs: redis::SERVER.programs,
    upstream: Some(redis::SERVER.name),
    url: redis::SERVER.url,
    files: &[(
        "sentinel.conf",
        "port {port}\n\
         bind 127.0.0.1\n\
         protected-mode no\n\
         sentinel monitor idem {host} {host_port} 1\n\
         sentinel down-after-milliseconds idem 2000\n\
         sentinel failover-timeout idem 3000\n",
    )],
    arguments: "{folder}/sentinel.conf --sentinel",
    setting: Setting::Line("sentinel {name} idem {value}\n"),
    is_ready,
    ..Server::new("redis-sentinel", probe)
};

fn probe(_server: &Server, url: &str, programs: &Path) -> Result<Product> {
    let mut product = redis::probe(&redis::SERVER, url, programs)?;
    product.name += " Sentinel";
    Ok(product)
}

/// At first the master of its configuration has to answer, with as many replicas as it has.
/// After a restart it may have found another, and a dead one beside it.
fn is_ready(node: &Node) -> Result<()> {
    let own = info(&node.url, node.programs())?;
    let watched = field(&own, "master0").unwrap_or_default();
    let master = node.options.upstream.as_deref().unwrap_or_default();
    let master = info(master, node.programs()).unwrap_or_default();
    let wanted = field(&master, "connected_slaves").unwrap_or("0");
    if known(watched) >= wanted.parse().ok() {
        return Ok(());
    }
    let what = format!("{wanted} replicas are to be watched: {watched}");
    Err(Error::failed(what))
}

/// Returns how many replicas it knows of a running master, from
/// `name=idem,status=ok,address=…,slaves=1,sentinels=1`.
fn known(watched: &str) -> Option<u32> {
    let mut fields = watched.split(',').filter_map(|field| field.split_once('='));
    let is_up = fields.any(|field| field == ("status", "ok"));
    let (_, count) = fields.find(|(name, _)| *name == "slaves")?;
    count.parse().ok().filter(|_| is_up)
}

#[cfg(test)]
mod tests {
    use super::known;

    #[test]
    fn replicas_are_counted_of_a_master_that_is_up() {
        let watched = "name=idem,status=ok,address=127.0.0.1:7001,slaves=2,sentinels=1";
        assert_eq!(known(watched), Some(2));
        assert_eq!(known(&watched.replace("=ok", "=sdown")), None);
        assert_eq!(known(""), None);
    }
}
