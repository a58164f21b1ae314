//! Stores that wrap a store.

mod coalesced;
mod flight;
mod single_flight;

pub use coalesced::Coalesced;
pub use single_flight::SingleFlight;
