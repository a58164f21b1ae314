//! The families of backends: who tests them, and on which servers.

use crate::Result;

/// A family of rows of the conformance suite: the rows of one package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    /// The name for `--backend`.
    pub(crate) name: &'static str,
    /// The package whose test program `conformance` has the rows.
    pub(crate) package: &'static str,
    /// The servers that a plain `cargo xtask test` starts; a package brings each within seconds.
    pub(crate) quick: &'static [&'static str],
    /// The servers that its other rows need.
    pub(crate) others: &'static [&'static str],
}

pub(crate) const FAMILIES: &[Family] = &[
    family("memory", "idem-conformance", &[], &[]),
    family("sqlite", "idem-sqlite", &[], &[]),
    family("postgres", "idem-postgres", &["postgres"], &["pgbouncer"]),
    family("mysql", "idem-mysql", &["mariadb"], &["mysql", "galera"]),
    family(
        "redis",
        "idem-redis",
        &["redis"],
        &["valkey", "redis-cluster"],
    ),
    family("hybrid", "idem-hybrid", &["redis"], &["postgres", "mysql"]),
    family("mongo", "idem-mongo", &[], &["mongo"]),
    family("dynamodb", "idem-dynamodb", &[], &["dynamodb"]),
    family("duckdb", "idem-duckdb", &[], &[]),
    family("mssql", "idem-mssql", &[], &["mssql"]),
    family("foreign", "idem-foreign-store", &[], &[]),
];

const fn family(
    name: &'static str,
    package: &'static str,
    quick: &'static [&'static str],
    others: &'static [&'static str],
) -> Family {
    Family {
        name,
        package,
        quick,
        others,
    }
}

/// Returns the family of this name, or of this server.
///
/// # Errors
///
/// There is none.
pub(crate) fn named(name: &str) -> Result<&'static Family> {
    let by_name = FAMILIES.iter().find(|family| family.name == name);
    let has = |family: &&Family| family.quick.contains(&name) || family.others.contains(&name);
    by_name
        .or_else(|| FAMILIES.iter().find(has))
        .ok_or_else(|| {
            let known: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
            format!(
                "no backend is called {name}; there are {}",
                known.join(", ")
            )
            .into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_by_its_name_and_by_its_servers() {
        assert_eq!(named("redis").unwrap().package, "idem-redis");
        assert_eq!(named("postgres").unwrap().package, "idem-postgres");
        assert_eq!(named("galera").unwrap().name, "mysql");
        let error = named("oracle").unwrap_err().to_string();
        assert!(error.starts_with("no backend is called oracle; there are memory, sqlite"));
    }

    #[test]
    fn each_server_is_known() {
        for server in FAMILIES
            .iter()
            .flat_map(|family| [family.quick, family.others].concat())
        {
            idem_servers::server(server).unwrap();
        }
    }
}
