//! Fail-overs between real servers. Each scenario starts servers of its own, waits for conditions
//! instead of times, and leaves a history.
//!
//! A scenario notes each fail-over as a possible loss ([`Op::Loss`](crate::spec::Op::Loss)). A
//! configuration that promises to lose nothing is judged [without](without_losses) them.

mod cell;
mod galera;
mod group;
mod group_replication;
mod kept;
mod patroni;
pub mod postgres;
pub mod redis;
mod redis_cluster;
mod router;
mod scene;
mod semi_sync;
mod sentinel;
mod table;

pub(crate) use cell::{FailOver, run};
pub use scene::{Caller, Scene, Told, without_losses};
pub(crate) use table::cells;
