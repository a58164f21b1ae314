//! The table of cells.

use idem_servers::Durability;

use super::guarantees::{hybrid, mongo, mysql, postgres, redis, sqlite};
use super::kind::{Kind, OnCache, Steps};
use super::{CellSpec, Expects};
use crate::cluster;
use crate::nemesis::network::Way;
use crate::product::Setup;

/// A store with its settings, and its cells: names, faults and the sentences that they try.
struct Group {
    product: &'static str,
    setup: Setup,
    hold: &'static [(&'static str, Kind, &'static str)],
    lose: &'static [(&'static str, Kind, &'static str)],
}

/// MariaDB without a binary log shows a commit before it is on disk ([`mysql::SHOWN`]). On MySQL that
/// was never seen, so its cells lose nothing.
const SHOWN_EARLY: [&str; 2] = ["mariadb/power-cut", "mariadb/server-kill"];

/// Settings, by the server's own names.
type Settings = &'static [(&'static str, &'static str)];

const fn server(name: &'static str, settings: Settings) -> Setup {
    Setup {
        server: Some(name),
        is_cluster: false,
        store: "",
        durability: Durability::Durable,
        front: None,
        cache: None,
        settings,
    }
}

const fn files(store: &'static str) -> Setup {
    Setup {
        server: None,
        is_cluster: false,
        store,
        durability: Durability::Durable,
        front: None,
        cache: None,
        settings: &[],
    }
}

/// Settings that make a PostgreSQL fit on the image, and these.
macro_rules! postgres {
    ($($setting:expr),*) => {
        server("postgres", &[
            ("shared_buffers", "32MB"),
            ("max_wal_size", "256MB"),
            ("max_connections", "100"),
            $($setting),*
        ])
    };
}

/// Settings that make a MariaDB, or the nodes of another server, fit on the image, and these.
macro_rules! mariadb {
    ($name:literal, $($setting:expr),*) => {
        server($name, &[
            ("innodb-buffer-pool-size", "64M"),
            ("innodb-log-file-size", "64M"),
            $($setting),*
        ])
    };
    ($($setting:expr),*) => {
        mariadb!("mariadb", $($setting),*)
    };
}

/// Settings that make a MySQL fit on the image, and these.
macro_rules! mysql {
    ($($setting:expr),*) => {
        server("mysql", &[
            ("innodb-buffer-pool-size", "64M"),
            ("innodb-redo-log-capacity", "64M"),
            $($setting),*
        ])
    };
}

const REDIS: Setup = server("redis", &[]);
const VALKEY: Setup = server("valkey", &[]);
const EVERYSEC: Settings = &[("appendfsync", "everysec")];
const NO_AOF: Settings = &[("appendonly", "no")];

const GROUPS: &[Group] = &[
    Group {
        product: "PostgreSQL",
        setup: postgres!(),
        hold: &[
            ("postgres/power-cut", Kind::PowerCut, postgres::KILLED),
            ("postgres/server-kill", Kind::ServerKill, postgres::KILLED),
            ("postgres/server-stop", Kind::ServerStop, postgres::LAWS),
            ("postgres/worker-kill", Kind::WorkerKill, postgres::WORKER),
            ("postgres/worker-stop", Kind::WorkerStop, postgres::LAWS),
            (
                "postgres/fsync-error",
                Kind::FailingWrites,
                postgres::KILLED,
            ),
            ("postgres/write-back", Kind::WriteBack, postgres::KILLED),
            ("postgres/disk-full", Kind::FullDisk, postgres::ERROR),
            (
                "postgres/requests-cut",
                Kind::Cut(Way::Requests),
                postgres::ERROR,
            ),
            (
                "postgres/answers-cut",
                Kind::Cut(Way::Answers),
                postgres::ERROR,
            ),
            ("postgres/partition", Kind::Cut(Way::Both), postgres::ERROR),
            (
                "postgres/clock",
                Kind::Clock(Steps::WithoutPurge),
                postgres::CLOCK,
            ),
        ],
        lose: &[(
            "postgres-purge/clock",
            Kind::Clock(Steps::Long),
            postgres::CLOCK,
        )],
    },
    Group {
        product: "PostgreSQL",
        setup: postgres!(("synchronous_commit", "off")),
        hold: &[],
        lose: &[("postgres-async/power-cut", Kind::PowerCut, postgres::ASYNC)],
    },
    Group {
        product: "PostgreSQL",
        setup: postgres!(("fsync", "off")),
        hold: &[],
        lose: &[(
            "postgres-nofsync/power-cut",
            Kind::PowerCut,
            postgres::NO_FSYNC,
        )],
    },
    Group {
        product: "PostgreSQL",
        setup: Setup {
            front: Some("pgbouncer"),
            store: "pgbouncer",
            ..postgres!()
        },
        hold: &[
            ("pgbouncer/pooler-kill", Kind::PoolerKill, postgres::ERROR),
            ("pgbouncer/server-kill", Kind::ServerKill, postgres::KILLED),
            ("pgbouncer/server-stop", Kind::ServerStop, postgres::ERROR),
        ],
        lose: &[],
    },
    Group {
        product: "hybrid",
        setup: Setup {
            cache: Some("redis"),
            ..postgres!()
        },
        hold: &[
            (
                "hybrid/cache-kill",
                Kind::Cache(OnCache::Kill),
                hybrid::SUITE,
            ),
            (
                "hybrid/cache-stop",
                Kind::Cache(OnCache::Stop),
                hybrid::SLOW,
            ),
            (
                "hybrid/cache-flush",
                Kind::Cache(OnCache::Flush),
                hybrid::EMPTY,
            ),
            (
                "hybrid/cache-cut",
                Kind::Cache(OnCache::Cut),
                hybrid::ERRORS,
            ),
            ("hybrid/power-cut", Kind::PowerCut, postgres::KILLED),
            ("hybrid/server-kill", Kind::ServerKill, postgres::KILLED),
            ("hybrid/worker-kill", Kind::WorkerKill, postgres::WORKER),
            ("hybrid/worker-stop", Kind::WorkerStop, hybrid::PAUSED),
        ],
        lose: &[],
    },
    Group {
        product: "SQLite",
        setup: files("sqlite"),
        hold: &[
            ("sqlite/power-cut", Kind::PowerCut, sqlite::POWER),
            ("sqlite/worker-kill", Kind::WorkerKill, sqlite::KILLED),
            ("sqlite/worker-stop", Kind::WorkerStop, sqlite::LAWS),
            ("sqlite/fsync-error", Kind::FailingWrites, sqlite::ERROR),
            ("sqlite/disk-full", Kind::FullDisk, sqlite::ERROR),
        ],
        lose: &[],
    },
    Group {
        product: "SQLite",
        setup: files("sqlite-normal"),
        hold: &[(
            "sqlite-normal/worker-kill",
            Kind::WorkerKill,
            sqlite::NORMAL,
        )],
        lose: &[("sqlite-normal/power-cut", Kind::PowerCut, sqlite::NORMAL)],
    },
    Group {
        product: "Redis",
        setup: REDIS,
        hold: &[
            ("redis/power-cut", Kind::PowerCut, redis::KILLED),
            ("redis/server-kill", Kind::ServerKill, redis::KILLED),
            ("redis/server-stop", Kind::ServerStop, redis::STALLS),
            ("redis/worker-kill", Kind::WorkerKill, redis::WORKER),
            ("redis/worker-stop", Kind::WorkerStop, redis::WORKER),
            ("redis/fsync-error", Kind::FailingWrites, redis::KILLED),
            ("redis/disk-full", Kind::FullDisk, redis::ERROR),
            (
                "redis/requests-cut",
                Kind::Cut(Way::Requests),
                redis::STALLS,
            ),
            ("redis/answers-cut", Kind::Cut(Way::Answers), redis::STALLS),
            ("redis/partition", Kind::Cut(Way::Both), redis::STALLS),
            ("redis/clock", Kind::Clock(Steps::Short), redis::CLOCK),
        ],
        lose: &[("redis-hour/clock", Kind::Clock(Steps::Long), redis::CLOCK)],
    },
    Group {
        product: "Redis",
        setup: server("redis", EVERYSEC),
        hold: &[],
        lose: &[("redis-everysec/power-cut", Kind::PowerCut, redis::EVERYSEC)],
    },
    Group {
        product: "Redis",
        setup: server("redis", NO_AOF),
        hold: &[],
        lose: &[("redis-noaof/power-cut", Kind::PowerCut, redis::NO_AOF)],
    },
    Group {
        product: "Redis",
        setup: server("redis", &[("maxmemory", "64mb")]),
        hold: &[("redis-full/memory", Kind::FullMemory, redis::FULL)],
        lose: &[],
    },
    Group {
        product: "Redis",
        setup: Setup {
            store: "evicting",
            ..server(
                "redis",
                &[("maxmemory", "64mb"), ("maxmemory-policy", "allkeys-lru")],
            )
        },
        hold: &[],
        lose: &[("redis-evicting/memory", Kind::FullMemory, redis::EVICTING)],
    },
    Group {
        product: "Valkey",
        setup: VALKEY,
        hold: &[
            ("valkey/power-cut", Kind::PowerCut, redis::KILLED),
            ("valkey/server-kill", Kind::ServerKill, redis::KILLED),
            ("valkey/server-stop", Kind::ServerStop, redis::STALLS),
            ("valkey/worker-kill", Kind::WorkerKill, redis::WORKER),
            ("valkey/worker-stop", Kind::WorkerStop, redis::WORKER),
            ("valkey/fsync-error", Kind::FailingWrites, redis::KILLED),
            ("valkey/disk-full", Kind::FullDisk, redis::ERROR),
            (
                "valkey/requests-cut",
                Kind::Cut(Way::Requests),
                redis::STALLS,
            ),
            ("valkey/answers-cut", Kind::Cut(Way::Answers), redis::STALLS),
            ("valkey/partition", Kind::Cut(Way::Both), redis::STALLS),
            ("valkey/clock", Kind::Clock(Steps::Short), redis::CLOCK),
        ],
        lose: &[("valkey-hour/clock", Kind::Clock(Steps::Long), redis::CLOCK)],
    },
    Group {
        product: "Valkey",
        setup: server("valkey", EVERYSEC),
        hold: &[],
        lose: &[("valkey-everysec/power-cut", Kind::PowerCut, redis::EVERYSEC)],
    },
    Group {
        product: "Valkey",
        setup: server("valkey", NO_AOF),
        hold: &[],
        lose: &[("valkey-noaof/power-cut", Kind::PowerCut, redis::NO_AOF)],
    },
    Group {
        product: "MariaDB",
        setup: mariadb!(),
        hold: &[
            ("mariadb/power-cut", Kind::PowerCut, mysql::KILLED),
            ("mariadb/server-kill", Kind::ServerKill, mysql::KILLED),
            ("mariadb/server-stop", Kind::ServerStop, mysql::LAWS),
            ("mariadb/worker-kill", Kind::WorkerKill, mysql::WORKER),
            ("mariadb/worker-stop", Kind::WorkerStop, mysql::LAWS),
            ("mariadb/disk-full", Kind::FullDisk, mysql::ERROR),
            ("mariadb/answers-cut", Kind::Cut(Way::Answers), mysql::ERROR),
            ("mariadb/partition", Kind::Cut(Way::Both), mysql::ERROR),
            (
                "mariadb/clock",
                Kind::Clock(Steps::WithoutPurge),
                mysql::CLOCK,
            ),
        ],
        lose: &[
            (
                "mariadb-purge/clock",
                Kind::Clock(Steps::Long),
                mysql::CLOCK,
            ),
            ("mariadb/fsync-error", Kind::FailingWrites, mysql::SHOWN),
        ],
    },
    Group {
        product: "MariaDB",
        setup: mariadb!(("innodb-flush-log-at-trx-commit", "2")),
        hold: &[],
        lose: &[("mariadb-flush2/power-cut", Kind::PowerCut, mysql::FLUSH)],
    },
    Group {
        product: "MariaDB",
        setup: mariadb!(("innodb-flush-log-at-trx-commit", "0")),
        hold: &[],
        lose: &[("mariadb-flush0/power-cut", Kind::PowerCut, mysql::FLUSH)],
    },
    Group {
        product: "MariaDB",
        setup: mariadb!(
            ("log-bin", "binlog"),
            ("server-id", "1"),
            ("sync-binlog", "1")
        ),
        hold: &[
            ("mariadb-binlog/power-cut", Kind::PowerCut, mysql::KILLED),
            (
                "mariadb-binlog/fsync-error",
                Kind::FailingWrites,
                mysql::KILLED,
            ),
        ],
        lose: &[],
    },
    Group {
        product: "MariaDB",
        setup: mariadb!(
            ("log-bin", "binlog"),
            ("server-id", "1"),
            ("sync-binlog", "0")
        ),
        hold: &[],
        lose: &[("mariadb-binlog0/power-cut", Kind::PowerCut, mysql::BINLOG)],
    },
    Group {
        product: "MariaDB Galera",
        setup: Setup {
            is_cluster: true,
            ..mariadb!("galera",)
        },
        hold: &[("galera/power-cut", Kind::PowerCut, mysql::KILLED)],
        lose: &[],
    },
    Group {
        product: "MariaDB Galera",
        setup: Setup {
            is_cluster: true,
            ..mariadb!("galera", ("innodb-flush-log-at-trx-commit", "0"))
        },
        hold: &[],
        lose: &[("galera-flush0/power-cut", Kind::PowerCut, mysql::FLUSH)],
    },
    Group {
        product: "MySQL",
        setup: mysql!(),
        hold: &[
            ("mysql/power-cut", Kind::PowerCut, mysql::KILLED),
            ("mysql/server-kill", Kind::ServerKill, mysql::KILLED),
            ("mysql/server-stop", Kind::ServerStop, mysql::LAWS),
            ("mysql/worker-kill", Kind::WorkerKill, mysql::WORKER),
            ("mysql/worker-stop", Kind::WorkerStop, mysql::LAWS),
            ("mysql/fsync-error", Kind::FailingWrites, mysql::KILLED),
            ("mysql/disk-full", Kind::FullDisk, mysql::ERROR),
            ("mysql/answers-cut", Kind::Cut(Way::Answers), mysql::ERROR),
            ("mysql/partition", Kind::Cut(Way::Both), mysql::ERROR),
            (
                "mysql/clock",
                Kind::Clock(Steps::WithoutPurge),
                mysql::CLOCK,
            ),
        ],
        lose: &[("mysql-purge/clock", Kind::Clock(Steps::Long), mysql::CLOCK)],
    },
    Group {
        product: "MySQL",
        setup: mysql!(("innodb-flush-log-at-trx-commit", "2")),
        hold: &[],
        lose: &[("mysql-flush2/power-cut", Kind::PowerCut, mysql::FLUSH)],
    },
    Group {
        product: "MySQL",
        setup: mysql!(("innodb-flush-log-at-trx-commit", "0")),
        hold: &[],
        lose: &[("mysql-flush0/power-cut", Kind::PowerCut, mysql::FLUSH)],
    },
    Group {
        product: "MySQL",
        setup: mysql!(
            ("log-bin", "binlog"),
            ("server-id", "1"),
            ("sync-binlog", "1")
        ),
        hold: &[
            ("mysql-binlog/power-cut", Kind::PowerCut, mysql::KILLED),
            (
                "mysql-binlog/fsync-error",
                Kind::FailingWrites,
                mysql::KILLED,
            ),
        ],
        lose: &[],
    },
    Group {
        product: "MySQL",
        setup: mysql!(
            ("log-bin", "binlog"),
            ("server-id", "1"),
            ("sync-binlog", "0")
        ),
        hold: &[],
        lose: &[("mysql-binlog0/power-cut", Kind::PowerCut, mysql::BINLOG)],
    },
    Group {
        product: "MongoDB-compatible",
        setup: server("mongo", &[]),
        hold: &[
            ("mongo/power-cut", Kind::PowerCut, mongo::KILLED),
            ("mongo/server-kill", Kind::ServerKill, mongo::KILLED),
            ("mongo/server-stop", Kind::ServerStop, mongo::LAWS),
            ("mongo/worker-kill", Kind::WorkerKill, mongo::WORKER),
            ("mongo/worker-stop", Kind::WorkerStop, mongo::LAWS),
            ("mongo/fsync-error", Kind::FailingWrites, mongo::KILLED),
            ("mongo/disk-full", Kind::FullDisk, mongo::ERROR),
            ("mongo/answers-cut", Kind::Cut(Way::Answers), mongo::ERROR),
            ("mongo/partition", Kind::Cut(Way::Both), mongo::ERROR),
            (
                "mongo/clock",
                Kind::Clock(Steps::WithoutPurge),
                mongo::CLOCK,
            ),
        ],
        lose: &[],
    },
    Group {
        product: "MongoDB-compatible",
        setup: Setup {
            durability: Durability::Fast,
            ..server("mongo", &[])
        },
        hold: &[],
        lose: &[("mongo-unsynced/power-cut", Kind::PowerCut, mongo::UNSYNCED)],
    },
];

/// Returns every cell.
#[must_use]
pub fn all() -> Vec<CellSpec> {
    let mut cells = Vec::new();
    for group in GROUPS {
        let hold = group
            .hold
            .iter()
            .map(|row| match SHOWN_EARLY.contains(&row.0) {
                true => (Expects::TakeBack, row),
                false => (Expects::Hold, row),
            });
        let lose = group.lose.iter().map(|row| (Expects::Loss, row));
        for (expects, &(name, kind, guarantee)) in hold.chain(lose) {
            cells.push(CellSpec {
                name,
                product: group.product,
                fault: kind.in_words(),
                expects,
                guarantee,
                setup: group.setup,
                kind,
            });
        }
    }
    cells.extend(cluster::cells());
    cells
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::path::Path;

    use super::all;

    #[test]
    fn names_are_unique_and_guarantees_stand_in_their_files() {
        let mut names = HashSet::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for cell in all() {
            assert!(names.insert(cell.name), "{}", cell.name);
            let (file, sentence) = cell.guarantee.split_once(": ").unwrap();
            if !file.starts_with("documentation of ") {
                let text = std::fs::read_to_string(root.join(file)).unwrap();
                assert!(plain(&text).contains(&plain(sentence)), "{}", cell.name);
            }
        }
    }
}
