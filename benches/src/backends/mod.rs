//! The family's own backends: harness, bare statements, and what fills their tables.

mod hybrid;
mod memory;
mod mongo;
mod mysql;
mod postgres;
mod redis;
mod sqlite;
mod statements;

use std::sync::Arc;

use idem_core::AttemptId;

pub use hybrid::{Hybrid, Store as HybridOverDatabase};
pub(crate) use statements::statements;

use crate::Subject;

/// How many connections a bare pool has: as many as sqlx gives a pool.
const POOL: u32 = 10;

/// How many connections are held by bare statements at their best, and how many a store has that is compared with them.
const HELD: u32 = 64;

/// The backends, in the order of reports.
pub const NAMES: [&str; 9] = [
    "memory", "sqlite", "postgres", "mariadb", "mysql", "redis", "valkey", "mongo", "hybrid",
];

/// The name of a fresh namespace.
fn namespace() -> String {
    let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
    format!("idem_bench_{:016x}", random as u64)
}

/// `IDEM_BENCH_HELD` connections are held by bare statements at most, where it is set: to find out how many are best.
fn held(best: u32) -> usize {
    let set = std::env::var("IDEM_BENCH_HELD").ok();
    set.and_then(|set| set.parse().ok())
        .unwrap_or(best as usize)
}

/// Where the server is; a line on standard error tells that it is missing.
fn url(name: &str) -> Option<String> {
    let url = idem_servers::url_for(name);
    if url.is_none() {
        eprintln!("not run: {}", idem_servers::missing_reason(name));
    }
    url
}

/// The backend of this name; none where its server is missing, of which a line on standard error tells.
#[must_use]
pub fn subject(name: &str) -> Option<Subject> {
    Some(match name {
        "memory" => memory::subject(),
        "sqlite" => sqlite::subject(),
        "postgres" => postgres::subject(url(name)?),
        "mariadb" => mysql::subject("mariadb", url(name)?),
        "mysql" => mysql::subject("mysql", url(name)?),
        "redis" => redis::subject("redis", url(name)?),
        "valkey" => redis::subject("valkey", url(name)?),
        "mongo" => mongo::subject(url(name)?),
        "hybrid" => Subject::new(Arc::new(hybrid()?)),
        _ => return None,
    })
}

/// Redis in front of PostgreSQL; none where one of them is missing, of which a line on standard error tells.
#[must_use]
pub fn hybrid() -> Option<Hybrid> {
    let database = postgres::subject(url("postgres")?);
    Some(Hybrid::new(database, url("redis")?))
}
