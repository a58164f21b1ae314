//! The family's own backends.

mod hybrid;
mod memory;
mod mongo;
mod mysql;
mod postgres;
mod redis;
mod sqlite;
mod statements;

use std::time::{SystemTime, UNIX_EPOCH};

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
pub fn backend(name: &str) -> Option<Backend> {
    Some(match name {
        "memory" => memory::backend(),
        "sqlite" => sqlite::backend(),
        "postgres" => postgres::backend(url(name)?),
        "mariadb" | "mysql" => mysql::backend(name, url(name)?),
        "redis" | "valkey" => redis::backend(name, url(name)?),
        "mongo" => mongo::backend(url(name)?),
        "hybrid" => Backend::new(hybrid()?),
        _ => return None,
    })
}

/// Returns Redis in front of PostgreSQL; `None` if one of them is missing.
pub(crate) fn hybrid() -> Option<Hybrid> {
    Some(Hybrid::new(backend("postgres")?, url("redis")?))
}
