//! URLs of `--store`, also of a cache in front of a database.

use idem_stores::ServerUrl;

/// A kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Product {
    Sqlite,
    Postgres,
    MySql,
    Mssql,
    Mongo,
    /// Redis or Valkey, the only one that can be a cache.
    Redis,
}

impl Product {
    /// Returns the kind of store at this URL; the scheme if there is none.
    pub(crate) fn of(url: &str) -> Result<Self, &str> {
        let scheme = url.split(':').next().unwrap_or_default();
        Ok(match scheme {
            "sqlite" => Self::Sqlite,
            "postgres" | "postgresql" => Self::Postgres,
            "mysql" | "mariadb" => Self::MySql,
            "mssql" | "sqlserver" => Self::Mssql,
            "mongodb" => Self::Mongo,
            "redis" | "rediss" | "valkey" | "valkeys" => Self::Redis,
            unknown => return Err(unknown),
        })
    }
}

/// Splits `hybrid+CACHE+DATABASE` into cache and database. A plus sign alone may be part of a
/// password.
pub(crate) fn tiers(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("hybrid+")?;
    let splits = rest.match_indices('+');
    let mut tiers = splits.map(|(at, plus)| (&rest[..at], &rest[at + plus.len()..]));
    let tiers = tiers.find(|(_, database)| is_database(database))?;
    (Product::of(rest) == Ok(Product::Redis)).then_some(tiers)
}

fn is_database(url: &str) -> bool {
    Product::of(url).is_ok_and(|product| product != Product::Redis)
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
