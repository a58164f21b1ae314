//! What migration and verification share.

use idem_core::{Effect, Error, ErrorKind, Result};

/// How often the schema is created when others who do not take the lock (a migration tool) create
/// it, too.
pub const MAX_TRIES: u32 = 5;

/// The error of a server, a table or a setting that does not suit. The message says what to do.
pub fn misconfigured(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message.into())
}

/// Whether a table of the version `found` is of the version that the store knows; where it is not,
/// it is to be created.
///
/// # Errors
///
/// `Misconfigured` for a table of a later version.
pub fn is_current(found: Option<u32>, known: u32) -> Result<bool> {
    match found {
        Some(version) if version > known => Err(misconfigured(format!(
            "a table has schema version {version}, this crate knows up to {known}; upgrade the crate"
        ))),
        version => Ok(version == Some(known)),
    }
}

/// FNV-1a: a number for a name or a text, the same in every process.
#[must_use]
pub fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
