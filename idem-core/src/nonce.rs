//! [`Nonce`]: the short key that a client makes for one message.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// A string or an integer of at most 25 characters, chosen by the client for one message.
///
/// An integer is kept as its decimal text, so `7` and `"7"` are the same nonce: a client whose
/// retry passes through another serialiser is still recognised.
///
/// `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Nonce(String);

impl Nonce {
    /// Most Unicode scalar values that a nonce may have.
    pub const MAX_CHARS: usize = 25;

    /// Creates a nonce of this text.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is empty, longer than 25
    /// characters, or contains a control character.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        let chars = text.chars().count();
        if chars == 0 || chars > Self::MAX_CHARS {
            return Err(Error::invalid_input(format!(
                "a nonce has 1 to {} characters, this one has {chars}",
                Self::MAX_CHARS
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid_input("a nonce has no control characters"));
        }
        Ok(Self(text))
    }

    /// Returns its text; an integer's is its decimal form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<i64> for Nonce {
    fn from(number: i64) -> Self {
        Self(number.to_string())
    }
}

impl From<u64> for Nonce {
    fn from(number: u64) -> Self {
        Self(number.to_string())
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({} characters)", self.0.chars().count())
    }
}

impl<'de> Deserialize<'de> for Nonce {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = Nonce;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an integer of at most 25 characters")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Nonce, E> {
                Nonce::new(text).map_err(E::custom)
            }

            fn visit_i64<E>(self, number: i64) -> Result<Nonce, E> {
                Ok(number.into())
            }

            fn visit_u64<E>(self, number: u64) -> Result<Nonce, E> {
                Ok(number.into())
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_and_integer_forms_are_one_nonce() {
        let read = |text| serde_json::from_str::<Nonce>(text);
        assert_eq!(read("7").unwrap(), read("\"7\"").unwrap());
        assert_eq!(read("-9223372036854775808").unwrap().as_str().len(), 20);
        assert_eq!(read("18446744073709551615").unwrap().as_str().len(), 20);
        assert!(read("1.5").is_err());
        assert!(read("null").is_err());
    }

    #[test]
    fn length_counts_characters_not_bytes() {
        assert!(Nonce::new("é".repeat(25)).is_ok());
        assert!(Nonce::new("é".repeat(26)).is_err());
        assert!(Nonce::new("").is_err());
        assert!(Nonce::new("a\u{7f}").is_err());
    }
}
