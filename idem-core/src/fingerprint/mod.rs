//! [`Fingerprint`]: whether two requests with one key are the same request.

mod canonical;
mod fields;
mod number;

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::{Error, Result};

pub use canonical::{MAX_JSON_DEPTH, canonical_json};

/// How a [`Fingerprint`] was made. Fingerprints of different schemes are never equal.
///
/// Unknown numbers are kept, so that a record written by a later version can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scheme(u8);

impl Scheme {
    /// Of a request that nobody knows any more: see [`Fingerprint::UNKNOWN`].
    pub const UNKNOWN: Self = Self(0);
    /// SHA-256 of the bytes as they are.
    pub const RAW: Self = Self(1);
    /// SHA-256 of the canonical JSON ([`canonical_json`]).
    pub const JSON: Self = Self(2);
    /// SHA-256 over chosen fields of a JSON document, each as pointer and canonical value.
    pub const FIELDS: Self = Self(3);

    /// Returns the scheme's number, as it is stored.
    #[must_use]
    pub fn id(self) -> u8 {
        self.0
    }
}

/// SHA-256 of a request, with the id of the scheme that made it.
///
/// `Debug` shows the scheme and the first bytes only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    scheme: Scheme,
    digest: [u8; 32],
}

impl Fingerprint {
    /// The fingerprint of a record from an [older table](crate::guide::migrations#adopting), whose
    /// request is not known: the record is the one of every request with its key. Stores answer a
    /// claim of the key with a conflict that has this fingerprint;
    /// [`claim_matching`](crate::IdempotencyStoreExt::claim_matching), which the engine uses,
    /// returns the record.
    pub const UNKNOWN: Self = Self {
        scheme: Scheme::UNKNOWN,
        digest: [0; 32],
    };

    /// Bytes of the stored form: the scheme's id and the digest.
    pub const BYTES: usize = 33;

    /// Returns the fingerprint of any bytes.
    #[must_use]
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::hash(Scheme::RAW, bytes.as_ref())
    }

    /// Returns the fingerprint of a JSON document by its value: order of keys, white space, escapes
    /// and the notation of numbers do not count. See [`canonical_json`] for the rules.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) as for [`canonical_json`].
    pub fn json(text: impl AsRef<[u8]>) -> Result<Self> {
        Ok(Self::hash(
            Scheme::JSON,
            canonical_json(text.as_ref())?.as_bytes(),
        ))
    }

    /// Returns the fingerprint of a value through its JSON form.
    ///
    /// `NaN` and the infinities have no JSON form and are written as `null` by `serde_json`.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the value cannot be serialised to
    /// JSON, or as for [`canonical_json`].
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        Self::of_checked(value, |_| Ok(()))
    }

    /// Returns the fingerprint [`of`](Self::of) a value whose canonical JSON has an accepted size.
    pub(crate) fn of_checked<T: Serialize + ?Sized>(
        value: &T,
        accept: impl FnOnce(usize) -> Result<()>,
    ) -> Result<Self> {
        let text = serde_json::to_vec(value).map_err(|source| {
            Error::invalid_input("the request cannot be written as JSON").with_source(source)
        })?;
        let canonical = canonical_json(&text)?;
        accept(canonical.len())?;
        Ok(Self::hash(Scheme::JSON, canonical.as_bytes()))
    }

    /// Returns the fingerprint of chosen fields of a JSON document, each named by a JSON Pointer
    /// (RFC 6901; `""` is the whole document).
    ///
    /// A missing field differs from one that is `null`. The order of `pointers` and repetitions do
    /// not count; the set of pointers does.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when no pointer is given, a pointer is
    /// malformed, or as for [`canonical_json`] (the whole document is checked).
    pub fn fields<P: AsRef<str>>(
        text: impl AsRef<[u8]>,
        pointers: impl IntoIterator<Item = P>,
    ) -> Result<Self> {
        Ok(Self {
            scheme: Scheme::FIELDS,
            digest: fields::digest(text.as_ref(), pointers)?,
        })
    }

    fn hash(scheme: Scheme, bytes: &[u8]) -> Self {
        Self {
            scheme,
            digest: Sha256::digest(bytes).into(),
        }
    }

    /// Returns the fingerprint of the same scheme with another digest.
    #[cfg(feature = "encryption")]
    pub(crate) fn with_digest(self, digest: [u8; 32]) -> Self {
        Self { digest, ..self }
    }

    /// Returns how it was made.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns whether the request is not known: the record matches every request.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.scheme == Scheme::UNKNOWN
    }

    /// Returns the SHA-256 digest.
    #[must_use]
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// Returns the stored form: one byte scheme, 32 bytes digest.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = self.scheme.0;
        bytes[1..].copy_from_slice(&self.digest);
        bytes
    }

    /// Reads the stored form.
    ///
    /// # Errors
    ///
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when it is not 33 bytes long.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        match bytes {
            [scheme, digest @ ..] if digest.len() == 32 => {
                let mut copy = [0; 32];
                copy.copy_from_slice(digest);
                Ok(Self {
                    scheme: Scheme(*scheme),
                    digest: copy,
                })
            }
            _ => Err(Error::corrupt(format!(
                "a stored fingerprint has {} bytes, {} are needed",
                bytes.len(),
                Self::BYTES
            ))),
        }
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Fingerprint({}:{}..)",
            self.scheme.0,
            hex(&self.digest[..4])
        )
    }
}

/// Writes `scheme:hexadecimal`, such as `2:9f86…`.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme.0, hex(&self.digest))
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || Error::corrupt("a fingerprint is written as `scheme:64 hex digits`");
        let (scheme, digits) = text.split_once(':').ok_or_else(malformed)?;
        let number: u8 = scheme.parse().map_err(|_| malformed())?;
        // One text for each scheme: neither `+2` nor `02`.
        if number.to_string() != scheme {
            return Err(malformed());
        }
        let scheme = Scheme(number);
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(malformed());
        }
        let mut digest = [0; 32];
        for (byte, at) in digest.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| malformed())?;
        }
        Ok(Self { scheme, digest })
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_under_another_scheme_are_not_equal() {
        assert_ne!(Fingerprint::raw("1"), Fingerprint::json("1").unwrap());
        assert_eq!(
            Fingerprint::raw("1").digest(),
            Fingerprint::json("1").unwrap().digest(),
            "both are plain SHA-256"
        );
    }

    #[test]
    fn stored_and_printed_forms_round_trip() {
        let fingerprint = Fingerprint::of(&("a", 1)).unwrap();
        assert_eq!(
            Fingerprint::from_bytes(&fingerprint.to_bytes()).unwrap(),
            fingerprint
        );
        assert_eq!(
            fingerprint.to_string().parse::<Fingerprint>().unwrap(),
            fingerprint
        );
        assert!(Fingerprint::from_bytes(&[2; 32]).is_err());
        assert!("2:00".parse::<Fingerprint>().is_err());
        for scheme in ["+2", "02", "-2", "256", ""] {
            let text = fingerprint.to_string().replacen('2', scheme, 1);
            assert!(text.parse::<Fingerprint>().is_err(), "{scheme}");
        }
        assert!(
            format!("2:{}", "é".repeat(32))
                .parse::<Fingerprint>()
                .is_err()
        );
    }
}
