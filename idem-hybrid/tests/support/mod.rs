//! How the tests reach databases with a cache in front.

mod database;
mod harness;
mod private;
mod slow;
mod spoiled;
mod state;
mod unheard;

pub(crate) use database::Database;
pub(crate) use harness::{HybridHarness, Metered, harness, name};
pub(crate) use state::State;
