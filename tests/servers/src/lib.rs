//! Real database servers for tests: found, started, crashed, thrown away.
//!
//! Each database comes from the first of these sources that has it: a URL in the environment
//! (`IDEM_POSTGRES_URL`), a container where an engine answers, programs on this machine, and on
//! Debian and Ubuntu as root the distribution's packages, installed on the spot. The packages of
//! MySQL and Valkey are only unpacked, into a folder of their own, which takes no root; cargo
//! builds the stand-in for MongoDB. `IDEM_SERVER_SOURCE` (`env`, `container`, `local`, `packages`)
//! forces one source.
//!
//! A test that only needs *a* server calls [`url_for`]. A test that crashes its server starts one
//! of its own:
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
//! It can also be frozen and thawed, and take settings by their own names
//! ([`Options::with_setting`]). A cluster's nodes are killed one by one: [`start_private_cluster`]
//! and [`Cluster`].
//!
//! The server ends and its folder goes when the [`Instance`] is dropped, and also when the process
//! that holds it is killed or interrupted: a small watchdog sees to that.
//!
//! The client programs that come with a server tell whether it is ready, and its version.
//!
//! One database is one file: describe it as a [`Server`] and add a line to the table in
//! `server.rs`.

mod certificate;
mod cluster;
mod container;
mod engine;
mod error;
mod finder;
mod folder;
mod galera;
mod instance;
mod local;
mod mariadb;
mod mongo;
mod mssql;
mod mysql;
mod nats;
mod options;
mod packages;
mod pgbouncer;
mod port;
mod postgres;
mod process;
mod redis;
mod redis_cluster;
mod secantus;
mod sentinel;
mod server;
mod site;
mod source;
mod state;
mod tools;
mod unpacked;
mod valkey;
mod watchdog;

pub use cluster::Cluster;
pub use engine::engine;
pub use error::{Error, ErrorKind, Result};
pub use finder::{Finder, start_private, start_private_cluster};
pub use instance::Instance;
pub use options::{Durability, Lifetime, Options, Transport};
pub use packages::{install, is_installed};
pub use process::{Identity, Signal};
pub use sentinel::RedisSentinel;
pub use server::{Image, Product, Server, server, servers, variable};
pub use source::Source;
pub use state::{Record, State, missing_reason, url_for};

pub(crate) use site::Site;
