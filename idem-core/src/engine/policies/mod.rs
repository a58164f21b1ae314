//! Policies by operation, in code and from files.

#[cfg(any(feature = "toml", feature = "yaml"))]
mod error;
#[cfg(any(feature = "toml", feature = "yaml"))]
mod file;
#[cfg(any(feature = "toml", feature = "yaml"))]
mod format;
mod live;
#[cfg(any(feature = "toml", feature = "yaml"))]
mod names;
mod preset;
#[cfg(any(feature = "toml", feature = "yaml"))]
mod read;
mod set;
#[cfg(any(feature = "toml", feature = "yaml"))]
mod tree;

#[cfg(any(feature = "toml", feature = "yaml"))]
pub use error::PolicyFileError;
#[cfg(any(feature = "toml", feature = "yaml"))]
pub use file::PolicyFile;
pub(super) use live::LivePolicies;
pub use set::Policies;
