//! URLs of `--store`, also of a cache in front of a database.

use idem_stores::ServerUrl;

/// The schemes of databases that can be behind a cache.
const DATABASES: &[&str] = &[
    "sqlite:",
    "postgres://",
    "postgresql://",
    "mysql://",
    "mariadb://",
    "mssql://",
    "sqlserver://",
    "mongodb://",
];

/// Returns the part before the first colon.
pub(crate) fn scheme(url: &str) -> &str {
    url.split(':').next().unwrap_or_default()
}

/// Returns whether the scheme is that of a Redis or a Valkey.
pub(crate) fn is_redis(scheme: &str) -> bool {
    matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys")
}

/// Splits `hybrid+CACHE+DATABASE` into cache and database. A plus sign alone may be part of a
/// password.
pub(crate) fn tiers(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("hybrid+")?;
    let begins_database = |at: &usize| {
        let rest = &rest[at + 1..];
        DATABASES.iter().any(|database| rest.starts_with(database))
    };
    let plus = rest.match_indices('+').map(|(at, _)| at);
    let at = plus.into_iter().find(begins_database)?;
    is_redis(scheme(rest)).then(|| (&rest[..at], &rest[at + 1..]))
}

/// Returns `host:port/database` of a server's URL, or of each node's.
pub(crate) fn without_credentials(urls: &str) -> String {
    ServerUrl::from(urls).without_credentials()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_has_a_cache_and_a_database() {
        for (url, tiers_of_it) in [
            (
                "hybrid+redis://:a+b@one:1+postgres://me:x+y@two/idem",
                Some(("redis://:a+b@one:1", "postgres://me:x+y@two/idem")),
            ),
            (
                "hybrid+redis://one,redis://two+sqlite:/a+b.db",
                Some(("redis://one,redis://two", "sqlite:/a+b.db")),
            ),
            ("hybrid+redis://one", None),
            ("hybrid+mysql://one+postgres://two", None),
            ("hybrid+redis://one+redis://two", None),
            ("redis://one", None),
        ] {
            assert_eq!(tiers(url), tiers_of_it, "{url}");
        }
    }
}
