//! [`Message`]: the parts of one delivery that the consumer needs.

use idem_core::{Fingerprint, Key};

/// A delivered message: its key, its fingerprint, and how often it was delivered.
///
/// The key has to be the *message's*: an id from its producer, which is the same when the message
/// is published twice. An id from the broker (a sequence number, a receipt) differs then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    key: Key,
    fingerprint: Fingerprint,
    deliveries: u64,
}

impl Message {
    /// Creates a message delivered for the first time. Two messages are the same when their
    /// payloads are equal, byte for byte.
    #[must_use]
    pub fn new(key: Key, payload: impl AsRef<[u8]>) -> Self {
        Self {
            key,
            fingerprint: Fingerprint::raw(payload),
            deliveries: 1,
        }
    }

    /// Sets another fingerprint, such as [`Fingerprint::json`].
    #[must_use]
    pub fn with_fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = fingerprint;
        self
    }

    /// Sets how often the broker has delivered it, including this time. If the broker does not
    /// count, leave it at 1: then only a permanent error of the work ends a message.
    #[must_use]
    pub fn with_deliveries(mut self, deliveries: u64) -> Self {
        self.deliveries = deliveries.max(1);
        self
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns how often it was delivered.
    #[must_use]
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }
}
