//! A digest over chosen fields of a JSON document.

use std::collections::BTreeSet;

use super::canonical::{Document, Part};
use crate::digest::length_prefixed;
use crate::json::array_index;
use crate::{Error, Result};

/// Returns the SHA-256 over pairs of pointer and canonical value, sorted by pointer; a missing
/// field is the empty value, which no JSON value is.
pub(super) fn digest<P: AsRef<str>>(
    text: &[u8],
    pointers: impl IntoIterator<Item = P>,
) -> Result<[u8; 32]> {
    let document = Document::parse(text)?;
    // The whole document is checked, chosen fields or not.
    document.write(document.root(), &mut String::new())?;
    let pointers: BTreeSet<String> = pointers
        .into_iter()
        .map(|pointer| pointer.as_ref().to_owned())
        .collect();
    if pointers.is_empty() {
        return Err(Error::invalid_input(
            "a fingerprint of fields needs at least one JSON Pointer",
        ));
    }
    let mut parts = Vec::with_capacity(pointers.len() * 2);
    for pointer in pointers {
        let mut value = String::new();
        if let Some(found) = resolve(&document, &pointer)? {
            document.write(found, &mut value)?;
        }
        parts.push(pointer);
        parts.push(value);
    }
    Ok(length_prefixed(parts.iter().map(String::as_bytes)))
}

/// Follows a JSON Pointer (RFC 6901).
fn resolve(document: &Document<'_>, pointer: &str) -> Result<Option<Part>> {
    if pointer.is_empty() {
        return Ok(Some(document.root()));
    }
    let tokens = pointer.strip_prefix('/').ok_or_else(|| {
        Error::invalid_input("a JSON Pointer is empty or starts with `/` (RFC 6901)")
    })?;
    let mut value = document.root();
    for token in tokens.split('/') {
        let token = unescape(token)?;
        match step(document, value, &token)? {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn step(document: &Document<'_>, value: Part, token: &str) -> Result<Option<Part>> {
    Ok(match document.kind(value) {
        b'{' => {
            let mut members = document.members(value)?.into_iter();
            members.find_map(|(name, value)| (name.text == token).then_some(value))
        }
        b'[' => array_index(token).and_then(|index| document.elements(value).nth(index)),
        _ => None,
    })
}

/// RFC 6901, 4: `~1` is `/`, `~0` is `~`, any other `~` is an error.
fn unescape(token: &str) -> Result<String> {
    let mut text = String::with_capacity(token.len());
    let mut chars = token.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '~' { chars.next() } else { None }) {
            ('~', Some('0')) => text.push('~'),
            ('~', Some('1')) => text.push('/'),
            ('~', _) => {
                return Err(Error::invalid_input(
                    "a `~` in a JSON Pointer is followed by 0 or 1 (RFC 6901)",
                ));
            }
            (c, _) => text.push(c),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use crate::Fingerprint;

    const ORDER: &str =
        r#"{"amount":1.0,"items":[{"sku":"a"},{"sku":"b"}],"a/b":1,"m~n":2,"at":"09:00"}"#;

    fn of(text: &str, pointers: &[&str]) -> Fingerprint {
        Fingerprint::fields(text, pointers).unwrap()
    }

    #[test]
    fn fields_that_are_not_chosen_do_not_count() {
        let later = ORDER.replace("09:00", "10:00").replace("1.0", "1");
        assert_eq!(
            of(ORDER, &["/amount", "/items"]),
            of(&later, &["/items", "/amount", "/items"])
        );
        assert_ne!(of(ORDER, &["/at"]), of(&later, &["/at"]));
    }

    #[test]
    fn a_missing_field_is_not_null() {
        assert_ne!(of("{}", &["/a"]), of(r#"{"a":null}"#, &["/a"]));
        assert_ne!(of("{}", &["/a"]), of("{}", &["/b"]));
        assert_eq!(of("[1]", &["/01"]), of("[1,2]", &["/01"]), "not an index");
    }

    #[test]
    fn pointers_follow_rfc_6901() {
        assert_eq!(of(ORDER, &["/a~1b"]), of(r#"{"a/b":1}"#, &["/a~1b"]));
        assert_eq!(of(ORDER, &["/m~0n"]), of(r#"{"m~n":2}"#, &["/m~0n"]));
        assert_eq!(
            of(ORDER, &["/items/1/sku"]),
            of(r#"{"items":[0,{"sku":"b"}]}"#, &["/items/1/sku"])
        );
        for wrong in ["amount", "/a~2", "/a~"] {
            assert!(Fingerprint::fields(ORDER, [wrong]).is_err(), "{wrong}");
        }
        assert!(Fingerprint::fields(ORDER, [""; 0]).is_err());
    }

    #[test]
    fn the_whole_document_is_checked() {
        assert!(Fingerprint::fields(r#"{"a":1,"b":{"c":1,"c":2}}"#, ["/a"]).is_err());
    }
}
