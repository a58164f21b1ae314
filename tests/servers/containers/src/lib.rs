#![doc = include_str!("../README.md")]

mod container;
mod error;
mod images;

pub use container::{Container, start};
pub use error::{Error, ErrorKind, Result};
pub use images::names;

/// Returns a PostgreSQL: user `postgres`, no password, database `idem`.
///
/// # Errors
///
/// An error when no container engine answers ([`ErrorKind::Missing`]), or the server does not start.
pub async fn postgres() -> Result<Container> {
    container::find("postgres").await
}

/// Returns a MySQL: user `idem` with every privilege, password `idem`, database `idem`.
///
/// # Errors
///
/// As for [`postgres`].
pub async fn mysql() -> Result<Container> {
    container::find("mysql").await
}

/// Returns a MariaDB: user `idem` with every privilege, password `idem`, database `idem`.
///
/// # Errors
///
/// As for [`postgres`].
pub async fn mariadb() -> Result<Container> {
    container::find("mariadb").await
}

/// Returns a Redis without a login.
///
/// # Errors
///
/// As for [`postgres`].
pub async fn redis() -> Result<Container> {
    container::find("redis").await
}

/// Returns a Valkey without a login.
///
/// # Errors
///
/// As for [`postgres`].
pub async fn valkey() -> Result<Container> {
    container::find("valkey").await
}

/// Returns a MongoDB without a login, as a replica set of one.
///
/// # Errors
///
/// As for [`postgres`].
pub async fn mongo() -> Result<Container> {
    container::find("mongo").await
}

/// Returns a SQL Server: user `sa`, database `master`, a certificate that it signed itself.
///
/// # Errors
///
/// As for [`postgres`]. Also [`ErrorKind::Missing`] unless `ACCEPT_EULA=Y` accepts the licence of
/// its image.
pub async fn mssql() -> Result<Container> {
    container::find("mssql").await
}

/// Returns a DynamoDB Local, in memory.
///
/// # Errors
///
/// As for [`postgres`]. Also [`ErrorKind::Missing`] unless `ACCEPT_DYNAMODB_LOCAL_LICENCE=Y` accepts
/// the licence of its image.
pub async fn dynamodb() -> Result<Container> {
    container::find("dynamodb").await
}

/// Returns a NATS with JetStream, without a login: a broker, no store.
///
/// # Errors
///
/// As for [`postgres`].
pub async fn nats() -> Result<Container> {
    container::find("nats").await
}
