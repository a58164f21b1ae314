//! As much of BSON as the questions here and their answers hold. <https://bsonspec.org/spec.html>

const DOUBLE: u8 = 0x01;
const TEXT: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const LIST: u8 = 0x04;
const BOOLEAN: u8 = 0x08;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;

/// A document that was received: whatever in it makes no sense is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Document {
    bytes: Vec<u8>,
}

impl Document {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// The text of that name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let bytes = self.value(&[TEXT], name)?.get(4..)?;
        std::str::from_utf8(bytes.strip_suffix(b"\0")?).ok()
    }

    /// Whether the flag of that name is there and set.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.value(&[BOOLEAN], name) == Some(&[1])
    }

    /// The number of that name, without what is behind its point.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        let bytes = self.value(&[DOUBLE, INT32, INT64], name)?;
        match (self.kind(name)?, bytes.len()) {
            (INT32, _) => Some(i32::from_le_bytes(bytes.try_into().ok()?).into()),
            (INT64, _) => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
            _ => Some(f64::from_le_bytes(bytes.try_into().ok()?) as i64),
        }
    }

    /// The document of that name.
    pub(crate) fn part(&self, name: &str) -> Option<Self> {
        self.value(&[DOCUMENT], name)
            .map(|bytes| Self::new(bytes.into()))
    }

    fn kind(&self, name: &str) -> Option<u8> {
        let mut elements = Elements::of(&self.bytes);
        elements.find_map(|(kind, other, _)| (other == name.as_bytes()).then_some(kind))
    }

    fn value(&self, kinds: &[u8], name: &str) -> Option<&[u8]> {
        let mut elements = Elements::of(&self.bytes);
        elements.find_map(|(kind, other, value)| {
            (other == name.as_bytes() && kinds.contains(&kind)).then_some(value)
        })
    }
}

/// Kind, name and value, one after the other.
struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    fn of(document: &'a [u8]) -> Self {
        Self {
            rest: document.get(4..).unwrap_or_default(),
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (kind, rest) = self.rest.split_first()?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let (name, rest) = (rest.get(..end)?, rest.get(end + 1..)?);
        let (value, rest) = rest.split_at_checked(length(*kind, rest)?)?;
        self.rest = rest;
        Some((*kind, name, value))
    }
}

/// How long a value of that kind is; none of the kinds that no server answers with here.
fn length(kind: u8, value: &[u8]) -> Option<usize> {
    let told = || {
        let bytes = value.get(..4)?.try_into().ok()?;
        usize::try_from(i32::from_le_bytes(bytes)).ok()
    };
    match kind {
        DOUBLE | 0x09 | 0x11 | INT64 => Some(8),
        TEXT | 0x0d | 0x0e => told()?.checked_add(4),
        DOCUMENT | LIST | 0x0f => told(),
        // Binary, with a byte for its subtype.
        0x05 => told()?.checked_add(5),
        0x07 => Some(12),
        BOOLEAN => Some(1),
        INT32 => Some(4),
        0x13 => Some(16),
        0x06 | 0x0a | 0x7f | 0xff => Some(0),
        _ => None,
    }
}

/// A document that is being written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    elements: Vec<u8>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn text(self, name: &str, text: &str) -> Self {
        let length = length_field(text.len() + 1);
        self.element(TEXT, name, &[&length, text.as_bytes(), b"\0"])
    }

    pub(crate) fn number(self, name: &str, number: i32) -> Self {
        self.element(INT32, name, &[&number.to_le_bytes()])
    }

    pub(crate) fn part(self, name: &str, part: Self) -> Self {
        self.element(DOCUMENT, name, &[&part.finish().bytes])
    }

    /// A list is a document whose names are numbers.
    pub(crate) fn list(self, name: &str, list: Self) -> Self {
        self.element(LIST, name, &[&list.finish().bytes])
    }

    fn element(mut self, kind: u8, name: &str, value: &[&[u8]]) -> Self {
        self.elements.push(kind);
        self.elements.extend_from_slice(name.as_bytes());
        self.elements.push(0);
        self.elements.extend_from_slice(&value.concat());
        self
    }

    pub(crate) fn finish(self) -> Document {
        let length = length_field(self.elements.len() + 5);
        Document::new([&length, self.elements.as_slice(), b"\0"].concat())
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.finish().bytes
    }
}

fn length_field(length: usize) -> [u8; 4] {
    i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::{Document, Writer};

    #[test]
    fn what_was_written_is_read() {
        let inner = Writer::new().number("port", 27017);
        let document = Writer::new()
            .part("net", inner)
            .text("version", "8.0.4")
            .finish();
        let port = document.part("net").and_then(|net| net.number("port"));
        assert_eq!(port, Some(27017));
        assert_eq!(document.text("version"), Some("8.0.4"));
        assert_eq!(document.text("net"), None);
    }

    #[test]
    fn values_of_other_kinds_are_stepped_over() {
        let mut bytes = vec![0, 0, 0, 0];
        bytes.extend_from_slice(b"\x07id\0twelve bytes");
        bytes.extend_from_slice(b"\x0anothing\0");
        bytes.extend_from_slice(b"\x05bin\0\x02\0\0\0\0ab");
        bytes.extend_from_slice(b"\x01ok\0\0\0\0\0\0\0\xf0\x3f");
        bytes.extend_from_slice(b"\x08isWritablePrimary\0\x01\0");
        let document = Document::new(bytes);
        assert!(document.flag("isWritablePrimary"));
        assert_eq!(document.number("ok"), Some(1));
    }

    #[test]
    fn a_document_that_is_cut_off_holds_what_is_whole() {
        let bytes = Writer::new()
            .number("n", 1)
            .text("version", "8")
            .into_bytes();
        let document = Document::new(bytes[..bytes.len() - 3].into());
        assert_eq!(document.number("n"), Some(1));
        assert_eq!(document.text("version"), None);
        assert_eq!(Document::new(Vec::new()).text("version"), None);
    }
}
