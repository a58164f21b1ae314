//! The stored form of an encrypted value, and where it is in a record. It can be recognised without
//! a key.
//!
//! Layout: four bytes of [`MAGIC`]; one byte length and the id of the key; 12 bytes nonce; the
//! ciphertext; 16 bytes tag.

use bytes::Bytes;

use crate::{Checkpoint, Failure, Metadata, Record, Response};

/// The first bytes. The last one is the version of the layout.
pub(super) const MAGIC: [u8; 4] = [0xE1, b'i', b'd', 1];

/// The status of a response that is encrypted: no HTTP response has it.
pub(super) const STATUS: u16 = 0;

/// The message of a failure that is encrypted, for people who read the record without a key.
pub(super) const MESSAGE: &str = "(encrypted)";

/// The name of the entry that holds the encrypted metadata.
pub(super) const ENTRY: &str = "idem.encrypted";

/// Returns whether the result of a record is encrypted: the store was read without its keys.
#[must_use]
pub fn is_encrypted(record: &Record) -> bool {
    match record {
        Record::InFlight(_) => false,
        Record::Completed(record) => in_response(&record.response).is_some(),
        Record::Failed(record) => in_failure(&record.failure).is_some(),
    }
}

/// Returns the envelope that this response holds.
pub(super) fn in_response(response: &Response) -> Option<&Bytes> {
    let is_one = response.status() == STATUS
        && response.headers().is_empty()
        && response.body().starts_with(&MAGIC);
    is_one.then(|| response.body())
}

/// Returns the envelope that this failure holds.
pub(super) fn in_failure(failure: &Failure) -> Option<&Bytes> {
    let is_one = failure.message() == MESSAGE && failure.details().starts_with(&MAGIC);
    is_one.then(|| failure.details())
}

/// Returns the envelope that this checkpoint holds.
pub(super) fn in_checkpoint(checkpoint: &Checkpoint) -> Option<&Bytes> {
    let is_one = checkpoint.data().starts_with(&MAGIC);
    is_one.then(|| checkpoint.data())
}

/// Returns the envelope that these metadata hold, as base64.
pub(super) fn in_metadata(metadata: &Metadata) -> Option<&str> {
    metadata.get(ENTRY)
}
