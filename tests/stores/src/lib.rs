//! One adapter per backend: where it is, and how its namespaces are made, opened and removed.
//!
//! The conformance suites, the benchmarks and the storm build on the [`Adapter`]s, and each adds
//! what is its own: hostile settings, bare statements, a ledger. Each backend is a feature; the
//! feature `suite` adds [`Suite`], which makes an adapter a target of the suite.

mod adapter;
#[cfg(feature = "suite")]
pub mod callers;
#[cfg(feature = "dynamodb")]
mod dynamodb;
#[cfg(feature = "suite")]
mod kills;
#[cfg(feature = "mongo")]
mod mongo;
#[cfg(all(feature = "mssql", feature = "suite"))]
mod mssql;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "suite")]
mod split;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "suite")]
mod suite;
mod url;

pub use adapter::{Adapter, random_name};
#[cfg(feature = "dynamodb")]
pub use dynamodb::Dynamo;
#[cfg(feature = "suite")]
pub use kills::no_completion_is_lost;
#[cfg(feature = "mongo")]
pub use mongo::Mongo;
#[cfg(feature = "mysql")]
pub use mysql::MySql;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "redis")]
pub use redis::{Connection, Redis};
#[cfg(feature = "suite")]
pub use split::{Rule, no_decision_rests_on_a_replica};
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
#[cfg(feature = "suite")]
pub use suite::{Begun, Suite, found};
pub use url::ServerUrl;
