//! The mechanism that decides claims, by server.

use crate::config::ClaimMethod;

/// How claims are decided on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// The server has `MERGE … OUTPUT`. A claim locks the key's range.
    Merge,
    /// The same, with locks on rows alone.
    Rows,
    /// The server is not known to have it.
    Insert,
}

impl Dialect {
    /// Returns the caller's choice; `None` where the server decides.
    pub(crate) fn forced(method: ClaimMethod) -> Option<Self> {
        match method {
            ClaimMethod::Auto => None,
            ClaimMethod::Merge => Some(Self::Merge),
            ClaimMethod::MergeWithRowLocks => Some(Self::Rows),
            ClaimMethod::InsertWhereNotExists => Some(Self::Insert),
        }
    }

    pub(crate) fn of(server: Server) -> Self {
        match server {
            Server::Microsoft => Self::Merge,
            Server::Babelfish | Server::Other => Self::Insert,
        }
    }
}

/// The maker of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// SQL Server, Azure SQL.
    Microsoft,
    /// Babelfish for PostgreSQL.
    Babelfish,
    /// Any other maker.
    Other,
}

impl Server {
    /// Reads `@@VERSION`: SQL Server and Azure SQL begin theirs with the maker's name. Babelfish
    /// names itself by default, but its setting `babelfishpg_tsql.version` can change that, so the
    /// store reads `SERVERPROPERTY` as well.
    pub(crate) fn of_version(version: &str) -> Self {
        if version.contains("Babelfish") {
            Self::Babelfish
        } else if version.starts_with("Microsoft SQL ") {
            Self::Microsoft
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_known_is_given_no_merge() {
        for (version, dialect) in [
            (
                "Microsoft SQL Server 2022 (RTM-CU14) (KB5038325) - 16.0.4135.4 (X64) \n\t…",
                Dialect::Merge,
            ),
            (
                "Microsoft SQL Azure (RTM) - 12.0.2000.8 \n\tApr 3 2025",
                Dialect::Merge,
            ),
            (
                "Babelfish for Aurora PostgreSQL with SQL Server Compatibility - 12.0.2000.8",
                Dialect::Insert,
            ),
            ("Adaptive Server Enterprise/16.0", Dialect::Insert),
            ("", Dialect::Insert),
        ] {
            assert_eq!(
                Dialect::of(Server::of_version(version)),
                dialect,
                "{version}"
            );
        }
    }

    #[test]
    fn the_callers_choice_stands() {
        for (method, dialect) in [
            (ClaimMethod::Auto, None),
            (ClaimMethod::Merge, Some(Dialect::Merge)),
            (ClaimMethod::MergeWithRowLocks, Some(Dialect::Rows)),
            (ClaimMethod::InsertWhereNotExists, Some(Dialect::Insert)),
        ] {
            assert_eq!(Dialect::forced(method), dialect);
        }
    }
}
