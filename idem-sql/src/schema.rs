//! The part of migration and verification that all stores share.

use idem_core::{Effect, Error, ErrorKind, Result};

/// How often a migration tries to create the schema. Others that do not take the lock, such as a
/// migration tool, may create it at the same time.
pub const MAX_TRIES: u32 = 5;

/// Returns the error for a server, a table or a setting that does not suit. The message says what
/// to do.
pub fn misconfigured(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message.into())
}

/// Returns whether a table with version `found` is current. A table that is not has to be created.
///
/// # Errors
///
/// `Misconfigured` for a later version than the store knows.
pub fn is_current(found: Option<u32>, known: u32) -> Result<bool> {
    match found {
        Some(version) if version > known => Err(misconfigured(format!(
            "a table has schema version {version}, this crate knows up to {known}; upgrade the crate"
        ))),
        version => Ok(version == Some(known)),
    }
}

/// Hashes a name or a text with FNV-1a: the same number in every process.
#[must_use]
pub fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
