//! Load generators that servers bring with them, as [`Contender`]s: what a server's own people measure it with.
//!
//! Each makes a table (or keys) of its own, so that it disturbs nobody's rows, with keys of the same length as the
//! store's. [`generator`] knows which server has one for which [`Statement`].

mod mariadb_slap;
mod pgbench;
mod program;
mod rates;
mod redis_benchmark;
mod statement;

pub use mariadb_slap::MariadbSlap;
pub use pgbench::Pgbench;
pub use redis_benchmark::RedisBenchmark;
pub use statement::Statement;

use crate::Contender;

/// The load generator of the server at `url` doing this; none where the server has none, or where its program is
/// missing, with a line about that on standard error.
#[must_use]
pub fn generator(backend: &str, statement: Statement, url: &str) -> Option<Box<dyn Contender>> {
    match backend {
        "postgres" => Some(Box::new(Pgbench::new(url, statement)?)),
        "mariadb" => Some(Box::new(MariadbSlap::new(url, statement)?)),
        "redis" | "valkey" => Some(Box::new(RedisBenchmark::new(url, statement)?)),
        _ => None,
    }
}

/// Most connections that a generator opens: as many as callers up to here, so that no server refuses one.
const MOST_CONNECTIONS: usize = 64;

/// How many keys there are to read.
const ROWS: usize = 10_000;

/// What keys begin with, as long as the scope and operation of the store's.
const PREFIX: &str = "bench payments.create ";
