//! [`Intent`]: a user's request to do something to a target.

use idem_core::key::Target;
use idem_core::{Fingerprint, Key, Result};
use serde::Serialize;

/// A user's request to do something to a target. Two equal intents are one job, within the window
/// of the intent's policy.
///
/// The job's payload is not compared, except with [`with_payload`](Self::with_payload).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    key: Key,
    fingerprint: Fingerprint,
}

impl Intent {
    /// Creates an intent: `who` wants `intent` (such as `build`) done to `target`; see
    /// [`Key::from_intent`].
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) for parts that are empty or too long.
    pub fn new(who: impl AsRef<str>, target: Target<'_>, intent: impl AsRef<str>) -> Result<Self> {
        Ok(Self {
            key: Key::from_intent(who, target, intent)?,
            fingerprint: Fingerprint::raw("intent"),
        })
    }

    /// Includes the payload: an intent with another payload is another job, also within the window.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](idem_core::ErrorKind::InvalidInput) for a payload without a JSON form.
    pub fn with_payload<P: Serialize + ?Sized>(self, payload: &P) -> Result<Self> {
        let fingerprint = Fingerprint::of(payload)?;
        let parts = [self.key.id().as_bytes(), &fingerprint.to_bytes()];
        Ok(Self {
            key: Key::from_parts(self.key.scope(), self.key.operation(), parts)?,
            fingerprint,
        })
    }

    /// Returns the key of its job.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the fingerprint of its job.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}
