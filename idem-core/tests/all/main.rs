//! The crate's tests, in one program: each costs a link.

mod batched;
mod canonical_json;
mod engine;
mod ext;
mod memory;
#[cfg(all(feature = "toml", feature = "yaml"))]
mod policies;
#[cfg(feature = "metrics")]
mod prometheus;
#[cfg(feature = "encryption")]
mod protected;
mod saga;
