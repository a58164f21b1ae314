//! The family's own backends.

mod hybrid;
mod memory;
mod mongo;
mod mysql;
mod postgres;
mod redis;
mod sqlite;
mod statements;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use idem_core::AttemptId;

pub(crate) use hybrid::Hybrid;
pub(crate) use statements::statements;

use crate::Backend;
use crate::ids::{fingerprint, request};

/// The size of a bare pool: the default of sqlx.
const POOL: u32 = 10;

/// How many connections bare statements hold at their best, and how many the store has. In one race
/// of 8, 16, 32 and 64 connections, 64 inserted most: more of them share each flush.
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

/// What the rows of a bulk load have in common with a claim's: instants in microseconds, and the
/// fingerprint in hexadecimal digits.
struct LoadedRow {
    now: u128,
    lease_ends_at: u128,
    expires_at: u128,
    fingerprint: String,
}

impl LoadedRow {
    fn now() -> Self {
        let request = request("loaded");
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.unwrap_or_default();
        let lease_ends_at = now + request.lease();
        let expires_at = lease_ends_at + request.retention();
        let fingerprint = fingerprint().to_bytes();
        Self {
            now: now.as_micros(),
            lease_ends_at: lease_ends_at.as_micros(),
            expires_at: expires_at.as_micros(),
            fingerprint: fingerprint
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
        }
    }
}

/// Returns the server's URL; `None`, with a line on standard error, if the server is missing.
fn url(name: &str) -> Option<String> {
    let url = idem_servers::url_for(name);
    if url.is_none() {
        eprintln!("not run: {}", idem_servers::missing_reason(name));
    }
    url
}

/// Returns the backend of this name; `None`, with a line on standard error, if its server is
/// missing.
#[must_use]
pub fn backend(name: &str) -> Option<Arc<dyn Backend>> {
    Some(match name {
        "memory" => Arc::new(memory::Memory::default()),
        "sqlite" => Arc::new(sqlite::Sqlite),
        "postgres" => Arc::new(postgres::Postgres::at(url(name)?)),
        "mariadb" => Arc::new(mysql::MySql::at("mariadb", url(name)?)),
        "mysql" => Arc::new(mysql::MySql::at("mysql", url(name)?)),
        "redis" => Arc::new(redis::Redis::at("redis", url(name)?)),
        "valkey" => Arc::new(redis::Redis::at("valkey", url(name)?)),
        "mongo" => Arc::new(mongo::Mongo::at(url(name)?)),
        "hybrid" => Arc::new(hybrid()?),
        _ => return None,
    })
}

/// Returns Redis in front of PostgreSQL; `None` if one of them is missing.
pub(crate) fn hybrid() -> Option<Hybrid> {
    Some(Hybrid::new(backend("postgres")?, url("redis")?))
}
