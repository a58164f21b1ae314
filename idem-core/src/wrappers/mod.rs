//! Stores that wrap a store.

mod batched;
pub mod protected;
mod single_flight;

pub use crate::mask::Mask;
pub use batched::Batched;
pub use protected::Protected;
pub use single_flight::SingleFlight;
