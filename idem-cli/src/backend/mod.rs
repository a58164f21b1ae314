//! [`open`] and [`connect`]: stores by their URLs. One file for each kind of store.

#[cfg(feature = "redis")]
mod cache;
#[cfg(feature = "mongo")]
mod mongo;
#[cfg(feature = "mssql")]
mod mssql;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BatchStore, IdempotencyStore};

use crate::args::StoreArgs;
use crate::doctor::Findings;
use crate::failure::{Failure, Result};
use crate::keys;

/// What a store is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To work with its records.
    Use,
    /// To create what is missing.
    Create,
    /// To check it: settings are refused that `Use` puts up with.
    Verify,
    /// To report everything that is wrong.
    Examine,
}

/// An open store, with what the kind of store has beyond [`IdempotencyStore`].
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// Returns the store.
    fn store(&self) -> Arc<dyn BatchStore>;

    /// Creates what is missing; on Redis, checks the server.
    async fn migrate(&self) -> idem_core::Result<()>;

    /// Checks server and tables, without a change that stays.
    async fn verify(&self) -> idem_core::Result<()>;

    /// Reports settings, clock and role of the server.
    async fn examine(&self, findings: &mut Findings) -> Result<()>;

    /// Removes the tables, or SQLite's file, with everything in them.
    #[cfg(feature = "certify")]
    async fn destroy(&self) -> Result<()>;
}

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Mongo,
    Mssql,
    Mysql,
    Postgres,
    Redis,
    Sqlite,
}

impl Kind {
    /// Returns the kind of store of the URL.
    ///
    /// # Errors
    ///
    /// A usage error for another scheme, and where this program was built without the store.
    pub(crate) fn of(args: &StoreArgs) -> Result<Self> {
        let url = args.url()?;
        let kind = match url.scheme().as_str() {
            "mongodb" | "mongodb+srv" => Self::Mongo,
            "mssql" | "sqlserver" => Self::Mssql,
            "mysql" | "mariadb" => Self::Mysql,
            "postgres" | "postgresql" => Self::Postgres,
            "redis" | "rediss" | "valkey" | "valkeys" | "redis+unix" | "unix" | "redis-cluster"
            | "rediss-cluster" | "redis-sentinel" | "rediss-sentinel" => Self::Redis,
            "sqlite" => Self::Sqlite,
            _ => {
                return Err(Failure::usage(format!(
                    "{url} is not the URL of a store; it begins with sqlite:, postgres://, mysql://, mariadb://, \
                     mssql://, mongodb://, redis://, rediss://, redis-cluster:// or redis-sentinel://"
                )));
            }
        };
        let (feature, is_built) = kind.feature();
        match is_built {
            true => Ok(kind),
            false => Err(Failure::usage(format!(
                "this `idem` was built without {feature}; install one with it: `cargo install idem-cli --features {feature}`"
            ))),
        }
    }

    fn feature(self) -> (&'static str, bool) {
        match self {
            Self::Mongo => ("mongo", cfg!(feature = "mongo")),
            Self::Mssql => ("mssql", cfg!(feature = "mssql")),
            Self::Mysql => ("mysql", cfg!(feature = "mysql")),
            Self::Postgres => ("postgres", cfg!(feature = "postgres")),
            Self::Redis => ("redis", cfg!(feature = "redis")),
            Self::Sqlite => ("sqlite", cfg!(feature = "sqlite")),
        }
    }
}

/// Opens the store, behind its keys if there are any.
///
/// # Errors
///
/// A usage error for a bad URL, a missing feature or bad keys; the store's own errors.
pub(crate) async fn open(args: &StoreArgs) -> Result<Arc<dyn IdempotencyStore>> {
    keys::in_front(args, open_bare(args).await?)
}

/// Opens the store as it is.
///
/// # Errors
///
/// As for [`open`].
pub(crate) async fn open_bare(args: &StoreArgs) -> Result<Arc<dyn IdempotencyStore>> {
    let store: Arc<dyn IdempotencyStore> = connect(args, Purpose::Use).await?.store();
    #[cfg(feature = "redis")]
    return cache::in_front(args, store);
    #[cfg(not(feature = "redis"))]
    match args.cache()? {
        None => Ok(store),
        Some(_) => Err(Failure::usage(
            "this `idem` was built without redis, which caches need; install one with it: `cargo install idem-cli`",
        )),
    }
}

/// Opens the store, with what its kind has.
///
/// # Errors
///
/// As for [`open`].
pub(crate) async fn connect(args: &StoreArgs, purpose: Purpose) -> Result<Box<dyn Backend>> {
    let place = args.url()?.to_string();
    let opened: Result<Box<dyn Backend>> = match Kind::of(args)? {
        #[cfg(feature = "mongo")]
        Kind::Mongo => mongo::connect(args).await,
        #[cfg(feature = "mssql")]
        Kind::Mssql => mssql::connect(args).await,
        #[cfg(feature = "mysql")]
        Kind::Mysql => mysql::connect(args).await,
        #[cfg(feature = "postgres")]
        Kind::Postgres => postgres::connect(args).await,
        #[cfg(feature = "redis")]
        Kind::Redis => redis::connect(args, purpose).await,
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => sqlite::connect(args, purpose).await,
        #[allow(unreachable_patterns, reason = "with all features there is no other")]
        _ => Err(Failure::usage(format!("{purpose:?}: not built"))),
    };
    opened.map_err(|failure| failure.at(&place))
}

/// Returns what `migrate` runs, without a connection.
///
/// # Errors
///
/// A usage error for a bad URL, a bad name, or a missing feature.
pub(crate) fn schema(args: &StoreArgs) -> Result<String> {
    match Kind::of(args)? {
        #[cfg(feature = "mongo")]
        Kind::Mongo => mongo::schema(args),
        #[cfg(feature = "mssql")]
        Kind::Mssql => mssql::schema(args),
        #[cfg(feature = "mysql")]
        Kind::Mysql => mysql::schema(args),
        #[cfg(feature = "postgres")]
        Kind::Postgres => postgres::schema(args),
        #[cfg(feature = "redis")]
        Kind::Redis => Ok("# Redis needs no schema: the first claim creates its key.\n".to_owned()),
        #[cfg(feature = "sqlite")]
        Kind::Sqlite => sqlite::schema(args),
        #[allow(unreachable_patterns, reason = "with all features there is no other")]
        kind => Err(Failure::usage(format!("{kind:?}: not built"))),
    }
}

/// Returns the error of a question to the server beside the store's. A driver's error may quote
/// data, so its text is not shown.
pub(crate) fn unanswered(what: &str, error: impl fmt::Debug) -> Failure {
    drop(error);
    Failure::store(format!("the server did not answer for {what}"))
}

/// Refuses an option that the kind of store does not have.
pub(crate) fn refuse_schema(args: &StoreArgs, kind: &str) -> Result<()> {
    match args.schema {
        Some(_) => Err(Failure::usage(format!(
            "{kind} has no schemas; leave out `--schema` and IDEM_SCHEMA"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_scheme_is_refused_without_the_password() {
        for url in ["oracle://me:s3cret@db/x", "me:s3cret@db", ""] {
            let failure = Kind::of(&StoreArgs::of(url)).unwrap_err();
            assert_eq!(failure.exit(), crate::Exit::Usage);
            assert!(!failure.to_string().contains("s3cret"), "{failure}");
        }
        assert!(Kind::of(&StoreArgs::default()).is_err());
    }

    #[test]
    fn a_store_that_is_not_built_in_names_its_feature() {
        for (url, built) in [
            ("mongodb://db", cfg!(feature = "mongo")),
            ("mssql://db", cfg!(feature = "mssql")),
            ("redis://db", cfg!(feature = "redis")),
        ] {
            let kind = Kind::of(&StoreArgs::of(url));
            assert_eq!(kind.is_ok(), built);
            if let Err(failure) = kind {
                assert!(failure.to_string().contains("--features"), "{failure}");
            }
        }
    }
}
