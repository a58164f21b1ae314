//! The engine: what a run does to its key, whatever happens to the work, the caller and the store.

mod also;
mod interrupt;
mod lease;
mod run;
mod seal;
mod support;
mod wait;
mod waiting;
mod wake;
