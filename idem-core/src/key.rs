//! [`Key`]: scope, operation and id of one request.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::recipe::{Target, normalize_name};

use crate::digest::{hex, length_prefixed};
use crate::{Error, Result};

/// The composite that identifies one operation: `(scope, operation, id)`.
///
/// * *scope*: the requester (tenant, account, API key), 1 to 255 bytes;
/// * *operation*: the requested operation (`payments.create`), 1 to 128 bytes;
/// * *id*: the request (the idempotency key that the client sent, or one made by a recipe), 1 to
///   255 bytes.
///
/// Each part is UTF-8 without control characters (Unicode category Cc), and is compared byte for
/// byte: case, accents, composed and decomposed forms and trailing spaces all count. Parts are
/// never joined, so `("ab", "c")` is not `("a", "bc")`.
///
/// Cloning costs a reference count. `Debug` shows the operation and a hash, never scope or id; call
/// their accessors where they have to be shown.
#[derive(Clone)]
pub struct Key {
    /// scope, operation and id, one after the other
    text: Arc<str>,
    scope_end: u16,
    operation_end: u16,
}

impl Key {
    /// Most bytes that a scope may have.
    pub const MAX_SCOPE_BYTES: usize = 255;
    /// Most bytes that an operation may have.
    pub const MAX_OPERATION_BYTES: usize = 128;
    /// Most bytes that an id may have.
    pub const MAX_ID_BYTES: usize = 255;

    /// Creates a key of these three parts, as they are, with one exception: clients choose ids, and
    /// nobody may reach a [derived](Self::derive) key, or one that a recipe has made
    /// ([`from_parts`](Self::from_parts), [`from_intent`](Self::from_intent)), by its name. So an id
    /// in the form of theirs, such as `d1:` and 64 hexadecimal digits, becomes `c1:` and its
    /// SHA-256. [`Key::stored`] takes every id as it is.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when a part is empty, too long, or contains
    /// a control character; the message names the part and the limit. For input that may be longer,
    /// see [`Key::from_parts`].
    pub fn new(
        scope: impl AsRef<str>,
        operation: impl AsRef<str>,
        id: impl AsRef<str>,
    ) -> Result<Self> {
        let (id, made) = (id.as_ref(), made_id(id.as_ref()));
        Self::stored(scope, operation, made.as_deref().unwrap_or(id))
    }

    /// Creates a key of the parts of an existing one, for stores and tools that read them from a
    /// record. Never call it with an id that a client has chosen: see [`Key::new`].
    ///
    /// # Errors
    ///
    /// As for [`Key::new`].
    pub fn stored(
        scope: impl AsRef<str>,
        operation: impl AsRef<str>,
        id: impl AsRef<str>,
    ) -> Result<Self> {
        let (scope, operation, id) = (scope.as_ref(), operation.as_ref(), id.as_ref());
        check_part("scope", scope, Self::MAX_SCOPE_BYTES)?;
        check_part("operation", operation, Self::MAX_OPERATION_BYTES)?;
        check_part("id", id, Self::MAX_ID_BYTES)?;
        let scope_end = u16::try_from(scope.len()).map_err(|_| too_long("scope"))?;
        let operation_end =
            u16::try_from(scope.len() + operation.len()).map_err(|_| too_long("operation"))?;
        Ok(Self {
            text: joined([scope, operation, id]),
            scope_end,
            operation_end,
        })
    }

    /// Returns the scope: the requester.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.text[..usize::from(self.scope_end)]
    }

    /// Returns the operation.
    #[must_use]
    pub fn operation(&self) -> &str {
        &self.text[usize::from(self.scope_end)..usize::from(self.operation_end)]
    }

    /// Returns the id of the request.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.text[usize::from(self.operation_end)..]
    }

    /// Derives a key for a system that the work calls, the same at every attempt: same scope and
    /// operation, and an id that is `d1:` and the SHA-256 of this key and `name`.
    ///
    /// Send its [`id`](Key::id) (67 ASCII characters) as the idempotency key of the call to another
    /// service: a takeover then repeats the call under the same key.
    #[must_use]
    pub fn derive(&self, name: &str) -> Self {
        let digest = length_prefixed([
            "idem/derive/1".as_bytes(),
            self.scope().as_bytes(),
            self.operation().as_bytes(),
            self.id().as_bytes(),
            name.as_bytes(),
        ]);
        self.with_id(&format!("d1:{}", hex(&digest)))
    }

    /// Returns a key with the same scope and operation, and an id that is known to be valid.
    fn with_id(&self, id: &str) -> Self {
        Self {
            text: joined([self.scope(), self.operation(), id]),
            scope_end: self.scope_end,
            operation_end: self.operation_end,
        }
    }

    /// Returns the SHA-256 over the length-prefixed parts, in hexadecimal: logs show it instead of
    /// the key.
    #[must_use]
    pub fn hashed(&self) -> String {
        hex(&length_prefixed(self.parts().map(str::as_bytes)))
    }

    /// Returns `scope:operation:id` as one text, for stores that name a record by one text. `%`,
    /// `:`, `{` and `}` within the parts are percent-encoded, so different keys have different
    /// texts, and none has a Redis hash tag.
    #[must_use]
    pub fn path(&self) -> String {
        let mut path = String::with_capacity(self.text.len() + 2);
        for (index, part) in self.parts().into_iter().enumerate() {
            if index > 0 {
                path.push(':');
            }
            if !part
                .bytes()
                .any(|byte| matches!(byte, b'%' | b':' | b'{' | b'}'))
            {
                path.push_str(part);
                continue;
            }
            for character in part.chars() {
                match character {
                    '%' => path.push_str("%25"),
                    ':' => path.push_str("%3A"),
                    '{' => path.push_str("%7B"),
                    '}' => path.push_str("%7D"),
                    other => path.push(other),
                }
            }
        }
        path
    }

    /// Reads the text of [`path`](Self::path), as [`stored`](Self::stored) does.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it has not three parts, or a part is no
    /// part of a key.
    pub fn from_path(path: &str) -> Result<Self> {
        let mut parts = path.split(':').map(|part| {
            let decoded = part.replace("%7B", "{").replace("%7D", "}");
            // Last, because it makes the character that starts a code.
            decoded.replace("%3A", ":").replace("%25", "%")
        });
        match [parts.next(), parts.next(), parts.next(), parts.next()] {
            [Some(scope), Some(operation), Some(id), None] => Self::stored(scope, operation, id),
            _ => Err(Error::invalid_input(
                "the text is not the path of a key, which is `scope:operation:id`, with `:` as `%3A` within a part",
            )),
        }
    }

    fn parts(&self) -> [&str; 3] {
        [self.scope(), self.operation(), self.id()]
    }
}

/// Returns the id in place of one that has the form of a derived key's, of a recipe's, or of this
/// function's own.
fn made_id(id: &str) -> Option<String> {
    let (form, digits) = id.split_at_checked(3)?;
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_digest = digits.len() == 64 && digits.bytes().all(is_digit);
    (is_digest && matches!(form, "c1:" | "d1:" | "p1:" | "t1:")).then(|| {
        format!(
            "c1:{}",
            hex(&length_prefixed(["idem/client/1", id].map(str::as_bytes)))
        )
    })
}

/// Joins the parts on the stack, so that the resulting text is the only allocation.
fn joined(parts: [&str; 3]) -> Arc<str> {
    const MAX: usize = Key::MAX_SCOPE_BYTES + Key::MAX_OPERATION_BYTES + Key::MAX_ID_BYTES;
    let mut bytes = [0; MAX];
    let mut end = 0;
    for part in parts {
        let Some(index) = bytes.get_mut(end..end + part.len()) else {
            return parts.concat().into();
        };
        index.copy_from_slice(part.as_bytes());
        end += part.len();
    }
    match str::from_utf8(&bytes[..end]) {
        Ok(text) => text.into(),
        Err(_) => parts.concat().into(),
    }
}

fn too_long(part: &str) -> Error {
    Error::invalid_input(format!("key {part} is too long"))
}

fn check_part(part: &str, value: &str, max: usize) -> Result<()> {
    if value.is_empty() {
        return Err(Error::invalid_input(format!(
            "key {part} is empty; it needs 1 to {max} bytes"
        )));
    }
    if value.len() > max {
        return Err(Error::invalid_input(format!(
            "key {part} has {} bytes, at most {max} are allowed; hash long input with `Key::from_parts`",
            value.len()
        )));
    }
    // Nearly every part is plain ASCII, which shows without decoding.
    let plain = |plain, byte: u8| plain & matches!(byte, b' '..=b'~');
    if value.bytes().fold(true, plain) {
        return Ok(());
    }
    match value.char_indices().find(|(_, c)| c.is_control()) {
        None => Ok(()),
        Some((at, c)) => Err(Error::invalid_input(format!(
            "key {part} has the control character U+{:04X} at byte {at}; remove it, or hash the \
             input with `Key::from_parts`",
            u32::from(c)
        ))),
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.scope_end == other.scope_end
            && self.operation_end == other.operation_end
            && self.text == other.text
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Few writes, because hashers are slow on each; the lengths mark the end of the text, which
        // comes first.
        state.write(self.text.as_bytes());
        let ends = [self.scope_end, self.operation_end].map(u64::from);
        state.write_u64(ends[0] << 48 | ends[1] << 32 | self.text.len() as u64);
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        // Where the parts have equal lengths, the order of the whole texts is the order of the
        // parts.
        let ends = |key: &Self| (key.scope_end, key.operation_end);
        match ends(self) == ends(other) {
            true => self.text.cmp(&other.text),
            false => self.parts().cmp(&other.parts()),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = self.hashed();
        f.debug_struct("Key")
            .field("operation", &self.operation())
            .field("hash", &&hash[..12])
            .finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename = "Key", deny_unknown_fields)]
struct Parts<'a> {
    scope: std::borrow::Cow<'a, str>,
    operation: std::borrow::Cow<'a, str>,
    id: std::borrow::Cow<'a, str>,
}

impl Serialize for Key {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Parts {
            scope: self.scope().into(),
            operation: self.operation().into(),
            id: self.id().into(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parts = Parts::deserialize(deserializer)?;
        Self::stored(parts.scope, parts.operation, parts.id).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(scope: &str, operation: &str, id: &str) -> Key {
        Key::new(scope, operation, id).unwrap()
    }

    #[test]
    fn parts_are_never_joined() {
        assert_ne!(key("ab", "c", "d"), key("a", "bc", "d"));
        assert_ne!(key("a", "bc", "d"), key("a", "b", "cd"));
        assert_ne!(key("ab", "c", "d").hashed(), key("a", "bc", "d").hashed());
        assert_eq!(key("ab", "c", "d"), key("ab", "c", "d"));
    }

    #[test]
    fn paths_of_different_keys_differ() {
        assert_eq!(key("a", "b.c", "d e").path(), "a:b.c:d e");
        assert_eq!(key("a:b", "{c}", "%3A").path(), "a%3Ab:%7Bc%7D:%253A");
        for key in [
            key("a:b", "{c}", "%3A"),
            key("a%25", "b", "%%7B"),
            key("a", "b", "c d"),
        ] {
            assert_eq!(Key::from_path(&key.path()).unwrap(), key);
        }
        for wrong in ["a:b", "a:b:c:d", "a::c", ""] {
            assert!(Key::from_path(wrong).is_err(), "{wrong}");
        }
        assert_ne!(key("a:b", "c", "d").path(), key("a", "b:c", "d").path());
        assert_ne!(key("a%3Ab", "c", "d").path(), key("a:b", "c", "d").path());
    }

    #[test]
    fn order_is_by_scope_then_operation_then_id() {
        let mut keys = [key("b", "a", "a"), key("a", "b", "a"), key("a", "a", "z")];
        keys.sort();
        assert_eq!(keys[0], key("a", "a", "z"));
        assert_eq!(keys[2], key("b", "a", "a"));
        assert!(key("a", "b", "b") < key("a", "ba", "a"));
        assert!(key("a", "b", "a") < key("a", "b", "b"));
    }

    #[test]
    fn each_limit_is_named_in_its_error() {
        let long = "x".repeat(256);
        for (scope, operation, id, part) in [
            ("", "o", "i", "scope"),
            (long.as_str(), "o", "i", "scope"),
            ("s", &long[..129], "i", "operation"),
            ("s", "o", "", "id"),
            ("s", "o", "a\u{0}b", "id"),
            ("s", "o", "a\u{85}b", "id"),
            ("s\n", "o", "i", "scope"),
        ] {
            let error = Key::new(scope, operation, id).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(Key::new(&long[..255], &long[..128], &long[..255]).is_ok());
    }

    #[test]
    fn debug_shows_neither_scope_nor_id() {
        let shown = format!("{:?}", key("tenant-secret", "pay", "id-secret"));
        assert!(
            shown.contains("pay") && !shown.contains("secret"),
            "{shown}"
        );
    }

    #[test]
    fn serde_round_trip_checks_the_limits() {
        let text = serde_json::to_string(&key("s", "o", "i")).unwrap();
        assert_eq!(
            serde_json::from_str::<Key>(&text).unwrap(),
            key("s", "o", "i")
        );
        assert!(serde_json::from_str::<Key>(r#"{"scope":"s","operation":"o","id":""}"#).is_err());
    }

    #[test]
    fn no_client_reaches_a_derived_key_by_its_name() {
        let base = key("s", "o", "i");
        let of_parts = Key::from_parts("s", "o", ["i"]).unwrap();
        let of_intent = Key::from_intent("s", Target::Id("i"), "o").unwrap();
        for made in [
            base.derive("x"),
            of_parts,
            of_intent,
            key("s", "o", base.derive("x").id()),
        ] {
            let named = key("s", "o", made.id());
            assert_ne!(named, made);
            assert!(named.id().starts_with("c1:") && named.id().len() == 67);
            assert_eq!(named, key("s", "o", made.id()));
            // What comes from a store is the key itself.
            assert_eq!(Key::stored("s", "o", made.id()).unwrap(), made);
            assert_eq!(Key::from_path(&made.path()).unwrap(), made);
            let text = serde_json::to_string(&made).unwrap();
            assert_eq!(serde_json::from_str::<Key>(&text).unwrap(), made);
        }
        for other in ["d1:", "d1:x", "d2:", &"d".repeat(67)] {
            assert_eq!(key("s", "o", other).id(), other);
        }
    }

    #[test]
    fn derived_keys_are_stable_and_depend_on_every_part() {
        let base = key("s", "o", "i");
        assert_eq!(base.derive("stripe"), base.derive("stripe"));
        assert_eq!(base.derive("stripe").id().len(), 67);
        assert_ne!(base.derive("stripe"), base.derive("mail"));
        assert_ne!(base.derive("x").id(), key("s2", "o", "i").derive("x").id());
        assert_ne!(base.derive("x").id(), key("s", "o2", "i").derive("x").id());
    }
}
