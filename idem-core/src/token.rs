//! [`FencingToken`] and [`AttemptId`]: the two parts of ownership.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::digest::hex;
use crate::{Error, Result, Timestamp};

/// A number that grows with every acquisition of a key: `max(previous + 1, store clock in µs)`, and
/// so also across release, expiry and deletion.
///
/// Send it along with a write to another system that can refuse a smaller token than it has seen.
/// Then a holder that was paused past its lease can do no harm there either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(i64);

impl FencingToken {
    /// Returns the token with this number; positive.
    #[must_use]
    pub const fn from_i64(number: i64) -> Self {
        Self(number)
    }

    /// Returns its number; positive.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0
    }

    /// Returns the token of the next acquisition of a key whose last token is this:
    /// `max(previous + 1, store clock in µs)`.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when there is no greater one, because this is
    /// `i64::MAX`. No clock gives that in 290,000 years, so another program wrote it.
    pub fn next_at(self, now: Timestamp) -> Result<Self> {
        let next = self.0.checked_add(1).ok_or_else(|| {
            Error::corrupt(
                "the key's last fencing token is the greatest there is, so no acquisition can have a greater one; it \
                 was not written by this family: correct or delete the record",
            )
        })?;
        Ok(Self(next.max(now.as_micros())))
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The random id of one try to claim a key (128 bits).
///
/// Keep it while repeating a claim whose answer was lost: the store then recognises the attempt.
/// Every new try takes a new one. Ownership of a claim is attempt id and token together, so only
/// the holder sees the id; `Debug` shows its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AttemptId([u8; 16]);

impl AttemptId {
    /// The id that no attempt has (sixteen zero bytes): stores write it when they fail an abandoned
    /// record, so that the late holder no longer owns it.
    pub const NIL: Self = Self([0; 16]);

    /// Creates a new random id, from a generator of this thread that the operating system's source
    /// seeds, and reseeds from time to time.
    ///
    /// The clock is mixed in, so that a process does not repeat ids after a fork, or after a
    /// restore from a snapshot of its machine.
    ///
    /// # Panics
    ///
    /// If the operating system has no source of randomness. On the supported ones that does not
    /// happen once the machine has booted. A guessable id would let two attempts own one claim.
    #[must_use]
    pub fn random() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let random: u128 = rand::random();
        Self((random ^ since_epoch.as_nanos()).to_be_bytes())
    }

    /// Creates the id of these bytes, which must be as good as random.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns its bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl TryFrom<&[u8]> for AttemptId {
    type Error = Error;

    fn try_from(bytes: &[u8]) -> Result<Self> {
        bytes.try_into().map(Self).map_err(|_| {
            Error::corrupt(format!(
                "a stored attempt id has {} bytes, 16 are needed",
                bytes.len()
            ))
        })
    }
}

impl fmt::Debug for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttemptId({}..)", hex(&self.0[..3]))
    }
}

impl Serialize for AttemptId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for AttemptId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let number = (text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .then(|| u128::from_str_radix(&text, 16).ok())
            .flatten()
            .ok_or_else(|| serde::de::Error::custom("an attempt id is 32 hexadecimal digits"))?;
        Ok(Self(number.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_grow_or_say_that_they_cannot() {
        let next = |token, now| {
            let token = FencingToken::from_i64(token);
            token.next_at(Timestamp::from_micros(now))
        };
        assert_eq!(next(7, 3).unwrap().as_i64(), 8);
        assert_eq!(next(7, 90).unwrap().as_i64(), 90);
        assert_eq!(next(i64::MAX - 1, 3).unwrap().as_i64(), i64::MAX);
        for now in [3, i64::MAX] {
            let error = next(i64::MAX, now).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
        }
    }

    #[test]
    fn attempt_ids_differ_and_round_trip() {
        let (one, two) = (AttemptId::random(), AttemptId::random());
        assert_ne!(one, two);
        let text = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<AttemptId>(&text).unwrap(), one);
        assert_eq!(AttemptId::try_from(&one.as_bytes()[..]).unwrap(), one);
        assert!(AttemptId::try_from(&[0u8; 15][..]).is_err());
        assert!(serde_json::from_str::<AttemptId>("\"+123\"").is_err());
    }
}
