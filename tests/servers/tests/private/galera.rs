//! A Galera cluster whose nodes are killed and join again.

use idem_servers::{Cluster, Options, start_private_cluster};

use crate::common::is_removed;
use crate::mysql::query;
use crate::{Outcome, Run, cases};

const TABLE: &str = "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1)";

pub(crate) const TRIALS: &[(&str, Run)] = cases![
    two_nodes_go_on_without_a_killed_one_which_then_joins_again,
    a_node_that_is_left_without_a_majority_refuses,
    nodes_that_were_all_killed_go_on_from_the_latest_write,
    a_dropped_cluster_leaves_neither_servers_nor_folders,
];

fn sum(cluster: &Cluster, node: usize) -> Outcome<String> {
    let question = "SET wsrep_sync_wait = 1; SELECT sum(n) FROM t";
    query(cluster.url(node), question)
}

fn two_nodes_go_on_without_a_killed_one_which_then_joins_again() -> Outcome {
    let mut cluster = start_private_cluster("galera", &Options::new())?;
    cluster.wait_for_size(3)?;
    assert_eq!(query(cluster.url(1), "SELECT @@wsrep_sync_wait")?, "0");
    query(cluster.url(0), TABLE)?;
    assert_eq!(sum(&cluster, 2)?, "1");

    cluster.kill(2)?;
    // Waits until the others have noticed.
    query(cluster.url(0), "INSERT INTO t VALUES (2)")?;
    cluster.wait_for_size(2)?;
    assert_eq!(sum(&cluster, 1)?, "3");
    let killed = query(cluster.url(2), "SELECT 1");
    assert!(killed.is_err(), "it still answers");

    cluster.restart(2)?;
    cluster.wait_for_size(3)?;
    assert_eq!(sum(&cluster, 2)?, "3");
    // The node starts again before the others have noticed that it was gone.
    cluster.kill(0)?;
    cluster.restart(0)?;
    assert_eq!(sum(&cluster, 0)?, "3");
    Ok(())
}

fn a_node_that_is_left_without_a_majority_refuses() -> Outcome {
    let mut cluster = start_private_cluster("galera", &Options::new())?;
    query(cluster.url(0), TABLE)?;
    cluster.kill(1)?;
    cluster.kill(2)?;
    let refused = query(cluster.url(0), "INSERT INTO t VALUES (2)");
    assert!(refused.is_err(), "a minority took a write");
    assert!(cluster.restart(1).is_err(), "there is no majority to join");
    Ok(())
}

fn nodes_that_were_all_killed_go_on_from_the_latest_write() -> Outcome {
    let mut cluster = start_private_cluster("galera", &Options::new())?;
    query(cluster.url(0), TABLE)?;
    // The first node, which a start prefers, misses a write.
    cluster.kill(0)?;
    query(cluster.url(2), "INSERT INTO t VALUES (2)")?;
    cluster.kill(1)?;
    cluster.kill(2)?;
    cluster.recover()?;
    for node in 0..cluster.nodes() {
        assert_eq!(sum(&cluster, node)?, "3", "node {node}");
    }
    Ok(())
}

fn a_dropped_cluster_leaves_neither_servers_nor_folders() -> Outcome {
    let cluster = start_private_cluster("galera", &Options::new())?;
    let data = query(cluster.url(0), "SELECT @@datadir")?;
    let urls = [0, 1, 2].map(|node| cluster.url(node).to_owned());
    is_removed("galera", cluster, &data, &urls)
}
