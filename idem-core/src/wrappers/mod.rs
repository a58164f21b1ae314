//! Stores that wrap a store.

mod batched;
pub mod protected;

pub use crate::mask::Mask;
pub use batched::Batched;
pub use protected::Protected;
