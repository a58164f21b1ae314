//! [`Message`]: one delivery, as far as it matters here.

use idem_core::{Fingerprint, Key};

/// Which message was delivered, what it asks for, and how often it came.
///
/// The key has to be the *message's*: an id that its producer gave it and that is the same when it
/// is published twice. An id that the broker gives (a sequence number, a receipt) is another one
/// then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    key: Key,
    fingerprint: Fingerprint,
    deliveries: u64,
}

impl Message {
    /// A message delivered for the first time; two are the same when their payloads are, byte for
    /// byte.
    #[must_use]
    pub fn new(key: Key, payload: impl AsRef<[u8]>) -> Self {
        Self {
            key,
            fingerprint: Fingerprint::raw(payload),
            deliveries: 1,
        }
    }

    /// Another measure of what is the same, such as [`Fingerprint::json`].
    #[must_use]
    pub fn with_fingerprint(mut self, fingerprint: Fingerprint) -> Self {
        self.fingerprint = fingerprint;
        self
    }

    /// How often the broker has delivered it, this time included. Where a broker does not count,
    /// leave it at 1: then only an error that the work calls permanent ends a message.
    #[must_use]
    pub fn with_deliveries(mut self, deliveries: u64) -> Self {
        self.deliveries = deliveries.max(1);
        self
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// By what it is known to be the same.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// How often it was delivered.
    #[must_use]
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }
}
