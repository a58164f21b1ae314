use std::path::PathBuf;
use std::process::Command;

use crate::redis::{Connection, account, command, probe, programs, url};
use crate::{ClusterKind, Error, Options, Product, Result, Server, Site, Transport};

mod map;
mod slots;

pub(crate) use slots::Slots;

/// Redis Cluster: nodes 0 to 2 start as masters, each with a third of the slots, and 3 to 5 as their replicas, in that
/// order; no log-in. Its URL is the six nodes' URLs with commas between them.
///
/// A master that has not answered for a second is out, and its replica takes over within another one or two.
#[derive(Clone, Copy, Debug)]
pub struct RedisCluster;

impl Server for RedisCluster {
    fn name(&self) -> &'static str {
        "redis-cluster"
    }

    fn product(&self) -> &'static str {
        "Redis Cluster"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["redis-server"]
    }

    fn account(&self) -> &'static str {
        account("redis")
    }

    fn programs(&self) -> Option<PathBuf> {
        programs()
    }

    fn cluster(&self) -> Option<ClusterKind> {
        Some(ClusterKind::Redis)
    }

    fn nodes(&self) -> usize {
        6
    }

    fn takes_settings(&self) -> bool {
        true
    }

    /// For the talk among the nodes. The usual one, 10000 above the first, may be another process's.
    fn needs_second_port(&self, _options: &Options) -> bool {
        true
    }

    fn prepare(&self, site: &Site<'_>) -> Result<()> {
        match site.options().transport() {
            Transport::Plain => Ok(()),
            Transport::Tls => Err(Error::setting("redis-cluster is started without TLS only")),
        }
    }

    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = command(site);
        command.args([
            "--cluster-enabled",
            "yes",
            "--cluster-config-file",
            "nodes.conf",
            "--cluster-node-timeout",
            "1000",
            "--cluster-replica-validity-factor",
            "0",
            "--cluster-announce-ip",
            "127.0.0.1",
        ]);
        if let Some(port) = site.second_port() {
            command.args(["--cluster-port", &port.to_string()]);
        }
        command
    }

    fn url(&self, port: u16) -> String {
        url(port)
    }

    /// Each of the nodes that `url` names has to answer, as one of a cluster.
    fn probe(&self, url: &str) -> Result<Product> {
        let nodes: Result<Vec<_>> = url.split(',').map(node).collect();
        let first = nodes?.into_iter().next();
        first.ok_or_else(|| Error::setting("no URL"))
    }
}

fn node(url: &str) -> Result<Product> {
    let Product { name, version } = probe(url, "Redis")?;
    // Of a node that does not let us in nothing is known.
    if version.is_some() {
        let mode = Connection::open(url)?.info("server", "redis_mode")?;
        if mode.as_deref() != Some("cluster") {
            return Err(Error::failed("this is not a node of a Redis Cluster"));
        }
    }
    Ok(Product {
        name: format!("{name} Cluster"),
        version,
    })
}

#[cfg(test)]
mod tests {
    use super::RedisCluster;
    use crate::Server;

    #[test]
    fn variables_of_a_cluster_can_be_set_in_a_shell() {
        assert_eq!(RedisCluster.url_variable(), "IDEM_REDIS_CLUSTER_URL");
        assert_eq!(
            RedisCluster.programs_variable(),
            "IDEM_REDIS_CLUSTER_BIN_DIR"
        );
    }

    #[test]
    fn every_node_of_a_url_has_to_answer() {
        let url = "redis://127.0.0.1:1,redis://127.0.0.1:2";
        assert!(RedisCluster.probe(url).is_err());
    }
}
