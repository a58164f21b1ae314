//! [`IntentKeys`]: where a client keeps the key of each intent.

mod file;
mod log;
mod store;

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::Fingerprint;

pub use file::FileKeys;
pub use store::StoreKeys;

use crate::{Error, Intent, IssuedKey, KeyForm};

/// Keeps one idempotency key for each intent, before anything is sent.
///
/// The two implementations are [`StoreKeys`], on any store of the family, for any number of
/// processes; and [`FileKeys`], a file of one process.
///
/// # To ensure correctness
///
/// * A returned key is durable. A process that is killed right after finds the same key again.
/// * Of any number of concurrent callers with one intent, in all processes that share the keys, all
///   get the same key.
/// * No key is replaced before its [`retention`](Self::retention) ends.
#[async_trait]
pub trait IntentKeys: Debug + Send + Sync + 'static {
    /// Returns the key of the intent; makes one of this form if there is none.
    ///
    /// *Atomicity*: one decision. Of concurrent calls with a new intent, one makes the key.
    ///
    /// # Errors
    ///
    /// [`IntentChanged`](crate::ErrorKind::IntentChanged) when the intent has a key with another
    /// fingerprint; nothing is changed. `KeysUnavailable`, `Misconfigured`, `Corrupt`.
    ///
    /// # Cancellation
    ///
    /// The key may be kept or not; the next call returns it or makes another. It was never sent.
    async fn key_for(
        &self,
        intent: &Intent,
        fingerprint: &Fingerprint,
        form: KeyForm,
    ) -> Result<IssuedKey, Error>;

    /// Returns how long a key is kept, from when it was made. After that the same intent gets a new
    /// key, so it is longer than the server keeps its answers.
    fn retention(&self) -> Duration;
}
