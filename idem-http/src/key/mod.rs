//! [`IdempotencyKey`]: the key that a client sent.

mod first_sent;
mod format;
mod source;

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use idem_core::Key;
use idem_core::json::MemberError;
use sfv::{BareItem, Item, Parser};

use crate::KeyForm;

pub use first_sent::FirstSent;
pub use format::KeyFormat;
pub(crate) use source::Found;
pub use source::KeySource;

/// The key that a client sent: 1 to 255 printable ASCII characters, not blanks alone.
///
/// `Debug` shows its length only.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(pub(crate) String);

/// Why a key is not valid. The messages quote nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The header occurs more than once.
    #[error("the header occurs more than once; send exactly one key")]
    Repeated,
    /// The header's name has underscores in place of hyphens, which other readers take for the key.
    #[error("the name of the header has underscores; send it with hyphens")]
    Underscores,
    /// The header is empty.
    #[error("the key is empty; it needs 1 to 255 characters")]
    Empty,
    /// The header contains only blanks.
    #[error("the key has nothing but blanks; it needs another character")]
    Blank,
    /// It is longer than 255 characters.
    #[error("the key is too long; at most 255 characters are allowed")]
    TooLong,
    /// It is not a structured field's string.
    #[error("the key is not a string in double quotes (RFC 9651, 3.3.3)")]
    NotAString,
    /// The bare form is a value of another type of structured field, or begins like one.
    #[error(
        "the key begins like {0} of a structured field (RFC 9651); a key is a string: put it in double quotes"
    )]
    AnotherType(&'static str),
    /// The bare form has a character that needs quotes.
    #[error(
        "the key has a character that is only allowed within double quotes, or is not printable ASCII"
    )]
    NotBare,
    /// It is not a string of printable ASCII characters.
    #[error("the key is not a string of printable ASCII characters")]
    NotText,
    /// The body that may hold the key is not JSON.
    #[error("the body is not JSON (RFC 8259), so it cannot be known whether it has a key")]
    NotJson,
    /// Readers of the body may differ on which key it has, or on which call it is.
    #[error("the body is ambiguous: {0}")]
    Ambiguous(#[from] MemberError),
    /// The call has no version 2.0, or no `id` that an answer can repeat: a string of Unicode text,
    /// or a number in the range of a double.
    #[error(
        "the call needs version 2.0 of JSON-RPC, and an id: a string of Unicode text, or a number in the range of a double"
    )]
    CallId,
    /// The method of a JSON-RPC call, or the name of its tool, is not a text.
    #[error("the method of the call, or the name of its tool, is not a string of Unicode text")]
    CallName,
    /// It is not a UUID.
    #[error("the key is not a UUID")]
    NotAUuid,
    /// It is not a UUID of the required version.
    #[error("the key is not a UUID of version {0}")]
    NotThatUuid(u8),
    /// It is shorter or longer than the format allows.
    #[error("the key has the wrong length; it needs {0} to {1} characters")]
    Length(usize, usize),
    /// It has a character that the format excludes.
    #[error("the key has a character other than letters, digits and `{0}`")]
    Character(&'static str),
    /// It has so few different characters that another client may choose the same.
    #[error("the key is easy to guess; use a random one, such as a UUID")]
    Weak,
    /// Two places have different keys, or only one of them has a key.
    #[error("the places of the request that may hold the key do not have the same one")]
    Different,
    /// The key has no time of the first attempt, or the other way round.
    #[error("the key and the time when the request was first sent belong together; one is missing")]
    Half,
    /// The time of the first attempt is not an HTTP date.
    #[error("the time when the request was first sent is not an HTTP date (RFC 9110, 5.6.7)")]
    NotADate,
    /// The time of the first attempt is in the future.
    #[error("the time when the request was first sent is in the future")]
    Future,
    /// A JSON-RPC batch contains a call that carries a key, or anything except objects.
    #[error("a batch has a call with a key, or a non-object; send each call in its own request")]
    Batch,
}

impl IdempotencyKey {
    /// Reads the key from the headers of a request or the metadata of a call; `None` without the
    /// header.
    ///
    /// Parameters of the structured field are ignored, because none are defined.
    ///
    /// # Errors
    ///
    /// [`KeyError`] says why the header is not a valid key.
    pub fn from_headers(
        headers: &HeaderMap,
        name: &HeaderName,
        form: KeyForm,
    ) -> Result<Option<Self>, KeyError> {
        // CGI reads both as one (RFC 3875, 4.1.18), so a client of such a server may send it.
        let has_underscores = |found: &HeaderName| {
            let hyphens = found.as_str().bytes().map(|byte| match byte {
                b'_' => b'-',
                byte => byte,
            });
            found != name && hyphens.eq(name.as_str().bytes())
        };
        if headers.keys().any(has_underscores) {
            return Err(KeyError::Underscores);
        }
        let mut values = headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (None, _) => Ok(None),
            (Some(value), None) => Self::from_value(value, form).map(Some),
            (Some(_), Some(_)) => Err(KeyError::Repeated),
        }
    }

    fn from_value(value: &HeaderValue, form: KeyForm) -> Result<Self, KeyError> {
        let value = value.as_bytes().trim_ascii();
        let key = match (value.first(), form) {
            (None, _) => return Err(KeyError::Empty),
            (Some(_), KeyForm::Opaque) => {
                let text = std::str::from_utf8(value).map_err(|_| KeyError::NotText)?;
                return Self::from_text(text);
            }
            (Some(b'"'), _) | (_, KeyForm::Strict) => quoted(value)?,
            (Some(_), KeyForm::Lenient) => bare(value)?,
        };
        Self::from_text(&key)
    }

    /// Checks a key that is a plain string, such as a member of a JSON body or a field of a gRPC
    /// message: 1 to 255 printable ASCII characters, not blanks alone.
    ///
    /// # Errors
    ///
    /// [`KeyError`] says why the text is not a valid key.
    pub fn from_text(text: &str) -> Result<Self, KeyError> {
        let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
        match text.len() {
            0 => Err(KeyError::Empty),
            _ if text.bytes().all(|byte| byte == b' ') => Err(KeyError::Blank),
            _ if !text.bytes().all(is_printable) => Err(KeyError::NotText),
            1..=Key::MAX_ID_BYTES => Ok(Self(text.to_owned())),
            _ => Err(KeyError::TooLong),
        }
    }

    /// Returns the text, without quotes and escapes.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({} bytes)", self.0.len())
    }
}

fn quoted(value: &[u8]) -> Result<String, KeyError> {
    if let Some(text) = plain(value) {
        return Ok(text.to_owned());
    }
    let item: Item = Parser::new(value)
        .parse()
        .map_err(|_| KeyError::NotAString)?;
    match item.bare_item {
        BareItem::String(text) => Ok(text.into()),
        _ => Err(KeyError::NotAString),
    }
}

/// Returns the text of a string without escapes and parameters, as nearly every key is.
fn plain(value: &[u8]) -> Option<&str> {
    let text = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !b"\"\\".contains(byte);
    let text = text.iter().all(is_plain).then_some(text)?;
    std::str::from_utf8(text).ok()
}

/// The bare form excludes what could start parameters or a second value, escapes, and values of
/// another type: `:YWJj:` may mean the three bytes. All of these need the quoted form. Clients that
/// do not know structured fields send tokens and numbers, so these are compared as text: `1.0` is
/// not `1`.
fn bare(value: &[u8]) -> Result<String, KeyError> {
    let another_type = match value.first() {
        Some(b'?') => Some("a boolean"),
        Some(b':') => Some("a byte sequence"),
        Some(b'@') => Some("a date"),
        Some(b'%') => Some("a display string"),
        Some(b'(') => Some("an inner list"),
        _ => None,
    };
    if let Some(name) = another_type {
        return Err(KeyError::AnotherType(name));
    }
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\",;\\".contains(byte);
    match std::str::from_utf8(value) {
        Ok(text) if value.iter().all(is_plain) => Ok(text.to_owned()),
        _ => Err(KeyError::NotBare),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8], form: KeyForm) -> Result<String, KeyError> {
        let value = HeaderValue::from_bytes(value).unwrap();
        IdempotencyKey::from_value(&value, form).map(|key| key.0)
    }

    #[test]
    fn an_opaque_key_is_the_value_as_it_is() {
        for text in ["order 5", "a;b", r#"{"a":1}"#, r#""a""#, "?1", ":YWJj:"] {
            assert_eq!(read(text.as_bytes(), KeyForm::Opaque).as_deref(), Ok(text));
        }
        assert_eq!(read(b"  ", KeyForm::Opaque), Err(KeyError::Empty));
        assert_eq!(read(b"\xfc", KeyForm::Opaque), Err(KeyError::NotText));
    }

    #[test]
    fn strings_are_read_in_both_forms() {
        for form in [KeyForm::Lenient, KeyForm::Strict] {
            for (value, expected) in [
                (r#""8e03978e-40d5""#, "8e03978e-40d5"),
                (r#"  "a"  "#, "a"),
                (r#""a b,c;d""#, "a b,c;d"),
                (r#""say \"hi\" \\""#, r#"say "hi" \"#),
                (r#""a";tenant=b"#, "a"),
            ] {
                assert_eq!(read(value.as_bytes(), form).as_deref(), Ok(expected));
            }
        }
    }

    #[test]
    fn the_bare_form_is_read_unless_strict() {
        for bare in [
            "8e03978e-40d5",
            "order:12/a_b.c~d",
            "YWJj+/==",
            "12",
            "-1.50",
            "1659578233",
            "3f8b0b5c-9d0a-4b7e-8a53-0c6f3a2d1e4f",
            "*token:x",
            "a?1",
            "a:YWJj:",
        ] {
            assert_eq!(read(bare.as_bytes(), KeyForm::Lenient).as_deref(), Ok(bare));
            assert_eq!(
                read(bare.as_bytes(), KeyForm::Strict),
                Err(KeyError::NotAString)
            );
        }
    }

    #[test]
    fn an_invalid_key_is_refused_with_the_reason() {
        let long = "x".repeat(256);
        let long_quoted = format!("\"{long}\"");
        for (value, expected) in [
            (&b""[..], KeyError::Empty),
            (b"  ", KeyError::Empty),
            (b"\"\"", KeyError::Empty),
            (b"\" \"", KeyError::Blank),
            (b"\"   \"", KeyError::Blank),
            (b" \"   \";v=1 ", KeyError::Blank),
            (b"?0", KeyError::AnotherType("a boolean")),
            (b"?1", KeyError::AnotherType("a boolean")),
            (b" ?1 ", KeyError::AnotherType("a boolean")),
            (b":aGVsbG8=:", KeyError::AnotherType("a byte sequence")),
            (b":aGVsbG8=", KeyError::AnotherType("a byte sequence")),
            (b"@1659578233", KeyError::AnotherType("a date")),
            (b"%\"caf%c3%a9\"", KeyError::AnotherType("a display string")),
            (b"(a)", KeyError::AnotherType("an inner list")),
            (b"(\"a\" \"b\")", KeyError::AnotherType("an inner list")),
            (b"?1;v=2", KeyError::AnotherType("a boolean")),
            (b"a;v=2", KeyError::NotBare),
            (b"12;v=2", KeyError::NotBare),
            (long.as_bytes(), KeyError::TooLong),
            (long_quoted.as_bytes(), KeyError::TooLong),
            (b"\"a", KeyError::NotAString),
            (b"\"a\\b\"", KeyError::NotAString),
            (b"\"a\" \"b\"", KeyError::NotAString),
            (b"\"a\", \"b\"", KeyError::NotAString),
            (b"\"caf\xc3\xa9\"", KeyError::NotAString),
            (b"\"a\tb\"", KeyError::NotAString),
            (b"a, b", KeyError::NotBare),
            (b"a;b", KeyError::NotBare),
            (b"a b", KeyError::NotBare),
            (b"a\"", KeyError::NotBare),
            (b"a\\b", KeyError::NotBare),
            (b"caf\xc3\xa9", KeyError::NotBare),
            (b"\xff", KeyError::NotBare),
        ] {
            assert_eq!(read(value, KeyForm::Lenient), Err(expected), "{value:?}");
        }
        assert!(read(&long.as_bytes()[..255], KeyForm::Lenient).is_ok());
    }

    #[test]
    fn blanks_within_quotes_count_and_around_them_do_not() {
        let lenient = |value: &[u8]| read(value, KeyForm::Lenient);
        assert_eq!(lenient(b" \" a \" ").as_deref(), Ok(" a "));
        assert_eq!(lenient(b"\"a\"").as_deref(), Ok("a"));
        assert_eq!(lenient(b"  a ").as_deref(), Ok("a"));
    }

    #[test]
    fn numbers_are_texts() {
        for number in ["1", "1.0", "01", "-1"] {
            let quoted = format!("\"{number}\"");
            let read = |value: &str| read(value.as_bytes(), KeyForm::Lenient);
            assert_eq!(read(number).as_deref(), Ok(number));
            assert_eq!(read(&quoted), read(number), "quoted it is the same key");
        }
    }

    #[test]
    fn debug_shows_no_key() {
        assert_eq!(
            format!("{:?}", IdempotencyKey("secret".into())),
            "IdempotencyKey(6 bytes)"
        );
    }
}
