//! Stores that are wrong on purpose: a suite that never failed proves nothing.
//!
//! One small store, right in every respect as long as its [`Bug`] is [`Bug::None`]. With any other,
//! one thing in it is done as it is done wrong in practice. `tests/mutants` of this crate asserts
//! by which case each is rejected.

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
