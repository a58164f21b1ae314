//! Stores that wrap a store.

mod batched;
mod single_flight;

pub use batched::Batched;
pub use single_flight::SingleFlight;
