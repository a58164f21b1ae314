//! [`Intent`]: the name of what a request is for.

use std::fmt;
use std::sync::Arc;

use idem_core::Key;

use crate::Error;

/// What a caller wants done once, by a name that a restarted process makes again.
///
/// Take the name from the business: `order-17/charge`, never a random id or a time. It goes into
/// the extensions of the request. All requests with this intent have one idempotency key.
///
/// `Debug` shows its length only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Intent(Arc<str>);

impl Intent {
    /// Most bytes that a name may have.
    pub const MAX_BYTES: usize = Key::MAX_ID_BYTES;

    /// Creates the intent with this name, 1 to 255 bytes without control characters. Names are
    /// compared byte for byte.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](crate::ErrorKind::InvalidRequest) when the name is empty, too long, or
    /// has a control character.
    pub fn new(name: impl AsRef<str>) -> Result<Self, Error> {
        let name = name.as_ref();
        match name.len() {
            0 => Err(Error::invalid("the intent's name is empty")),
            1..=Self::MAX_BYTES if name.chars().any(char::is_control) => {
                Err(Error::invalid("the intent's name has a control character"))
            }
            1..=Self::MAX_BYTES => Ok(Self(name.into())),
            _ => Err(Error::invalid(format!(
                "the intent's name has {} bytes, at most {} are allowed",
                name.len(),
                Self::MAX_BYTES
            ))),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Intent({} bytes)", self.0.len())
    }
}

/// What a client does with a request that has no [`Intent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MissingIntent {
    /// It gets a new key that is held in memory, for the tries of this call only. A second call, or
    /// a restarted process, has another key: the server then does the work again.
    #[default]
    OneCall,
    /// It is refused with [`IntentMissing`](crate::ErrorKind::IntentMissing).
    Refuse,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_limits_and_are_not_shown() {
        assert_eq!(
            Intent::new("order-17/charge").unwrap().name(),
            "order-17/charge"
        );
        assert!(Intent::new("x".repeat(255)).is_ok());
        for refused in ["", "a\nb", &"x".repeat(256)] {
            assert!(Intent::new(refused).is_err());
        }
        assert_eq!(
            format!("{:?}", Intent::new("secret").unwrap()),
            "Intent(6 bytes)"
        );
    }
}
