//! Canonical JSON: RFC 8785, with numbers kept exact.

use std::borrow::Cow;
use std::cmp::Ordering;

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
/// * Numbers have the RFC's form of an IEEE 754 double, so `1.0` is `1`. The exception: where that is
///   another value, the number keeps its exact digits, as in `9007199254740993`, or
///   `1000000000000000001e-18` for `1.000000000000000001`. Two different amounts or ids must not have
///   one fingerprint.
/// * Names that occur twice in an object are refused (RFC 8785 builds on I-JSON, RFC 7493, 2.3),
///   and so are lone surrogates (RFC 7493, 2.1) and documents nested deeper than
///   [`MAX_JSON_DEPTH`].
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) with the byte offset of the value at fault; its
/// content is not quoted.
pub fn canonical_json(text: &[u8]) -> Result<String> {
    let document = Document::parse(text)?;
    let mut canonical = String::with_capacity(text.len());
    document.write(document.root(), &mut canonical)?;
    Ok(canonical)
}

/// A JSON document of valid syntax. Each array and object is read once, wherever it is nested.
pub(super) struct Document<'a> {
    text: &'a str,
    /// The ends of arrays and objects, in the order of their beginnings.
    ends: Vec<End>,
}

/// The end of an array or object.
struct End {
    /// The offset after it.
    at: usize,
    /// The number of the next array or object that is not inside of it.
    next: usize,
}

/// A value of a document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    start: usize,
    end: usize,
    /// The number of the first array or object from its beginning on, and from its end on.
    first: usize,
    next: usize,
}

impl<'a> Document<'a> {
    /// Reads a document. It checks syntax and depth; [`write`](Self::write) checks the rest.
    pub(super) fn parse(text: &'a [u8]) -> Result<Self> {
        let text = std::str::from_utf8(text).map_err(|source| {
            Error::invalid_input(format!(
                "the JSON document is not UTF-8 at byte {}",
                source.valid_up_to()
            ))
        })?;
        let value: &RawValue = serde_json::from_str(text).map_err(|source| {
            Error::invalid_input(format!(
                "the document is not JSON: error at line {}, column {}",
                source.line(),
                source.column()
            ))
        })?;
        let text = value.get();
        Ok(Self {
            text,
            ends: ends(text)?,
        })
    }

    /// Returns the whole document.
    pub(super) fn root(&self) -> Part {
        Part {
            start: 0,
            end: self.text.len(),
            first: 0,
            next: self.ends.len(),
        }
    }

    /// Returns the first byte of the value, which tells its kind.
    pub(super) fn kind(&self, part: Part) -> u8 {
        self.text.as_bytes()[part.start]
    }

    /// Writes the canonical form of a value.
    pub(super) fn write(&self, part: Part, out: &mut String) -> Result<()> {
        let value = &self.text[part.start..part.end];
        match self.kind(part) {
            b'{' => self.write_object(part, out),
            b'[' => self.write_array(part, out),
            // Only an escape can stand for what has another form, or none.
            b'"' if !value.contains('\\') => {
                out.push_str(value);
                Ok(())
            }
            b'"' => {
                let string = self.string(part, part, "a string (a lone surrogate?)")?;
                write_string(&string.text, out);
                Ok(())
            }
            b't' | b'f' | b'n' => {
                out.push_str(value);
                Ok(())
            }
            _ => number::write(value, out).ok_or_else(|| at(part, "a number out of range")),
        }
    }

    fn write_object(&self, part: Part, out: &mut String) -> Result<()> {
        out.push('{');
        for (position, (name, value)) in self.members(part)?.into_iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            write_string(&name.text, out);
            out.push(':');
            self.write(value, out)?;
        }
        out.push('}');
        Ok(())
    }

    fn write_array(&self, part: Part, out: &mut String) -> Result<()> {
        out.push('[');
        for (position, value) in self.elements(part).enumerate() {
            if position > 0 {
                out.push(',');
            }
            self.write(value, out)?;
        }
        out.push(']');
        Ok(())
    }

    /// Returns the members of an object in canonical order.
    pub(super) fn members(&self, object: Part) -> Result<Vec<(Text<'a>, Part)>> {
        let what = "an object with a name that occurs twice or a lone surrogate in a name";
        let mut members = Vec::new();
        let mut parts = self.elements(object);
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            members.push((self.string(name, object, what)?, value));
        }
        let is_before = |one: &(Text<'_>, Part), other: &(Text<'_>, Part)| one.0 < other.0;
        if members.is_sorted_by(is_before) {
            return Ok(members);
        }
        members.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        match members.is_sorted_by(is_before) {
            true => Ok(members),
            false => Err(at(object, what)),
        }
    }

    /// Returns the elements of an array; of an object, each name and then its value.
    pub(super) fn elements(&self, outer: Part) -> impl Iterator<Item = Part> {
        let (mut at, mut first) = (outer.start + 1, outer.first + 1);
        std::iter::from_fn(move || {
            let is_between = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b':');
            let inside = &self.text.as_bytes()[at..outer.end - 1];
            at += inside.iter().take_while(|byte| is_between(byte)).count();
            let part = (at < outer.end - 1).then(|| self.part(at, first))?;
            (at, first) = (part.end, part.next);
            Some(part)
        })
    }

    /// Returns the value at this offset.
    fn part(&self, start: usize, first: usize) -> Part {
        let bytes = &self.text.as_bytes()[start..];
        let is_end = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b',' | b']' | b'}');
        let (end, next) = match bytes.first() {
            Some(b'{' | b'[') => (self.ends[first].at, self.ends[first].next),
            Some(b'"') => (start + string_bytes(bytes), first),
            _ => {
                let length = bytes.iter().position(is_end);
                (start + length.unwrap_or(bytes.len()), first)
            }
        };
        Part {
            start,
            end,
            first,
            next,
        }
    }

    /// Reads a string; `place` is where an error is.
    fn string(&self, part: Part, place: Part, what: &str) -> Result<Text<'a>> {
        let quoted = &self.text[part.start..part.end];
        if !quoted.contains('\\') {
            return Ok(Text::new(Cow::Borrowed(&quoted[1..quoted.len() - 1])));
        }
        // The driver's message may quote the string, so it is not kept.
        let text = serde_json::from_str(quoted);
        text.map(|text| Text::new(Cow::Owned(text)))
            .map_err(|_| at(place, what))
    }
}

/// Finds the ends of arrays and objects in a text of valid syntax.
fn ends(text: &str) -> Result<Vec<End>> {
    let bytes = text.as_bytes();
    let (mut ends, mut open): (Vec<End>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += string_bytes(&bytes[at..]);
                continue;
            }
            b'{' | b'[' if open.len() == MAX_JSON_DEPTH => {
                return Err(Error::invalid_input(format!(
                    "the JSON document is nested deeper than {MAX_JSON_DEPTH} levels at byte {at}"
                )));
            }
            b'{' | b'[' => {
                open.push(ends.len());
                ends.push(End { at: 0, next: 0 });
            }
            b'}' | b']' => {
                if let Some(number) = open.pop() {
                    let next = ends.len();
                    ends[number] = End { at: at + 1, next };
                }
            }
            _ => {}
        }
        at += 1;
    }
    Ok(ends)
}

/// Returns the length of the string at the beginning of these bytes, with its quotes.
fn string_bytes(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn at(part: Part, what: &str) -> Error {
    Error::invalid_input(format!(
        "the JSON document has no canonical form: {what} at byte {}",
        part.start
    ))
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
#[derive(PartialEq, Eq)]
pub(super) struct Text<'a> {
    pub(super) text: Cow<'a, str>,
    /// Whether it has characters above U+FFFF, which begin with F0 to F4 in UTF-8.
    has_surrogates: bool,
}

impl<'a> Text<'a> {
    fn new(text: Cow<'a, str>) -> Self {
        Self {
            has_surrogates: text.bytes().any(|byte| byte >= 0xF0),
            text,
        }
    }
}

impl Ord for Text<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // Without surrogates the order is that of bytes, which is much faster.
        if !self.has_surrogates && !other.has_surrogates {
            return self.text.cmp(&other.text);
        }
        // Surrogates are below U+E000, which begins with EE.
        let rank = |byte| match byte {
            0xEE | 0xEF => byte + 0x10,
            _ => byte,
        };
        let (mine, theirs) = (self.text.bytes(), other.text.bytes());
        mine.map(rank).cmp(theirs.map(rank))
    }
}

impl PartialOrd for Text<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
