//! The table of cells with fail-overs.

use idem_servers::Durability;

use super::FailOver;
use super::galera::Loss;
use super::patroni::Managed;
use super::semi_sync::Without;
use crate::cells::{CellSpec, Expects, Kind};
use crate::product::Setup;

const fn hold(
    name: &'static str,
    product: &'static str,
    fail_over: FailOver,
    guarantee: &'static str,
) -> CellSpec {
    CellSpec {
        name,
        product,
        fault: fail_over.in_words(),
        expects: Expects::Hold,
        guarantee,
        setup: Setup {
            server: None,
            is_cluster: false,
            store: "",
            durability: Durability::Fast,
            front: None,
            cache: None,
            settings: &[],
        },
        kind: Kind::FailOver(fail_over),
    }
}

const fn loss(
    name: &'static str,
    product: &'static str,
    fail_over: FailOver,
    guarantee: &'static str,
) -> CellSpec {
    CellSpec {
        expects: Expects::Loss,
        ..hold(name, product, fail_over, guarantee)
    }
}

/// Returns the cells with fail-overs, which start servers of their own.
pub(crate) fn cells() -> Vec<CellSpec> {
    const PG_BEHIND: &str = "idem-postgres/README.md: Asynchronous replication loses, in a \
        failover, the commits that the standby had not received";
    const PG_STANDBY: &str = "idem-postgres/README.md: a synchronous standby loses no write that \
        was acknowledged, unless `pg_cancel_backend` has ended its wait.";
    const PG_CRASH: &str = "idem-postgres/README.md: But a crash of the primary makes commits \
        visible that still waited. A replay or conflict that rests on one is lost if the primary \
        is lost next";
    const PG_REPLICATED: &str = "idem-postgres/README.md: except with \
        `Config::with_replays(Replays::Replicated)`: then such answers wait for the standbys, too";
    const BEHIND: &str = "idem-redis/README.md: a failover, by Sentinel, Cluster or hand | the \
        writes that the promoted replica had not received: replication is asynchronous";
    const REPLICAS: &str = "idem-redis/README.md: the master lost, its replica promoted | no \
        acknowledged completion, release, checkpoint, watermark or token is lost with \
        `Config::with_replicas` for the number of all replicas, nor a result, failure or conflict \
        that a duplicate was answered with";
    const NODE: &str =
        "idem-mysql/README.md: a node killed | the others have what it acknowledged.";
    const SEMI_SYNC: &str = "idem-mysql/README.md: Asynchronous replication loses, in a failover, \
        what the replica had not received, and so does semi-synchronous replication past its \
        time-out; before it, no acknowledged write is lost";
    const GROUP: &str = "idem-mysql/README.md: Group Replication with one primary keeps what it \
        acknowledged";
    const MINORITY: &str = "idem-mysql/README.md: a node without a majority | refuses (1047, `Unavailable`, no effect)";
    const CLUSTER: &str = "Redis Cluster";
    let (re, va) = ("Redis", "Valkey");
    let waiting = |replicated| FailOver::PostgresWaiting { replicated };
    vec![
        loss(
            "postgres-async-standby/fail-over",
            "PostgreSQL",
            FailOver::PostgresAsync,
            PG_BEHIND,
        ),
        hold(
            "postgres-sync-standby/fail-over",
            "PostgreSQL",
            FailOver::PostgresSync,
            PG_STANDBY,
        ),
        loss(
            "postgres-sync-standby/crash-fail-over",
            "PostgreSQL",
            waiting(false),
            PG_CRASH,
        ),
        hold(
            "postgres-sync-replicated/crash-fail-over",
            "PostgreSQL",
            waiting(true),
            PG_REPLICATED,
        ),
        hold(
            "patroni/fail-over",
            "PostgreSQL",
            FailOver::Patroni(Managed::Synchronous),
            PG_STANDBY,
        ),
        hold(
            "patroni/cut-fail-over",
            "PostgreSQL",
            FailOver::Patroni(Managed::Alone),
            PG_STANDBY,
        ),
        loss(
            "patroni-async/fail-over",
            "PostgreSQL",
            FailOver::Patroni(Managed::Asynchronous),
            PG_BEHIND,
        ),
        hold(
            "galera/node-kill",
            "MariaDB Galera",
            FailOver::Galera(Loss::Kill),
            NODE,
        ),
        hold(
            "galera/node-stop",
            "MariaDB Galera",
            FailOver::Galera(Loss::Stop),
            MINORITY,
        ),
        hold(
            "galera/node-cut",
            "MariaDB Galera",
            FailOver::Galera(Loss::Cut),
            MINORITY,
        ),
        hold(
            "mysql-semi-sync/fail-over",
            "MySQL",
            FailOver::SemiSync(Without::Wait),
            SEMI_SYNC,
        ),
        loss(
            "mysql-semi-sync-timeout/fail-over",
            "MySQL",
            FailOver::SemiSync(Without::GoOn),
            SEMI_SYNC,
        ),
        hold(
            "mysql-group/primary-kill",
            "MySQL",
            FailOver::GroupReplication,
            GROUP,
        ),
        loss("redis-sentinel/fail-over", re, FailOver::Sentinel, BEHIND),
        hold(
            "redis-sentinel-wait/fail-over",
            re,
            FailOver::SentinelReplicas,
            REPLICAS,
        ),
        loss(
            "redis-replica/fail-over",
            re,
            FailOver::Redis("redis"),
            BEHIND,
        ),
        hold(
            "redis-wait/fail-over",
            re,
            FailOver::RedisReplicas("redis"),
            REPLICAS,
        ),
        hold(
            "redis-wait/cut-fail-over",
            re,
            FailOver::RedisWaiting("redis"),
            REPLICAS,
        ),
        loss(
            "redis-cluster/fail-over",
            CLUSTER,
            FailOver::RedisCluster,
            BEHIND,
        ),
        hold(
            "redis-cluster-wait/fail-over",
            CLUSTER,
            FailOver::RedisClusterReplicas,
            REPLICAS,
        ),
        hold(
            "redis-cluster-wait/cut-fail-over",
            CLUSTER,
            FailOver::RedisClusterWaiting,
            REPLICAS,
        ),
        loss(
            "valkey-replica/fail-over",
            va,
            FailOver::Redis("valkey"),
            BEHIND,
        ),
        hold(
            "valkey-wait/fail-over",
            va,
            FailOver::RedisReplicas("valkey"),
            REPLICAS,
        ),
        hold(
            "valkey-wait/cut-fail-over",
            va,
            FailOver::RedisWaiting("valkey"),
            REPLICAS,
        ),
    ]
}
