//! A Galera cluster whose nodes are killed and join again.

use std::path::Path;

use idem_servers::{Cluster, Options, server, start_private_cluster};

use crate::mysql::query;
use crate::{Outcome, Run};

const TABLE: &str = "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1)";

pub(crate) const TRIALS: &[(&str, Run)] = &[
    (
        "two_nodes_go_on_without_a_killed_one_which_then_joins_again",
        two_go_on,
    ),
    (
        "a_cluster_that_was_killed_as_a_whole_starts_anew_with_its_rows",
        all_come_back,
    ),
    (
        "a_node_that_is_left_without_a_majority_refuses_until_the_others_are_back",
        one_does_not_go_on,
    ),
    (
        "a_dropped_cluster_leaves_neither_servers_nor_folders",
        nothing_is_left,
    ),
];

fn sum(cluster: &Cluster, node: usize) -> Outcome<String> {
    let question = "SET wsrep_sync_wait = 1; SELECT sum(n) FROM t";
    query(cluster.url(node), question)
}

fn two_go_on() -> Outcome {
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
    Ok(())
}

fn all_come_back() -> Outcome {
    let mut cluster = start_private_cluster("galera", &Options::new())?;
    query(cluster.url(0), TABLE)?;
    cluster.pause(0)?;
    query(cluster.url(1), "INSERT INTO t VALUES (2)")?;
    cluster.kill(1)?;
    cluster.kill(2)?;
    assert!(cluster.restart(0).is_err(), "there is nobody to join");
    cluster.restart_all()?;
    cluster.wait_for_size(3)?;
    for node in 0..cluster.nodes() {
        assert_eq!(sum(&cluster, node)?, "3");
    }
    Ok(())
}

fn one_does_not_go_on() -> Outcome {
    let mut cluster = start_private_cluster("galera", &Options::new())?;
    query(cluster.url(0), TABLE)?;
    cluster.kill(1)?;
    cluster.kill(2)?;
    assert!(cluster.restart(1).is_err(), "there is no majority to join");
    let refused = query(cluster.url(0), "INSERT INTO t VALUES (2)");
    assert!(refused.is_err(), "a minority took a write");
    cluster.restart_all()?;
    cluster.wait_for_size(3)?;
    assert_eq!(sum(&cluster, 1)?, "1");
    // The node starts again before the others have noticed that it was gone.
    cluster.kill(0)?;
    cluster.restart(0)?;
    assert_eq!(sum(&cluster, 0)?, "1");
    Ok(())
}

fn nothing_is_left() -> Outcome {
    let cluster = start_private_cluster("galera", &Options::new())?;
    let urls = cluster.urls();
    let data = query(cluster.url(0), "SELECT @@datadir")?;
    let folder = Path::new(&data).ancestors().nth(2).ok_or("no folder")?;
    assert!(folder.join("2").exists(), "{}", folder.display());
    drop(cluster);
    assert!(!folder.exists());
    for url in urls.split(',') {
        let answer = server("galera")?.probe(url);
        assert!(answer.is_err(), "{url} still answers");
    }
    Ok(())
}
