//! Stores that wrap a store.

mod single_flight;

pub use single_flight::SingleFlight;
