//! [`RawJson`]: the members of a JSON document, found without parsing what stands beside them.
//!
//! A service reads its documents into types, and skips what they do not name. A generic parser
//! refuses documents that such a service accepts: a lone surrogate or bytes that are not UTF-8 in a
//! skipped string, a number that no double holds, an array of 200 levels. Who looks for a key with a
//! generic parser finds none, and the request runs unguarded. This reader knows only the grammar
//! (RFC 8259), and looks only at the members on the way to the one that it returns.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;

use crate::fingerprint::canonical_json;

/// A JSON value, as it is written in its document.
///
/// The text follows the grammar of RFC 8259 in all but the content of strings: an escape may be a
/// lone surrogate, and other bytes may be anything but control characters. Numbers have any size.
/// Any depth is read in one pass, without recursion, with one bit of memory for each level.
///
/// ```
/// use idem_core::json::{MemberError, RawJson};
///
/// let order = RawJson::read(br#"{"note": "\ud83d", "meta": {"key": "k-1"}}"#).unwrap();
/// let key = order.pointer("/meta/key")?.unwrap();
/// assert_eq!(key.as_str().as_deref(), Some("k-1"));
///
/// let twice = RawJson::read(br#"{"key": "k-1", "\u006bey": "k-2"}"#).unwrap();
/// assert_eq!(twice.pointer("/key"), Err(MemberError::Repeated));
/// # Ok::<(), MemberError>(())
/// ```
///
/// `Debug` shows its length only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RawJson<'a>(&'a [u8]);

/// Why readers may differ on which member a document has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemberError {
    /// The object has the member twice, in whatever spelling. Some readers take the first, some the
    /// last.
    #[error("the document has the member, or one on the way to it, more than once")]
    Repeated,
    /// The name was looked for in an array that has elements. Some readers, such as `serde` for a struct, take the
    /// elements of an array for members, by their position.
    #[error("the document has an array where an object with the member belongs")]
    Positional,
    /// The object has a member whose text `serde_json::Value` returns as the document, in each
    /// program with serde_json's feature `raw_value`. idem enables that feature.
    #[error("the document has a member that some readers take for another document")]
    Hidden,
}

/// serde_json's name for a value that is kept as text.
const HIDDEN: &str = "$serde_json::private::RawValue";

impl<'a> RawJson<'a> {
    /// Reads one document; `None` when it does not follow the grammar.
    #[must_use]
    pub fn read(document: &'a [u8]) -> Option<Self> {
        let mut scanner = Scanner(document);
        let value = scanner.value()?;
        scanner.blanks();
        scanner.0.is_empty().then_some(value)
    }

    /// Returns the bytes of the value, without blanks around it.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Returns whether the value is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0 == b"null"
    }

    /// Returns the string; `None` for other values, and for strings with a lone surrogate or bytes
    /// that are not UTF-8.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        match self.0 {
            [b'"', text @ .., b'"'] if !text.contains(&b'\\') => {
                Some(std::str::from_utf8(text).ok()?.into())
            }
            _ => serde_json::from_slice::<String>(self.0)
                .ok()
                .map(Cow::Owned),
        }
    }

    /// Returns whether the value is this string, in whatever spelling.
    #[must_use]
    pub fn is_str(self, text: &str) -> bool {
        self.as_str().is_some_and(|own| own == text)
    }

    /// Returns the value for a key or a comparison: its canonical form (see [`canonical_json`]), or
    /// where it has none, as it is written, with U+FFFD for what is not UTF-8.
    #[must_use]
    pub fn canonical(self) -> String {
        let written = |_| String::from_utf8_lossy(self.0).into_owned();
        canonical_json(self.0).unwrap_or_else(written)
    }

    /// Parses the value.
    ///
    /// # Errors
    ///
    /// The parser's, which may quote the value.
    pub fn parse<T: Deserialize<'a>>(self) -> serde_json::Result<T> {
        serde_json::from_slice(self.0)
    }

    /// Returns the member of this name; `None` when the value has none.
    ///
    /// # Errors
    ///
    /// [`MemberError`] when readers may differ.
    pub fn member(self, name: &str) -> Result<Option<Self>, MemberError> {
        if self.elements().next().is_some() {
            return Err(MemberError::Positional);
        }
        let mut named = None;
        for (found, value) in self.members() {
            if found.is_str(HIDDEN) {
                return Err(MemberError::Hidden);
            }
            if found.is_str(name) && named.replace(value).is_some() {
                return Err(MemberError::Repeated);
            }
        }
        Ok(named)
    }

    /// Returns the value at this JSON Pointer (RFC 6901); `None` when there is none.
    ///
    /// # Errors
    ///
    /// [`MemberError`] when readers may differ.
    pub fn pointer(self, pointer: &str) -> Result<Option<Self>, MemberError> {
        let mut steps = pointer.split('/');
        if steps.next() != Some("") {
            return Ok(None);
        }
        let mut value = self;
        for step in steps {
            let found = match array_index(step) {
                Some(index) if value.0.starts_with(b"[") => value.elements().nth(index),
                _ => value.member(&step.replace("~1", "/").replace("~0", "~"))?,
            };
            match found {
                Some(found) => value = found,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    /// Returns the members of an object in their order, each as its name, a string, and its value;
    /// nothing for other values. Members of one name are all returned.
    pub fn members(self) -> impl Iterator<Item = (Self, Self)> + use<'a> {
        let mut inner = self.inside(b'{');
        std::iter::from_fn(move || {
            let name = inner.item()?;
            inner.blanks();
            inner.skip_if(b':');
            Some((name, inner.value()?))
        })
    }

    /// Returns the elements of an array in their order; nothing for other values.
    pub fn elements(self) -> impl Iterator<Item = Self> + use<'a> {
        let mut inner = self.inside(b'[');
        std::iter::from_fn(move || inner.item())
    }

    /// Returns whether some object in the value, at any depth, has two members of one name.
    #[must_use]
    pub fn has_repeated_name(self) -> bool {
        let mut open: Vec<HashSet<Cow<'a, [u8]>>> = Vec::new();
        let mut note = |part| match part {
            Part::Object => {
                open.push(HashSet::new());
                Some(())
            }
            Part::Name(name) => open.last_mut()?.insert(name.unescaped()).then_some(()),
            Part::End => open.pop().map(drop),
        };
        Scanner(self.0).skip_value(&mut note).is_none()
    }

    /// Returns the string, or as it is written if it is not Unicode text.
    fn unescaped(self) -> Cow<'a, [u8]> {
        match self.as_str() {
            Some(Cow::Borrowed(text)) => text.as_bytes().into(),
            Some(Cow::Owned(text)) => text.into_bytes().into(),
            None => self.0.into(),
        }
    }

    fn inside(self, open: u8) -> Scanner<'a> {
        match self.0 {
            [first, inner @ .., _] if *first == open => Scanner(inner),
            _ => Scanner(&[]),
        }
    }
}

impl fmt::Debug for RawJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.0.len())
    }
}

/// RFC 6901, 4: digits without a leading zero.
pub(crate) fn array_index(step: &str) -> Option<usize> {
    let digits = step.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = step.len() > 1 && step.starts_with('0');
    (digits && !leading_zero)
        .then(|| step.parse().ok())
        .flatten()
}

/// A part of an object that the scanner passes.
enum Part<'a> {
    Object,
    Name(RawJson<'a>),
    End,
}

/// The rest of a text.
#[derive(Debug, Clone)]
struct Scanner<'a>(&'a [u8]);

impl<'a> Scanner<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip_if(&mut self, byte: u8) -> bool {
        let is_it = self.0.first() == Some(&byte);
        if is_it {
            self.0 = &self.0[1..];
        }
        is_it
    }

    fn skip_while(&mut self, belongs: impl Fn(u8) -> bool) -> usize {
        let end = self.0.iter().position(|byte| !belongs(*byte));
        let end = end.unwrap_or(self.0.len());
        self.0 = &self.0[end..];
        end
    }

    fn blanks(&mut self) {
        self.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    }

    /// Returns the next name or element in an object or array that was read before.
    fn item(&mut self) -> Option<RawJson<'a>> {
        self.blanks();
        self.skip_if(b',');
        self.value()
    }

    /// Skips blanks and a value, and returns it.
    fn value(&mut self) -> Option<RawJson<'a>> {
        self.blanks();
        let start = self.0;
        self.skip_value(&mut |_| Some(()))?;
        Some(RawJson(&start[..start.len() - self.0.len()]))
    }

    /// Skips blanks and a value. Notes the parts of its objects, and ends early where that says so.
    fn skip_value(&mut self, note: &mut impl FnMut(Part<'a>) -> Option<()>) -> Option<()> {
        let mut open = Levels::default();
        loop {
            self.blanks();
            match self.next()? {
                b'{' => {
                    self.blanks();
                    if !self.skip_if(b'}') {
                        open.push(true);
                        note(Part::Object)?;
                        note(Part::Name(self.name()?))?;
                        continue;
                    }
                }
                b'[' => {
                    self.blanks();
                    if !self.skip_if(b']') {
                        open.push(false);
                        continue;
                    }
                }
                b'"' => self.string()?,
                b't' => self.word(b"rue")?,
                b'f' => self.word(b"alse")?,
                b'n' => self.word(b"ull")?,
                b'-' => {
                    let first = self.next()?;
                    self.number(first)?;
                }
                first => self.number(first)?,
            }
            // The value has ended, and with it any number of those around it.
            loop {
                let Some(is_object) = open.last() else {
                    return Some(());
                };
                self.blanks();
                match (self.next()?, is_object) {
                    (b',', true) => {
                        note(Part::Name(self.name()?))?;
                        break;
                    }
                    (b',', false) => break,
                    (b'}', true) => {
                        note(Part::End)?;
                        open.pop();
                    }
                    (b']', false) => open.pop(),
                    _ => return None,
                }
            }
        }
    }

    /// Skips the name of a member and its colon, and returns the name.
    fn name(&mut self) -> Option<RawJson<'a>> {
        self.blanks();
        let start = self.0;
        self.word(b"\"")?;
        self.string()?;
        let name = RawJson(&start[..start.len() - self.0.len()]);
        self.blanks();
        self.word(b":")?;
        Some(name)
    }

    /// Skips a string after its first quote.
    fn string(&mut self) -> Option<()> {
        loop {
            self.skip_while(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
            match (self.next()?, self.0.first()) {
                (b'"', _) => return Some(()),
                (b'\\', Some(b'u')) => {
                    let is_hex = self.0.get(1..5)?.iter().all(u8::is_ascii_hexdigit);
                    self.0 = is_hex.then(|| &self.0[5..])?;
                }
                (b'\\', Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => {
                    self.0 = &self.0[1..];
                }
                _ => return None,
            }
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(word)?;
        Some(())
    }

    /// Skips a number after its sign and first digit.
    fn number(&mut self, first: u8) -> Option<()> {
        match first {
            b'0' => {}
            b'1'..=b'9' => {
                let _ = self.digits();
            }
            _ => return None,
        }
        if self.skip_if(b'.') {
            self.digits()?;
        }
        if self.skip_if(b'e') || self.skip_if(b'E') {
            let _ = self.skip_if(b'+') || self.skip_if(b'-');
            self.digits()?;
        }
        Some(())
    }

    /// Skips digits; `None` when there is none.
    fn digits(&mut self) -> Option<()> {
        (self.skip_while(|byte| byte.is_ascii_digit()) > 0).then_some(())
    }
}

/// The arrays and objects that are open, a bit for each.
#[derive(Default)]
struct Levels {
    bits: Vec<u64>,
    depth: usize,
}

impl Levels {
    fn push(&mut self, is_object: bool) {
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        self.bits[word] = self.bits[word] & !(1 << bit) | u64::from(is_object) << bit;
        self.depth += 1;
    }

    fn last(&self) -> Option<bool> {
        let last = self.depth.checked_sub(1)?;
        Some(self.bits[last / 64] >> (last % 64) & 1 == 1)
    }

    fn pop(&mut self) {
        self.depth -= 1;
    }
}
