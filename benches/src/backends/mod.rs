//! The family's own backends.

mod memory;
mod mongo;
mod mysql;
mod postgres;
mod redis;
mod sqlite;

use std::time::{SystemTime, UNIX_EPOCH};

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

/// The columns of a bulk load's rows, which are like those of fresh claims.
const LOADED: &str = "idem_records (scope, operation, id, attempt_id, fingerprint, token,
    created_at, lease_ends_at, expires_at, purge_at, attempts, state)";

/// The common part of such rows: the fingerprint in hexadecimal digits, and the columns after it.
struct LoadedRow {
    fingerprint: String,
    numbers: String,
}

impl LoadedRow {
    /// Returns a row of this moment with this text between numbers.
    fn now(between: &str) -> Self {
        let request = request("loaded");
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = since.unwrap_or_default();
        let lease_ends_at = now + request.lease();
        let expires_at = lease_ends_at + request.retention();
        let instants = [now, now, lease_ends_at, expires_at, expires_at];
        let numbers = instants.map(|instant| instant.as_micros());
        let numbers = numbers.into_iter().chain([1, 0]);
        let numbers: Vec<_> = numbers.map(|number| number.to_string()).collect();
        let fingerprint = fingerprint().to_bytes();
        let digits = fingerprint.iter().map(|byte| format!("{byte:02x}"));
        Self {
            fingerprint: digits.collect(),
            numbers: numbers.join(between),
        }
    }
}

/// Returns the script that inserts so many rows into the store's table.
fn fill(script: &str, rows: u64, ends_in: i64) -> String {
    script
        .replace("{rows}", &rows.to_string())
        .replace("{ends}", &ends_in.to_string())
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
        "postgres" => postgres::backend(name, url(name)?),
        // The path `hybrid` puts the cache in front of this database.
        "hybrid" => {
            let database = url("postgres")?;
            url("redis")?;
            postgres::backend(name, database)
        }
        "mariadb" | "mysql" => mysql::backend(name, url(name)?),
        "redis" | "valkey" => redis::backend(name, url(name)?),
        "mongo" => mongo::backend(url(name)?),
        _ => return None,
    })
}

/// Makes a type of bare statements: the constants `INSERT`, `UPDATE` and `SELECT`, which differ in
/// their text, on `$connection`: a pool, or a connection. Parameters of `UPDATE` are response and
/// id.
macro_rules! statements {
    ($type:ident($inner:ty), $self:ident => $connection:expr) => {
        struct $type($inner);

        #[async_trait]
        impl Statements for $type {
            async fn insert(&$self, id: &str) -> Result<(), BoxError> {
                let insert = sqlx::query(INSERT).bind(id);
                one_row(insert.execute($connection).await?.rows_affected())
            }

            async fn update(&$self, id: &str, response: &[u8]) -> Result<(), BoxError> {
                let update = sqlx::query(UPDATE).bind(response).bind(id);
                one_row(update.execute($connection).await?.rows_affected())
            }

            async fn select(&$self, id: &str) -> Result<usize, BoxError> {
                let select = sqlx::query(SELECT).bind(id);
                let row = select.fetch_one($connection).await?;
                Ok(row.try_get::<&[u8], _>(0)?.len())
            }
        }
    };
}

use statements;
