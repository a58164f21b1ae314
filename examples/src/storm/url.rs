//! URLs of `--store` beyond a single one: the nodes of a cluster, or a cache in front of a
//! database.

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

/// Splits the URLs of a cluster's nodes at commas. A comma alone may be part of a password.
pub(crate) fn nodes(urls: &str) -> Vec<&str> {
    let mut nodes = Vec::new();
    let mut start = 0;
    for (comma, _) in urls.match_indices(',') {
        if begins_url(&urls[comma + 1..]) {
            nodes.push(&urls[start..comma]);
            start = comma + 1;
        }
    }
    nodes.push(&urls[start..]);
    nodes
}

fn begins_url(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'+';
    text.split_once("://")
        .is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.bytes().all(plain))
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
    let address = |url: &str| {
        let rest = url.split('?').next().unwrap_or_default();
        let rest = rest.rsplit('@').next().unwrap_or_default();
        let rest = rest.split(',').next().unwrap_or_default();
        rest.trim_end_matches('/').to_owned()
    };
    let addresses: Vec<_> = urls.split("://").skip(1).map(address).collect();
    addresses.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = without_credentials("postgres://me:p@ss@db.example:5432/idem?password=x");
        assert_eq!(shown, "db.example:5432/idem");
        let shown = without_credentials("mysql://me:p,x@one/idem,mysql://me:p,x@two:7/idem");
        assert_eq!(shown, "one/idem, two:7/idem");
        let shown = without_credentials("mongodb://me:x@one:27017/?directConnection=true");
        assert_eq!(shown, "one:27017");
    }

    #[test]
    fn nodes_begin_with_a_scheme() {
        assert_eq!(nodes("redis://one"), ["redis://one"]);
        assert_eq!(
            nodes("redis://:a,b@one:1/0,rediss://two:2,valkey://three"),
            ["redis://:a,b@one:1/0", "rediss://two:2", "valkey://three"]
        );
        let set = "mongodb://one:1,two:2/?replicaSet=x";
        assert_eq!(nodes(set), [set]);
    }

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
