use std::path::Path;

use crate::cluster::{eventually, wait_for_size};
use crate::node::Node;
use crate::redis::{self, client, field, info, named_in};
use crate::server::Kind;
use crate::tools::{ask, run, tool};
use crate::{Error, Product, Result, Server};

/// Redis Cluster: nodes 0 to 2 start as masters, each with a third of the slots, and 3 to 5 as
/// their replicas, in that order; no login. Its URL is the six nodes' URLs with commas between
/// them.
///
/// A master that has not answered for a second counts as failed, and its replica takes over within
/// one or two more seconds.
pub(crate) const SERVER: Server = Server {
    name: "redis-cluster",
    product: "Redis Cluster",
    nodes: 6,
    // For the cluster bus. The default port, 10000 above the first, may be another process's.
    ports: 2,
    tls: None,
    image: None,
    kind: &RedisCluster,
    ..redis::SERVER
};

#[derive(Debug)]
struct RedisCluster;

impl Kind for RedisCluster {
    fn arguments(&self, _node: &Node) -> String {
        "--cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 1000 \
         --cluster-replica-validity-factor 0 --cluster-announce-ip 127.0.0.1 \
         --cluster-port {port1}"
            .into()
    }

    /// Each of the nodes that `url` names has to answer, as one of a cluster.
    fn probe(&self, url: &str, programs: &Path) -> Result<Product> {
        let mut first = None;
        for node in url.split(',') {
            let info = info(node, programs)?;
            let mut product = named_in(&info, "Redis");
            // A node that refuses the login reveals nothing.
            if product.version.is_some() && field(&info, "redis_mode") != Some("cluster") {
                return Err(Error::failed("this is not a node of a Redis Cluster"));
            }
            product.name += " Cluster";
            first = first.or(Some(product));
        }
        first.ok_or_else(|| Error::failed("no URL"))
    }

    fn begin(&self, nodes: &mut [Node]) -> Result<Product> {
        nodes.iter_mut().try_for_each(Node::launch)?;
        let products = nodes.iter_mut().map(Node::wait_ready);
        let products: Vec<_> = products.collect::<Result<_>>()?;
        let (masters, replicas) = nodes.split_at(nodes.len() / 2);
        let mut create = tool(nodes[0].programs(), redis::CLIENTS);
        create.args(["--cluster", "create", "--cluster-yes"]);
        create.args(
            masters
                .iter()
                .map(|node| node.fill("127.0.0.1:{port}@{port1}")),
        );
        run(&mut create)?;
        // The program would choose which replica is whose.
        for (master, replica) in masters.iter().zip(replicas) {
            tell(
                master,
                &replica.fill("CLUSTER MEET 127.0.0.1 {port} {port1}"),
            )?;
            let id = tell(master, "CLUSTER MYID")?;
            // At first they do not know each other.
            eventually(|| tell(replica, &format!("CLUSTER REPLICATE {}", id.trim())))?;
        }
        wait_for_size(nodes, nodes.len())?;
        Ok(products[0].clone())
    }

    /// A master that came back before it counts as failed would still be master, with its data on
    /// disk, and its replica would copy that.
    fn may_return(&self, node: &Node, others: &[&Node]) -> Result<()> {
        let Some(witness) = others.first() else {
            return Ok(());
        };
        let ports: Vec<_> = others.iter().map(|node| node.port(0)).collect();
        match has_heir(&members(witness)?, node.port(0), &ports) {
            true => Err(Error::failed("its replica does not take over")),
            false => Ok(()),
        }
    }

    fn check(&self, running: &[&Node], size: usize) -> Result<()> {
        for node in running {
            let url = node.url();
            let alive = alive(&members(node)?);
            let link = tell(node, "INFO replication")?;
            let state = tell(node, "CLUSTER INFO")?;
            let reason = if field(&state, "cluster_state") != Some("ok") {
                format!("{url} is not served")
            } else if alive != size {
                format!("{url} sees {alive}")
            } else if !matches!(field(&link, "master_link_status"), None | Some("up")) {
                format!("{url} lacks data")
            } else {
                continue;
            };
            return Err(Error::failed(reason));
        }
        Ok(())
    }
}

/// Runs a command and returns the answer.
fn tell(node: &Node, command: &str) -> Result<String> {
    let mut client = client(&node.url(), node.programs());
    ask(client.args(command.split(' ')))
}

/// A node of the cluster, as another one sees it.
/// <https://redis.io/docs/latest/commands/cluster-nodes/>
#[derive(Debug)]
struct Member {
    id: String,
    port: u16,
    is_alive: bool,
    master: String,
    has_slots: bool,
}

fn members(node: &Node) -> Result<Vec<Member>> {
    tell(node, "CLUSTER NODES").map(|text| read(&text))
}

fn read(text: &str) -> Vec<Member> {
    text.lines().filter_map(member).collect()
}

/// Parses `id 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460`, where `-` means no
/// master.
fn member(line: &str) -> Option<Member> {
    let words: Vec<_> = line.split(' ').collect();
    let [id, address, flags, master, _, _, _, _, slots @ ..] = words.as_slice() else {
        return None;
    };
    let (_, port) = address.split('@').next()?.rsplit_once(':')?;
    let gone = ["fail", "fail?", "handshake", "noaddr"];
    Some(Member {
        id: (*id).into(),
        port: port.parse().ok()?,
        is_alive: !flags.split(',').any(|flag| gone.contains(&flag)),
        master: (*master).into(),
        has_slots: !slots.is_empty(),
    })
}

/// Returns how many nodes are not suspected as failed, including the one that answered.
fn alive(members: &[Member]) -> usize {
    members.iter().filter(|node| node.is_alive).count()
}

/// Returns whether the node at that port is a master with keys whose replica, at one of these
/// ports, will take over.
fn has_heir(members: &[Member], port: u16, running: &[u16]) -> bool {
    let mut masters = members.iter().filter(|node| node.has_slots);
    masters
        .find(|node| node.port == port)
        .is_some_and(|master| {
            let mut heirs = members.iter().filter(|node| node.master == master.id);
            heirs.any(|heir| running.contains(&heir.port))
        })
}

#[cfg(test)]
mod tests {
    use super::{alive, has_heir, read};

    const TEXT: &str = "\
aa 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460
bb 127.0.0.1:7001@17001,host master,fail - 0 0 2 disconnected 5461-10922
cc 127.0.0.1:7002@17002 slave bb 0 0 2 connected
dd 127.0.0.1:7003@17003 slave,fail? aa 0 0 1 connected
";

    #[test]
    fn only_nodes_that_are_not_suspected_are_alive() {
        assert_eq!(alive(&read(TEXT)), 2);
        assert_eq!(alive(&read("")), 0);
    }

    #[test]
    fn a_master_has_an_heir_while_its_replica_runs() {
        let nodes = read(TEXT);
        assert!(has_heir(&nodes, 7001, &[7000, 7002]));
        assert!(!has_heir(&nodes, 7001, &[7000, 7003]));
        assert!(!has_heir(&nodes, 7002, &[7000, 7001]));
    }
}
