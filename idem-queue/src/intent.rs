//! [`Intent`]: who wants what done to which thing.

use idem_core::key::Target;
use idem_core::{Fingerprint, Key, Result};
use serde::Serialize;

/// Who wants what done to which thing: two of the same are one job, within the window of the
/// intent's policy.
///
/// What the job is told beside that, its payload, does not count unless asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    key: Key,
    fingerprint: Fingerprint,
}

impl Intent {
    /// `who` wants `intent` (such as `build`) done to `target`: see [`Key::from_intent`].
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

    /// The same for this payload only: another payload is another job, also within the window.
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

    /// The key of its job.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The fingerprint of its job.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}
