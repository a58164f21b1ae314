//! [`IssuedKey`]: an idempotency key, and when it was first sent.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::{NoContext, Timestamp, Uuid};

/// The form of the keys that a client makes: a UUID (RFC 9562) in lower case, 36 characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum KeyForm {
    /// Version 4: 122 random bits.
    #[default]
    UuidV4,
    /// Version 7: the milliseconds since 1970, and 74 random bits.
    UuidV7,
}

/// The idempotency key of an intent, and when it was first sent.
///
/// `Debug` does not show the key.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedKey {
    text: String,
    first_sent: SystemTime,
    age: Option<Duration>,
    is_new: bool,
}

/// A key as it is kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptKey {
    pub(crate) key: String,
    /// Milliseconds since 1970 began, by the clock of the client that made the key.
    pub(crate) first_sent: u64,
}

impl IssuedKey {
    /// Makes a key of this form, first sent now by this machine's clock.
    #[must_use]
    pub fn make(form: KeyForm) -> Self {
        KeptKey::make(form).issued(Some(Duration::ZERO), true)
    }

    /// Creates the key that is kept for an intent. `age` is the time since it was made, by the
    /// clock of the store or file; `None` when that clock has gone back, so that nobody knows it.
    #[must_use]
    pub fn kept(key: impl Into<String>, first_sent: SystemTime, age: Option<Duration>) -> Self {
        Self {
            text: key.into(),
            first_sent,
            age,
            is_new: false,
        }
    }

    /// Returns the key, as the server gets it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns when the key was made, just before it was first sent, by the clock of the client
    /// that made it. The same at every repeat.
    #[must_use]
    pub fn first_sent(&self) -> SystemTime {
        self.first_sent
    }

    /// Returns how old the key was when this call got it; `None` when that is unknown.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.age
    }

    /// Returns whether this call made the key.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }
}

impl KeptKey {
    pub(crate) fn make(form: KeyForm) -> Self {
        let first_sent = millis(SystemTime::now());
        let uuid = match form {
            KeyForm::UuidV4 => Uuid::new_v4(),
            // `Uuid::now_v7` panics where the clock is before 1970.
            KeyForm::UuidV7 => {
                let nanos = u32::try_from(first_sent % 1000 * 1_000_000).unwrap_or_default();
                Uuid::new_v7(Timestamp::from_unix(NoContext, first_sent / 1000, nanos))
            }
        };
        Self {
            key: uuid.to_string(),
            first_sent,
        }
    }

    pub(crate) fn issued(&self, age: Option<Duration>, is_new: bool) -> IssuedKey {
        let since_epoch = Duration::from_millis(self.first_sent);
        IssuedKey {
            text: self.key.clone(),
            first_sent: UNIX_EPOCH.checked_add(since_epoch).unwrap_or(UNIX_EPOCH),
            age,
            is_new,
        }
    }
}

/// Returns the milliseconds since 1970 began; 0 for an instant before it.
pub(crate) fn millis(instant: SystemTime) -> u64 {
    let since_epoch = instant.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

impl fmt::Debug for IssuedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedKey")
            .field("first_sent", &self.first_sent)
            .field("age", &self.age)
            .field("is_new", &self.is_new)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_uuids_of_the_chosen_version() {
        for (form, version) in [(KeyForm::UuidV4, b'4'), (KeyForm::UuidV7, b'7')] {
            let (one, two) = (IssuedKey::make(form), IssuedKey::make(form));
            assert_ne!(one.as_str(), two.as_str());
            let text = one.as_str().as_bytes();
            assert_eq!((text.len(), text[14]), (36, version), "{}", one.as_str());
            assert!(b"89ab".contains(&text[19]), "{}", one.as_str());
            assert!(!text.iter().any(u8::is_ascii_uppercase));
            assert!(!format!("{one:?}").contains(one.as_str()));
        }
    }

    #[test]
    fn version_7_begins_with_the_first_instant() {
        let kept = KeptKey::make(KeyForm::UuidV7);
        let digits = kept.key.replace('-', "");
        let millis = u64::from_str_radix(&digits[..12], 16).unwrap();
        assert_eq!(millis, kept.first_sent);
    }

    #[test]
    fn a_kept_key_has_the_same_first_instant_again() {
        let kept = KeptKey::make(KeyForm::UuidV4);
        let text = serde_json::to_string(&kept).unwrap();
        let read: KeptKey = serde_json::from_str(&text).unwrap();
        let (one, two) = (kept.issued(None, true), read.issued(None, true));
        assert_eq!(one, two);
        assert_eq!(millis(two.first_sent()), kept.first_sent);
    }
}
