//! What stands in a history for payloads and ids: the beginning of their SHA-256.

use idem_core::{Checkpoint, Failure, Response};
use sha2::{Digest, Sha256};

use crate::spec::ABANDONED;

/// Returns the hash of a response.
#[must_use]
pub fn of_response(response: &Response) -> u64 {
    of_bytes(&serde_json::to_vec(response).unwrap_or_default())
}

/// Returns the hash of a failure, and [`ABANDONED`] for that of an abandoned claim.
#[must_use]
pub fn of_failure(failure: &Failure) -> u64 {
    if failure.code() == Failure::ABANDONED {
        return ABANDONED;
    }
    of_bytes(&serde_json::to_vec(failure).unwrap_or_default())
}

/// Returns the hash of a checkpoint.
#[must_use]
pub fn of_checkpoint(checkpoint: &Checkpoint) -> u64 {
    of_bytes(&[checkpoint.name().as_bytes(), &[0], checkpoint.data()].concat())
}

/// Returns the beginning of the SHA-256, never 0.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> u64 {
    let digest = Sha256::digest(bytes);
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    (u64::from_be_bytes(first) >> 1).max(1)
}
