//! A store that somebody else might have: all records in one JSON file, changed under a lock of the
//! operating system, replaced by renaming. Slow, small, and it keeps every law of the family; the
//! suite in `tests/conformance.rs` says so, and how a third party uses it.

mod file;
mod row;
mod store;

pub use store::FileStore;
