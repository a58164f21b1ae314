//! [`Peppers`]: fingerprints that only holders of a secret can test.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{Error, Fingerprint, Key, Result};

/// Secrets that fingerprints are hashed with before they reach the store.
///
/// A fingerprint is a plain SHA-256. Who reads the table can test guesses of a request with few
/// possible values: a card number, a vote. Under a pepper the store gets an HMAC-SHA-256 of
/// fingerprint and key, so that a guess cannot be tested, and equal requests under different keys
/// look different.
///
/// # Changing the pepper
///
/// A record is found under the pepper of its claim. A claim that meets another fingerprint compares
/// it with those of all peppers here, and is sent again with the one that fits. Change in this
/// order, with time for all processes to restart between the steps; a process that does not have a
/// record's pepper refuses its repetitions as conflicts:
///
/// 1. Add the new pepper as [`with_former`](Self::with_former) in every process.
/// 2. Make it the current one in every process, and the old one a former one.
/// 3. Drop the old one when the longest retention is over.
///
/// To begin with peppers, add [`with_plain`](Self::with_plain), and roll out as a change.
#[derive(Clone)]
pub struct Peppers {
    current: Pepper,
    former: Vec<Pepper>,
    plain: bool,
}

type Pepper = Hmac<Sha256>;

impl Peppers {
    /// Fewest bytes that a pepper may have.
    pub const MIN_BYTES: usize = 16;

    /// Hashes fingerprints with this pepper: 16 bytes or more, which must be as good as random.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is shorter.
    pub fn new(current: impl AsRef<[u8]>) -> Result<Self> {
        Ok(Self {
            current: pepper(current.as_ref())?,
            former: Vec::new(),
            plain: false,
        })
    }

    /// Also recognises records that were claimed under this pepper.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_former(mut self, former: impl AsRef<[u8]>) -> Result<Self> {
        self.former.push(pepper(former.as_ref())?);
        Ok(self)
    }

    /// Also recognises records that were claimed without a pepper. Default: it does not, and their
    /// repetitions are conflicts.
    #[must_use]
    pub fn with_plain(mut self) -> Self {
        self.plain = true;
        self
    }

    /// Returns the fingerprint that a claim is sent with.
    pub(super) fn current(&self, key: &Key, fingerprint: &Fingerprint) -> Fingerprint {
        hashed(&self.current, key, fingerprint)
    }

    /// Returns whether the stored fingerprint is this one, under any pepper.
    pub(super) fn is_same(&self, key: &Key, given: &Fingerprint, stored: &Fingerprint) -> bool {
        let mut peppers = std::iter::once(&self.current).chain(&self.former);
        peppers.any(|pepper| hashed(pepper, key, given) == *stored)
            || (self.plain && given == stored)
    }
}

fn pepper(secret: &[u8]) -> Result<Pepper> {
    let refused = || {
        Error::invalid_input(format!(
            "a pepper has {} bytes; it needs {} or more",
            secret.len(),
            Peppers::MIN_BYTES
        ))
    };
    if secret.len() < Peppers::MIN_BYTES {
        return Err(refused());
    }
    Pepper::new_from_slice(secret).map_err(|_| refused())
}

fn hashed(pepper: &Pepper, key: &Key, fingerprint: &Fingerprint) -> Fingerprint {
    let mut mac = pepper.clone();
    mac.update(b"idem/fingerprint/1");
    for part in [key.scope(), key.operation(), key.id()] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    mac.update(&fingerprint.to_bytes());
    fingerprint.with_digest(mac.finalize().into_bytes().into())
}

impl fmt::Debug for Peppers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peppers")
            .field("former", &self.former.len())
            .field("plain", &self.plain)
            .finish_non_exhaustive()
    }
}
