//! A store that is not part of the family: all records in one JSON file, changed under a lock of
//! the operating system and replaced by renaming. It is slow and small, and keeps every law of the
//! family. The suite in `tests/conformance.rs` proves that, and shows how a third party uses it.

mod file;
mod row;
mod store;

pub use store::FileStore;
