//! The engine: what a run does to its key, whatever happens to the work, the caller and the store.

mod also;
mod handoff;
mod interrupt;
mod lease;
#[cfg(feature = "metrics")]
mod metered;
mod observe;
mod recovery;
mod run;
mod seal;
mod support;
#[cfg(feature = "tracing")]
mod traced;
mod transaction;
mod wait;
mod waiting;
mod wake;
