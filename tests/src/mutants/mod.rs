//! Stores that are wrong on purpose: a suite that never failed proves nothing.
//!
//! One small store, correct as long as its [`Bug`] is [`Bug::None`]. Any other bug makes one
//! mistake that occurs in practice. `tests/mutants` of this crate asserts which case rejects each.

mod admin;
mod batch;
mod bug;
mod capabilities;
mod disguise;
mod harness;
mod operations;
mod row;
mod store;
mod transactions;

pub use bug::Bug;
pub use harness::MutantHarness;
pub use store::MutantStore;
