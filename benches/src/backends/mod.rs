//! The family's own backends.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod loaded;
mod memory;
#[cfg(feature = "mongo")]
mod mongo;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
mod sqlite;

use idem_bench_rows::BACKENDS;

use crate::Backend;

/// How many connections bare statements hold at their best, and how many the store has. In one race
/// of 8, 16, 32 and 64 connections, 64 inserted most: more of them share each flush.
pub const HELD: u32 = 64;

/// Returns the names of the backends, in the order of reports.
#[must_use]
pub fn names() -> [&'static str; BACKENDS.len()] {
    BACKENDS.map(|(name, ..)| name)
}

/// Returns the server's URL; `None`, with a line on standard error, if the server is missing.
fn url(name: &str) -> Option<String> {
    let url = idem_servers::url_for(name);
    if url.is_none() {
        eprintln!("not run: {}", idem_servers::missing_reason(name));
    }
    url
}

/// Says on standard error that a backend or a path is not compiled in.
pub(crate) fn lacks(name: &str, feature: &str) {
    eprintln!("not run: {name} is not compiled in: --features {feature}");
}

/// Returns the backend of this name; `None`, with a line on standard error, if it is not compiled
/// in or a server of it is missing.
#[must_use]
pub fn backend(name: &str) -> Option<Backend> {
    let mut known = BACKENDS.iter();
    let Some((_, feature, servers)) = known.find(|(known, ..)| *known == name) else {
        eprintln!("not run: no backend is called {name}");
        return None;
    };
    let open: fn(&str, String) -> Backend = match name {
        "memory" => |_, _| memory::backend(),
        #[cfg(feature = "sqlite")]
        "sqlite" => |_, _| sqlite::backend(),
        #[cfg(feature = "postgres")]
        "postgres" => postgres::backend,
        #[cfg(feature = "mysql")]
        "mariadb" | "mysql" => mysql::backend,
        #[cfg(feature = "redis")]
        "redis" | "valkey" => redis::backend,
        #[cfg(feature = "mongo")]
        "mongo" => mongo::backend,
        // The path `hybrid` puts the cache in front of this database.
        #[cfg(feature = "hybrid")]
        "hybrid" => postgres::backend,
        _ => {
            lacks(name, feature);
            return None;
        }
    };
    let urls: Option<Vec<_>> = servers.iter().map(|server| url(server)).collect();
    Some(open(name, urls?.into_iter().next().unwrap_or_default()))
}
