//! [`KeyFormat`]: the required format of a key.

use std::ops::RangeInclusive;

use idem_core::Key;

use crate::{IdempotencyKey, KeyError};

/// The fewest different characters of a key under [`KeyFormat::refusing_weak`]. A random UUID has
/// fewer once in about 10⁹.
const STRONG: usize = 6;

/// The required format of a key: 1 to 255 printable ASCII characters, or a narrower one.
///
/// ```
/// use idem_http::KeyFormat;
///
/// let adcp = KeyFormat::characters("_.:-").with_length(16..=255).refusing_weak();
/// # let _ = adcp;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyFormat {
    class: Class,
    length: RangeInclusive<usize>,
    ignores_case: bool,
    refuses_weak: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Class {
    Printable,
    /// ASCII letters and digits, and these.
    Alphanumeric(&'static str),
    Uuid(Option<u8>),
}

impl KeyFormat {
    const fn of(class: Class) -> Self {
        Self {
            class,
            length: 1..=Key::MAX_ID_BYTES,
            ignores_case: false,
            refuses_weak: false,
        }
    }

    /// Accepts any printable ASCII characters. This is the default.
    #[must_use]
    pub const fn any() -> Self {
        Self::of(Class::Printable)
    }

    /// Accepts ASCII letters and digits, and the characters of `others`.
    #[must_use]
    pub const fn characters(others: &'static str) -> Self {
        Self::of(Class::Alphanumeric(others))
    }

    /// Accepts a UUID of any version in its usual text form, 32 hexadecimal digits in five groups;
    /// upper and lower case are the same.
    #[must_use]
    pub const fn uuid() -> Self {
        Self::of(Class::Uuid(None)).ignoring_case()
    }

    /// Accepts a UUID of this version (RFC 9562), such as 7; upper and lower case are the same.
    #[must_use]
    pub const fn uuid_version(version: u8) -> Self {
        Self::of(Class::Uuid(Some(version))).ignoring_case()
    }

    /// Sets the length in characters, at most 255.
    #[must_use]
    pub fn with_length(mut self, characters: RangeInclusive<usize>) -> Self {
        self.length = characters;
        self
    }

    /// Makes upper and lower case the same key.
    #[must_use]
    pub const fn ignoring_case(mut self) -> Self {
        self.ignores_case = true;
        self
    }

    /// Refuses keys of fewer than 6 different characters, such as `0000000000000001`: two clients
    /// may choose the same one.
    #[must_use]
    pub const fn refusing_weak(mut self) -> Self {
        self.refuses_weak = true;
        self
    }

    /// Checks the key, and normalizes its case.
    pub(crate) fn check(&self, key: IdempotencyKey) -> Result<IdempotencyKey, KeyError> {
        let text = key.as_str();
        match self.class {
            Class::Uuid(version) if !is_uuid(text, version) => {
                return Err(version.map_or(KeyError::NotAUuid, KeyError::NotThatUuid));
            }
            Class::Alphanumeric(others) => {
                let fits = |c: char| c.is_ascii_alphanumeric() || others.contains(c);
                if !text.chars().all(fits) {
                    return Err(KeyError::Character(others));
                }
            }
            _ => {}
        }
        if !self.length.contains(&text.len()) {
            return Err(KeyError::Length(*self.length.start(), *self.length.end()));
        }
        if self.refuses_weak && different(text) < STRONG {
            return Err(KeyError::Weak);
        }
        match self.ignores_case {
            true => Ok(IdempotencyKey(text.to_ascii_lowercase())),
            false => Ok(key),
        }
    }
}

impl Default for KeyFormat {
    fn default() -> Self {
        Self::any()
    }
}

/// Returns how many different characters the text has, upper and lower case being the same.
fn different(text: &str) -> usize {
    let mut seen = [false; 256];
    for byte in text.bytes() {
        seen[usize::from(byte.to_ascii_lowercase())] = true;
    }
    seen.iter().filter(|seen| **seen).count()
}

fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let is_version = |byte: u8| version.is_none_or(|version| byte == b'0' + version);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            14 => byte.is_ascii_hexdigit() && is_version(byte),
            // The variant of RFC 9562, which alone defines versions.
            19 if version.is_some() => matches!(byte, b'8' | b'9' | b'a' | b'b' | b'A' | b'B'),
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(format: &KeyFormat, text: &str) -> Result<String, KeyError> {
        let key = format.check(IdempotencyKey(text.to_owned()))?;
        Ok(key.as_str().to_owned())
    }

    #[test]
    fn uuids_are_one_key_in_upper_and_lower_case() {
        let lower = "8e03978e-40d5-43e8-bc93-6894a57f9324";
        assert_eq!(
            checked(&KeyFormat::uuid(), &lower.to_uppercase()).as_deref(),
            Ok(lower)
        );
        for wrong in [
            "8e03978e",
            "8e03978e-40d5-43e8-bc93-6894a57f932g",
            "8e03978e040d5-43e8-bc93-6894a57f9324",
        ] {
            assert_eq!(
                checked(&KeyFormat::uuid(), wrong),
                Err(KeyError::NotAUuid),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_version_is_required_with_its_variant() {
        let seven = KeyFormat::uuid_version(7);
        assert!(checked(&seven, "017F22E2-79B0-7CC3-98C4-DC0C0C07398F").is_ok());
        for wrong in [
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-18c4-dc0c0c07398f",
        ] {
            assert_eq!(
                checked(&seven, wrong),
                Err(KeyError::NotThatUuid(7)),
                "{wrong}"
            );
        }
    }

    #[test]
    fn length_and_characters_are_checked_and_case_is_kept() {
        let format = KeyFormat::characters("_-").with_length(4..=6);
        assert_eq!(checked(&format, "Ab_-9").as_deref(), Ok("Ab_-9"));
        assert_eq!(checked(&format, "abc"), Err(KeyError::Length(4, 6)));
        assert_eq!(checked(&format, "abcdefg"), Err(KeyError::Length(4, 6)));
        assert_eq!(checked(&format, "ab:cd"), Err(KeyError::Character("_-")));
        let folded = KeyFormat::any().ignoring_case();
        assert_eq!(checked(&folded, "Ab C").as_deref(), Ok("ab c"));
    }

    #[test]
    fn keys_that_others_would_choose_are_weak() {
        let format = KeyFormat::any().refusing_weak();
        for weak in ["0000000000000001", "aAaAaAaAaAaAaAaA", "1-1-1-1-1-1-1-1-1"] {
            assert_eq!(checked(&format, weak), Err(KeyError::Weak), "{weak}");
        }
        assert!(checked(&format, "8e03978e-40d5-43e8-bc93-6894a57f9324").is_ok());
    }
}
