//! Stores that wrap a store.

mod batched;
mod flight;
mod single_flight;

pub use batched::Batched;
pub use single_flight::SingleFlight;
