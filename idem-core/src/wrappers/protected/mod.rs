//! [`Protected`]: what a store keeps, without the secrets.

mod capabilities;
mod envelope;
mod forms;
#[cfg(feature = "encryption")]
mod keys;
#[cfg(not(feature = "encryption"))]
mod no_seals;
mod parts;
#[cfg(feature = "encryption")]
mod pepper;
#[cfg(feature = "encryption")]
mod rewrap;
#[cfg(feature = "encryption")]
mod seals;
#[cfg(feature = "encryption")]
mod service;
mod store;

#[cfg(feature = "encryption")]
use std::sync::Arc;

pub use envelope::is_encrypted;
pub use forms::Rebuild;
#[cfg(feature = "encryption")]
pub use keys::{DataKey, KeyRing};
#[cfg(feature = "encryption")]
pub use pepper::Peppers;
#[cfg(feature = "encryption")]
pub use rewrap::Rewrapped;
#[cfg(feature = "encryption")]
pub use service::KeyService;

use self::forms::Forms;
#[cfg(not(feature = "encryption"))]
use self::no_seals::Seals;
#[cfg(feature = "encryption")]
use self::seals::Seals;

/// Keeps secrets out of a store: it encrypts what the store keeps, hashes fingerprints with a
/// secret, masks values of responses, or stores a reference in place of a response. Each is an
/// option. Without any it forwards everything unchanged.
///
/// ```
/// # #[cfg(feature = "encryption")]
/// # fn main() -> idem_core::Result<()> {
/// use std::sync::Arc;
///
/// use idem_core::wrappers::protected::{DataKey, KeyRing, Peppers, Protected};
/// use idem_core::{Idempotency, MemoryStore};
///
/// let ring = Arc::new(KeyRing::new(DataKey::new("2026-01", &[7; 32])?));
/// let store = Protected::new(MemoryStore::new())
///     .with_keys(Arc::clone(&ring))
///     .with_peppers(Peppers::new([9; 32])?)
///     .with_masked("cards.create", "/card/number");
/// let idempotency = Idempotency::new(store);
/// # let _ = idempotency;
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "encryption"))]
/// # fn main() {}
/// ```
///
/// It is a store and no step of the engine. So it protects every caller in the same way: engine,
/// HTTP layer, batches, checkpoints, aliases, forced steps; and the conformance suite runs against
/// it. Put it in front of everything else: caches and queues behind it hold ciphertext only.
///
/// # What is encrypted
///
/// | value | encrypted | in clear | bound to |
/// | --- | --- | --- | --- |
/// | response | status, headers, body | | key, token |
/// | failure | message, details | code | key, token, code |
/// | checkpoint | data | name | key, name |
/// | metadata | names and values, the fingerprint of the claim | | key |
///
/// A claim gets a record as the one of its own request only if the encrypted fingerprint is its own,
/// whatever the record shows.
///
/// A ciphertext is bound to its kind and to the listed values: elsewhere it cannot be decrypted.
/// Keys, fingerprints, tokens, states, instants and sizes stay in clear, and so do audit entries,
/// which the stores write themselves. The
/// [threat model](https://github.com/idem-rs/idem/blob/main/SECURITY.md#protected-results) says
/// what that protects from.
///
/// A value that cannot be decrypted is an error, and no work runs: `Misconfigured` when the key is
/// not in the ring, with its id; `Corrupt` when the value was damaged or moved.
///
/// # Repeated calls
///
/// A store accepts a repeated completion when the stored bytes are the same. The same response
/// under the same claim and key has the same ciphertext: AES-256-GCM-SIV, with a nonce that depends
/// on the claim. When the key was changed between the two calls, the store answers `AlreadySealed`;
/// this wrapper then reads the record, and succeeds if the stored response is the same.
///
/// # Limits
///
/// [`limits`](crate::IdempotencyStore::limits) are those of the store, less what encryption adds.
/// Encrypted results do not compress; with the feature `zstd` they are compressed before.
///
/// # Transactions
///
/// The transaction methods of the SQL stores, such as `claim_in`, are not part of the contract and
/// bypass this wrapper. Use them with [`protect_claim`](Self::protect_claim),
/// [`protect_response`](Self::protect_response) and [`reveal`](Self::reveal).
#[derive(Debug, Clone)]
pub struct Protected<S> {
    store: S,
    forms: Forms,
    seals: Seals,
}

/// How a store with keys reads values that are not encrypted.
#[cfg(feature = "encryption")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PlainRecords {
    /// `Misconfigured`, and no work runs. With this choice nobody without a key can forge a result.
    #[default]
    Refuse,
    /// They are read. Use it from the day that encryption is switched on, until `idem rewrap` has
    /// encrypted the old records or their retention has ended.
    Accept,
}

impl<S> Protected<S> {
    /// Wraps this store, without any protection yet.
    pub fn new(store: S) -> Self {
        Self {
            store,
            forms: Forms::default(),
            seals: Seals::default(),
        }
    }

    /// Encrypts results, failures, checkpoints and metadata under the current key of this ring.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn with_keys(mut self, ring: Arc<KeyRing>) -> Self {
        self.seals.ring = Some(ring);
        self
    }

    /// Sets how values are read that are not encrypted. Default: they are refused.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn with_plain_records(mut self, plain: PlainRecords) -> Self {
        self.seals.plain = plain;
        self
    }

    /// Hashes fingerprints with a secret before they reach the store.
    ///
    /// With keys, answers show the fingerprint itself, which the record keeps encrypted. Without keys, conflicts and [`get`](crate::IdempotencyStore::get) show the hashed one.
    #[cfg(feature = "encryption")]
    #[must_use]
    pub fn with_peppers(mut self, peppers: Peppers) -> Self {
        self.seals.peppers = Some(peppers);
        self
    }

    /// Replaces what this JSON Pointer (RFC 6901) names in the bodies of an operation's responses
    /// with `***` before they are stored; `*` stands for every element or member, as in
    /// `/cards/*/number`. All other bytes stay as they are.
    ///
    /// Replays have the masked values. Headers and failures are not masked. A body that is not JSON
    /// is refused as `InvalidInput`, because nobody can tell what it contains; an empty one is
    /// stored. The records of [derived keys](crate::Key::derive) belong to the operation, too, such
    /// as the kept requests of `idem-http`.
    #[must_use]
    pub fn with_masked(mut self, operation: impl Into<String>, pointer: &str) -> Self {
        self.forms.mask(operation.into(), pointer);
        self
    }

    /// Stores a reference in place of the responses of an operation, and makes the answer anew for
    /// each replay. See [`Rebuild`]. It applies to the records of derived keys, too: do not combine
    /// it with kept requests of `idem-http`.
    #[must_use]
    pub fn with_rebuild(mut self, operation: impl Into<String>, rebuild: impl Rebuild) -> Self {
        self.forms
            .rebuild(operation.into(), std::sync::Arc::new(rebuild));
        self
    }

    /// Returns the wrapped store. It shows ciphertexts, and stores what it gets as it is.
    pub fn store(&self) -> &S {
        &self.store
    }
}
