use std::path::Path;
use std::process::Command;

use crate::group::{Group, eventually, wait_for_size};
use crate::local::Local;
use crate::redis::{client, command, field, info, named_in, url};
use crate::server::{ClusterKind, Kind};
use crate::tools::ask;
use crate::{Error, Product, Result, Server, Site};

const SLOTS: usize = 16_384;

/// Redis Cluster: nodes 0 to 2 start as masters, each with a third of the slots, and 3 to 5 as
/// their replicas, in that order; no login. Its URL is the six nodes' URLs with commas between
/// them.
///
/// A master that has not answered for a second counts as failed, and its replica takes over within
/// one or two more seconds.
pub(crate) static SERVER: Server = Server {
    product: "Redis Cluster",
    packages: &["redis-server"],
    programs: &["redis-server"],
    accounts: &["redis", "nobody"],
    cluster: ClusterKind::Redis,
    nodes: 6,
    takes_settings: true,
    // For the cluster bus. The default port, 10000 above the first, may be another process's.
    needs_second_port: true,
    ..Server::new("redis-cluster", &RedisCluster)
};

#[derive(Debug)]
struct RedisCluster;

impl Kind for RedisCluster {
    fn command(&self, site: &Site<'_>) -> Command {
        let mut command = command(site);
        for (name, value) in [
            ("enabled", "yes"),
            ("config-file", "nodes.conf"),
            ("node-timeout", "1000"),
            ("replica-validity-factor", "0"),
            ("announce-ip", "127.0.0.1"),
            ("port", &site.second_port.unwrap_or_default().to_string()),
        ] {
            command.args([&format!("--cluster-{name}"), value]);
        }
        command
    }

    fn url(&self, port: u16) -> String {
        url(port)
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
        first.ok_or_else(|| Error::setting("no URL"))
    }
}

/// Nodes that share the slots of the keys: the first half as masters, the second half as their
/// replicas.
#[derive(Debug)]
pub(crate) struct Slots;

impl Group for Slots {
    fn begin(&self, nodes: &mut [Local]) -> Result<Product> {
        nodes.iter_mut().try_for_each(Local::launch)?;
        let products = nodes.iter_mut().map(Local::settle);
        let products: Vec<_> = products.collect::<Result<_>>()?;
        introduce(nodes)?;
        let (masters, replicas) = nodes.split_at(nodes.len() / 2);
        for (master, replica) in masters.iter().zip(replicas) {
            eventually(|| follow(master, replica, nodes.len()))?;
        }
        wait_for_size(self, nodes, nodes.len())?;
        Ok(products[0].clone())
    }

    /// A master that came back before it counts as failed would still be master, with its data on
    /// disk, and its replica would copy that.
    fn restart(&self, nodes: &mut [Local], node: usize) -> Result<()> {
        nodes[node].stop()?;
        let port = nodes[node].port();
        let running: Vec<_> = nodes.iter().filter(|local| local.is_running()).collect();
        let ports: Vec<_> = running.iter().map(|local| local.port()).collect();
        if let Some(witness) = running.first() {
            eventually(|| match has_heir(&members(witness)?, port, &ports) {
                true => Err(Error::failed("its replica does not take over")),
                false => Ok(()),
            })?;
        }
        let size = running.len() + 1;
        nodes[node].restart()?;
        wait_for_size(self, nodes, size)
    }

    fn restart_all(&self, nodes: &mut [Local]) -> Result<()> {
        for node in 0..nodes.len() {
            let settles = nodes.iter().filter(|local| local.is_running()).count() > nodes.len() / 2;
            match (nodes[node].is_running(), settles) {
                (true, _) => {}
                (false, true) => self.restart(nodes, node)?,
                // Too few nodes for a vote on which replica takes over.
                (false, false) => nodes[node].restart()?,
            }
        }
        wait_for_size(self, nodes, nodes.len())
    }

    fn check(&self, running: &[&Local], size: usize) -> Result<()> {
        for local in running {
            let returned = tell(local, "CLUSTER INFO\nINFO replication\nCLUSTER NODES\n")?;
            let url = local.url();
            let alive = alive(&read(&returned));
            let reason = if field(&returned, "cluster_state") != Some("ok") {
                format!("{url} is not served")
            } else if alive != size {
                format!("{url} sees {alive}")
            } else if !matches!(field(&returned, "master_link_status"), None | Some("up")) {
                format!("{url} lacks data")
            } else {
                continue;
            };
            return Err(Error::failed(reason));
        }
        Ok(())
    }
}

/// Assigns equal parts of the slots to the masters and introduces the nodes to each other. Each has
/// its own rank before it knows the others, so that they do not have to agree on ranks.
fn introduce(nodes: &[Local]) -> Result<()> {
    let masters = nodes.len() / 2;
    for (number, local) in nodes.iter().enumerate() {
        let mut commands = format!("CLUSTER SET-CONFIG-EPOCH {}\n", number + 1);
        if number < masters {
            let (from, to) = (SLOTS * number / masters, SLOTS * (number + 1) / masters - 1);
            commands += &format!("CLUSTER ADDSLOTSRANGE {from} {to}\n");
        }
        order(local, &commands)?;
    }
    let meet = |local: &Local| {
        let bus = local.site().second_port.unwrap_or_default();
        format!("CLUSTER MEET 127.0.0.1 {} {bus}\n", local.port())
    };
    order(&nodes[0], &nodes[1..].iter().map(meet).collect::<String>())
}

/// Makes a node the replica of a master. Fails until it knows all nodes.
fn follow(master: &Local, replica: &Local, nodes: usize) -> Result<()> {
    let members = members(replica)?;
    let master = members.iter().find(|node| node.port == master.port());
    match master.filter(|_| alive(&members) == nodes) {
        Some(master) => order(replica, &format!("CLUSTER REPLICATE {}\n", master.id)),
        None => Err(Error::failed("the nodes do not know each other")),
    }
}

/// Runs commands, one per line, and returns all answers.
fn tell(local: &Local, commands: &str) -> Result<String> {
    ask(&mut client(&local.url(), local.site().programs), commands)
}

/// Runs commands that a node answers with `OK`.
fn order(local: &Local, commands: &str) -> Result<()> {
    let returned = tell(local, commands)?;
    let done = returned.lines().filter(|line| *line == "OK").count();
    if done == commands.lines().count() {
        Ok(())
    } else {
        Err(Error::failed(format!(
            "{commands}is answered with {returned}"
        )))
    }
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

fn members(local: &Local) -> Result<Vec<Member>> {
    tell(local, "CLUSTER NODES\n").map(|text| read(&text))
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
