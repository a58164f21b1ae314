//! A store behind TCP, to test the suite's own network machinery on any machine: proxies, lost
//! answers, processes that share a store, without a database server.
//!
//! One line of JSON per request and answer. Not for production: no authentication, no limits.

mod capabilities;
mod client;
mod harness;
mod protocol;
mod server;

pub use client::{Lie, RemoteStore};
pub use harness::RemoteHarness;
pub use server::Server;
