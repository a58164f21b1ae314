//! Real database servers for tests: found, started, killed, removed.
//!
//! Each database comes from the first of these sources that has it: a URL in the environment
//! (`IDEM_POSTGRES_URL`), programs on this machine, the distribution's packages, and a container of
//! the official image, if an engine answers. Packages are installed on demand, on Debian and Ubuntu
//! as root. Those of MySQL, Valkey and Patroni are only unpacked, into their own folder, without
//! root; cargo builds the stand-ins for MongoDB and DynamoDB. `IDEM_SERVER_SOURCE` (`env`, `local`,
//! `packages`, `container`) forces one source.
//!
//! A test that needs any server calls [`url_for`]. A test that kills its server starts a private
//! one:
//!
//! ```no_run
//! use idem_servers::{Durability, Options, start_private};
//!
//! # fn main() -> Result<(), idem_servers::Error> {
//! let durable = Options::new().with_durability(Durability::Durable);
//! let mut server = start_private("postgres", &durable)?;
//! server.kill()?; // SIGKILL, to every process of the server
//! server.restart()?; // same data, same port, same URL
//! println!("{} at {}", server.product(), server.url());
//! # Ok(())
//! # }
//! ```
//!
//! A test can also freeze and thaw it, and pass settings by the server's own names
//! ([`Options::with_setting`]). A cluster's nodes are killed one by one: [`start_private_cluster`]
//! and [`Cluster`].
//!
//! A small watchdog ends the server and removes its folder when the [`Instance`] is dropped, and
//! when the process that holds it is killed or interrupted.
//!
//! The server's own client programs report whether it is ready, and its version.
//!
//! Each database has one file: describe it as a [`Server`] and add a line to the table in
//! `servers.rs`.

mod built;
mod cluster;
mod container;
mod dynamodb;
mod error;
mod etcd;
mod finder;
mod folder;
mod galera;
mod instance;
mod mariadb;
mod mongo;
mod mssql;
mod mysql;
mod nats;
mod node;
mod options;
mod packages;
mod patroni;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod redis;
mod redis_cluster;
mod secantus;
mod sentinel;
mod server;
mod servers;
mod state;
mod template;
mod tools;
mod unpacked;
mod valkey;
mod watchdog;

pub use cluster::Cluster;
pub use error::{Error, ErrorKind, Result};
pub use finder::{Finder, Source, no_private, start_private, start_private_cluster};
pub use instance::Instance;
pub use options::{Durability, Options, Transport};
pub use packages::{install, is_installed};
pub use patroni::Patroni;
pub use postgres::PostgresStandby;
pub use sentinel::RedisSentinel;
pub use server::{Product, Server, variable};
pub use servers::{server, servers};
pub use state::{Record, State, missing_reason, url_for};
