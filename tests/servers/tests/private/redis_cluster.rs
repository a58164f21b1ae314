//! A Redis Cluster whose masters are killed and come back as replicas.

use idem_servers::{Cluster, Durability, Options, start_private_cluster};

use crate::common::is_removed;
use crate::redis::ask_with;
use crate::{Outcome, Run, cases, eventually};

/// The second third of the slots holds `k`.
const MASTER: usize = 1;
const REPLICA: usize = 4;

pub(crate) const TRIALS: &[(&str, Run)] = cases![
    a_replica_takes_over_from_a_killed_master_which_then_follows_it,
    a_frozen_master_is_replaced,
    a_durable_master_without_a_replica_comes_back_with_its_values,
    a_dropped_cluster_leaves_neither_servers_nor_folders,
];

fn ask(cluster: &Cluster, node: usize, command: &str) -> Outcome<String> {
    ask_with(cluster.url(node), &[], command)
}

fn role(cluster: &Cluster, node: usize) -> Outcome<String> {
    let returned = ask(cluster, node, "ROLE")?;
    Ok(returned.lines().next().unwrap_or_default().to_owned())
}

fn a_replica_takes_over_from_a_killed_master_which_then_follows_it() -> Outcome {
    let mut cluster = start_private_cluster("redis-cluster", &Options::new())?;
    assert_eq!(cluster.product().name, "Redis Cluster");
    assert_eq!(cluster.nodes(), 6);
    cluster.wait_for_size(6)?;
    ask(&cluster, MASTER, "SET k 1")?;
    assert!(ask(&cluster, 0, "GET k").is_err(), "nobody is sent on");
    assert_eq!(ask(&cluster, MASTER, "WAIT 1 10000")?, "1");

    cluster.kill(MASTER)?;
    eventually("the replica takes over", || {
        ask(&cluster, REPLICA, "SET k 2").is_ok()
    })?;
    cluster.wait_for_size(5)?;
    let killed = ask(&cluster, MASTER, "PING");
    assert!(killed.is_err(), "the killed node answers");

    cluster.restart(MASTER)?;
    assert_eq!(role(&cluster, MASTER)?, "slave");
    cluster.kill(REPLICA)?;
    // At once, before another node has noticed.
    cluster.restart(REPLICA)?;
    assert_eq!(role(&cluster, REPLICA)?, "slave");
    assert_eq!(ask(&cluster, MASTER, "GET k")?, "2");
    Ok(())
}

fn a_frozen_master_is_replaced() -> Outcome {
    let mut cluster = start_private_cluster("redis-cluster", &Options::new())?;
    cluster.freeze(MASTER)?;
    eventually("the replica takes over", || {
        ask(&cluster, REPLICA, "SET k 2").is_ok()
    })?;
    cluster.wait_for_size(5)?;
    Ok(())
}

fn a_durable_master_without_a_replica_comes_back_with_its_values() -> Outcome {
    let options = Options::new()
        .with_durability(Durability::Durable)
        .with_setting("maxmemory", "7mb");
    let mut cluster = start_private_cluster("redis-cluster", &options)?;
    let returned = ask(&cluster, 5, "CONFIG GET maxmemory")?;
    assert_eq!(returned, "maxmemory\n7340032");
    ask(&cluster, MASTER, "SET k 1")?;
    // Without a replica it comes back as the master, with its data.
    cluster.kill(REPLICA)?;
    cluster.kill(MASTER)?;
    cluster.restart(MASTER)?;
    assert_eq!(role(&cluster, MASTER)?, "master");
    assert_eq!(ask_with(cluster.url(0), &["-c"], "GET k")?, "1");
    Ok(())
}

fn a_dropped_cluster_leaves_neither_servers_nor_folders() -> Outcome {
    let cluster = start_private_cluster("redis-cluster", &Options::new())?;
    let returned = ask(&cluster, 0, "CONFIG GET dir")?;
    let urls: Vec<_> = (0..cluster.nodes())
        .map(|node| cluster.url(node).to_owned())
        .collect();
    is_removed("redis", cluster, &returned, &urls)
}
