//! Canonical JSON: RFC 8785, with large integers kept exact.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::number;
use crate::{Error, Result};

/// How deep arrays and objects may be nested in a document to be fingerprinted.
pub const MAX_JSON_DEPTH: usize = 64;

/// Returns the canonical text of a JSON document: RFC 8785 (JSON Canonicalization Scheme), with one
/// exception.
///
/// * Object members are sorted by the UTF-16 code units of their names (RFC 8785, 3.2.3); there is
///   no white space; strings and numbers have one form only (3.2.2).
/// * Numbers are IEEE 754 doubles as in the RFC, so `1.0` is `1`. The exception: an integer above
///   2⁵³ in magnitude that a double cannot hold keeps its exact digits, because two different
///   amounts or ids must not have one fingerprint.
/// * Names that occur twice in an object are refused (RFC 8785 builds on I-JSON, RFC 7493, 2.3),
///   and so are lone surrogates (RFC 7493, 2.1) and documents nested deeper than
///   [`MAX_JSON_DEPTH`].
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) with the byte offset of the value at fault; its
/// content is not quoted.
pub fn canonical_json(text: &[u8]) -> Result<String> {
    let document = parse(text)?;
    let mut canonical = String::with_capacity(text.len());
    write_value(document.get(), document.get(), 0, &mut canonical)?;
    Ok(canonical)
}

/// Reads one JSON document, checking the syntax but not yet what [`write_value`] checks.
pub(super) fn parse(text: &[u8]) -> Result<&RawValue> {
    let text = std::str::from_utf8(text).map_err(|source| {
        Error::invalid_input(format!(
            "the JSON document is not UTF-8 at byte {}",
            source.valid_up_to()
        ))
    })?;
    serde_json::from_str(text).map_err(|source| {
        Error::invalid_input(format!(
            "the document is not JSON: error at line {}, column {}",
            source.line(),
            source.column()
        ))
    })
}

/// Writes the canonical form of `value`, which is a part of `document`.
pub(super) fn write_value(
    document: &str,
    value: &str,
    depth: usize,
    out: &mut String,
) -> Result<()> {
    match value.as_bytes().first() {
        Some(b'{') => write_object(document, value, depth, out),
        Some(b'[') => write_array(document, value, depth, out),
        // Only an escape can stand for what has another form, or none.
        Some(b'"') if !value.contains('\\') => {
            out.push_str(value);
            Ok(())
        }
        Some(b'"') => {
            let text: Text<'_> = read(document, value, "a string (a lone surrogate?)")?;
            write_string(&text.0, out);
            Ok(())
        }
        Some(b't' | b'f' | b'n') => {
            out.push_str(value);
            Ok(())
        }
        _ => number::write(value, out).ok_or_else(|| at(document, value, "a number out of range")),
    }
}

fn write_object(document: &str, value: &str, depth: usize, out: &mut String) -> Result<()> {
    let members = members(document, value, depth)?;
    out.push('{');
    for (position, (name, value)) in members.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write_string(&name.0, out);
        out.push(':');
        write_value(document, value.get(), depth + 1, out)?;
    }
    out.push('}');
    Ok(())
}

fn write_array(document: &str, value: &str, depth: usize, out: &mut String) -> Result<()> {
    out.push('[');
    for (position, value) in elements(document, value, depth)?.into_iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        write_value(document, value.get(), depth + 1, out)?;
    }
    out.push(']');
    Ok(())
}

/// Returns the members of an object in canonical order.
pub(super) fn members<'a>(
    document: &str,
    value: &'a str,
    depth: usize,
) -> Result<Vec<(Text<'a>, &'a RawValue)>> {
    check_depth(document, value, depth)?;
    let members: Members<'a> = read(
        document,
        value,
        "an object with a name that occurs twice or a lone surrogate in a name",
    )?;
    Ok(members.0)
}

/// Returns the elements of an array.
pub(super) fn elements<'a>(
    document: &str,
    value: &'a str,
    depth: usize,
) -> Result<Vec<&'a RawValue>> {
    check_depth(document, value, depth)?;
    read(document, value, "an array")
}

fn check_depth(document: &str, value: &str, depth: usize) -> Result<()> {
    if depth < MAX_JSON_DEPTH {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "the JSON document is nested deeper than {MAX_JSON_DEPTH} levels at byte {}",
        offset(document, value)
    )))
}

fn read<'a, T: Deserialize<'a>>(document: &str, value: &'a str, what: &str) -> Result<T> {
    // The driver's message may quote a member's name, so it is not kept.
    serde_json::from_str(value).map_err(|_| at(document, value, what))
}

fn at(document: &str, value: &str, what: &str) -> Error {
    Error::invalid_input(format!(
        "the JSON document has no canonical form: {what} at byte {}",
        offset(document, value)
    ))
}

/// Returns the offset of `part` in `document`, of which it is a slice.
fn offset(document: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(document.as_ptr() as usize)
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        out.push_str(text);
        out.push('"');
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A string that borrows where it has no escapes, ordered by UTF-16 code units.
#[derive(PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The order of bytes is the same for ASCII, and much faster.
        match self.0.is_ascii() && other.0.is_ascii() {
            true => self.0.cmp(&other.0),
            false => self.0.encode_utf16().cmp(other.0.encode_utf16()),
        }
    }
}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The members of an object, in canonical order.
struct Members<'a>(Vec<(Text<'a>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;

        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                let is_before = |one: &(Text<'_>, _), other: &(Text<'_>, _)| one.0 < other.0;
                if members.is_sorted_by(is_before) {
                    return Ok(Members(members));
                }
                members.sort_unstable_by(|one, other| one.0.cmp(&other.0));
                match members.is_sorted_by(is_before) {
                    true => Ok(Members(members)),
                    false => Err(serde::de::Error::custom("duplicate name")),
                }
            }
        }

        deserializer.deserialize_map(MembersVisitor)
    }
}
