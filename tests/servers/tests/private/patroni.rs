//! Patroni's nodes: the leader is killed and comes back as a standby.

use idem_servers::{Cluster, Instance, Options, Patroni, start_private, start_private_cluster};

use crate::common::is_removed;
use crate::postgres::psql;
use crate::{Outcome, Run, cases, eventually};

const TABLE: &str = "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1)";
const SUM: &str = "SELECT sum(n) FROM t";

pub(crate) const TRIALS: &[(&str, Run)] = cases![
    a_standby_takes_over_from_a_killed_leader_which_then_follows_it,
    a_standby_that_may_lack_commits_does_not_take_over,
];

fn start() -> Outcome<(Cluster, Instance)> {
    let etcd = start_private("etcd", &Options::new())?;
    assert_eq!(etcd.product().name, "etcd");
    let options = Options::new().with_upstream(etcd.url());
    let cluster = start_private_cluster("patroni", &options)?;
    Ok((cluster, etcd))
}

fn leads(cluster: &Cluster, node: usize) -> Outcome {
    eventually("it leads", || Patroni::leader(cluster) == Some(node))
}

fn a_standby_takes_over_from_a_killed_leader_which_then_follows_it() -> Outcome {
    let (mut cluster, _etcd) = start()?;
    assert!(cluster.product().name.ends_with(", Patroni"));
    assert!(cluster.product().version.is_some());
    assert_eq!(cluster.nodes(), 2);
    let synchronous = "SELECT sync_state FROM pg_stat_replication";
    assert_eq!(psql(cluster.url(0), synchronous)?, "sync");
    psql(cluster.url(0), TABLE)?;
    assert!(psql(cluster.url(1), "DELETE FROM t").is_err());

    cluster.kill(0)?;
    // PostgreSQL, too, which is no child of its Patroni.
    assert!(psql(cluster.url(0), SUM).is_err(), "it still answers");
    leads(&cluster, 1)?;
    psql(cluster.url(1), "INSERT INTO t VALUES (2)")?;
    assert!(cluster.wait_for_size(1).is_ok());

    cluster.restart(0)?;
    assert_eq!(Patroni::leader(&cluster), Some(1));
    psql(cluster.url(1), "INSERT INTO t VALUES (4)")?;
    eventually("it follows", || {
        psql(cluster.url(0), SUM).is_ok_and(|sum| sum == "7")
    })?;

    let data = psql(cluster.url(0), "SHOW data_directory")?;
    let urls = [0, 1].map(|node| cluster.url(node).to_owned());
    is_removed("postgres", cluster, &data, &urls)
}

fn a_standby_that_may_lack_commits_does_not_take_over() -> Outcome {
    let (mut cluster, _etcd) = start()?;
    cluster.kill(1)?;
    // Waits until Patroni lets the leader go on alone.
    psql(cluster.url(0), TABLE)?;
    cluster.kill(0)?;
    cluster.start_again(1)?;
    let seconds = std::time::Duration::from_secs(Patroni::TTL + 5);
    std::thread::sleep(seconds);
    assert_eq!(Patroni::leader(&cluster), None);
    cluster.start_again(0)?;
    leads(&cluster, 0)?;
    cluster.wait_for_size(2)?;
    assert_eq!(psql(cluster.url(0), SUM)?, "1");
    Ok(())
}
