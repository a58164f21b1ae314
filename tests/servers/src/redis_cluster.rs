use std::path::Path;

use crate::cluster::{eventually, wait_for_size};
use crate::node::Node;
use crate::redis::{self, client, field, info, named_in};
use crate::server::launch;
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
    options: "--save '' --repl-diskless-sync-delay 0 \
        --cluster-enabled yes --cluster-config-file nodes.conf --cluster-node-timeout 1000 \
        --cluster-replica-validity-factor 0 --cluster-announce-ip 127.0.0.1 \
        --cluster-port {port1}",
    tls: None,
    image: None,
    probe,
    begin,
    may_return,
    check,
    ..redis::SERVER
};

fn probe(_server: &Server, url: &str, programs: &Path) -> Result<Product> {
    let info = info(url, programs)?;
    let mut product = named_in(&info, "Redis");
    // A node that refuses the login reveals nothing.
    if product.version.is_some() && field(&info, "redis_mode") != Some("cluster") {
        return Err(Error::failed("this is not a node of a Redis Cluster"));
    }
    product.name += " Cluster";
    Ok(product)
}

fn begin(nodes: &mut [Node]) -> Result<()> {
    launch(nodes)?;
    let (masters, replicas) = nodes.split_at(nodes.len() / 2);
    let mut create = tool(nodes[0].programs(), redis::CLIENTS);
    create.args(["--cluster", "create", "--cluster-yes"]);
    let addresses = masters.iter();
    create.args(addresses.map(|node| node.fill("127.0.0.1:{port}@{port1}")));
    run(&mut create)?;
    // The program would choose which replica is whose.
    for (master, replica) in masters.iter().zip(replicas) {
        let meet = replica.fill("CLUSTER MEET 127.0.0.1 {port} {port1}");
        tell(master, &meet)?;
        let id = tell(master, "CLUSTER MYID")?;
        // At first they do not know each other.
        eventually(|| tell(replica, &format!("CLUSTER REPLICATE {}", id.trim())))?;
    }
    wait_for_size(nodes, nodes.len())
}

/// A master that came back before it counts as failed would still be master, with its data on
/// disk, and its replica would copy that.
fn may_return(node: &Node, others: &[&Node]) -> Result<()> {
    let port = node.port(0).to_string();
    for other in others {
        let link = tell(other, "INFO replication")?;
        if field(&link, "master_port") == Some(&port) {
            return Err(Error::failed("its replica does not take over"));
        }
    }
    Ok(())
}

fn check(running: &[&Node], size: usize) -> Result<()> {
    for node in running {
        let url = &node.url;
        let alive = alive(&tell(node, "CLUSTER NODES")?);
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

/// Runs a command and returns the answer.
fn tell(node: &Node, command: &str) -> Result<String> {
    let mut client = client(&node.url, node.programs());
    ask(client.args(command.split(' ')))
}

/// Returns how many nodes another one does not suspect as failed, including itself.
/// <https://redis.io/docs/latest/commands/cluster-nodes/>
fn alive(nodes: &str) -> usize {
    let gone = ["fail", "fail?", "handshake", "noaddr"];
    let flags = nodes.lines().filter_map(|line| line.split(' ').nth(2));
    flags
        .filter(|flags| !flags.split(',').any(|flag| gone.contains(&flag)))
        .count()
}

#[cfg(test)]
mod tests {
    use super::alive;

    #[test]
    fn only_nodes_that_are_not_suspected_are_alive() {
        let nodes = "aa 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-5460\n\
            bb 127.0.0.1:7001@17001,host master,fail - 0 0 2 disconnected 5461-10922\n\
            cc 127.0.0.1:7002@17002 slave bb 0 0 2 connected\n\
            dd 127.0.0.1:7003@17003 slave,fail? aa 0 0 1 connected\n";
        assert_eq!(alive(nodes), 2);
        assert_eq!(alive(""), 0);
    }
}
