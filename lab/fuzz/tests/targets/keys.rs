//! Keys: how they are joined, and how a header says one.

use http::{HeaderMap, HeaderValue};
use idem_core::Key;
use idem_fuzz::Input;
use idem_http::{IDEMPOTENCY_KEY, IdempotencyKey, KeyForm};
use sfv::{BareItem, Item, Parser};

/// Different keys have different texts and hashes, and a text gives its key back.
#[test]
fn joined() {
    check!("keys::joined", |bytes: &[u8]| {
        let mut input = Input(bytes);
        let mut key = || Key::new(input.text(), input.text(), input.text());
        let (Ok(one), Ok(other)) = (key(), key()) else {
            return;
        };
        assert_eq!(Key::from_path(&one.path()).unwrap(), one);
        let same = one == other;
        assert_eq!(one.path() == other.path(), same);
        assert_eq!(one.hashed() == other.hashed(), same);
        assert_eq!(one.derive("a") == other.derive("a"), same);
        assert_ne!(one.derive("a"), one.derive("b"));
    });
}

/// The same characters cut at other places are another key.
#[test]
fn cut_elsewhere() {
    check!("keys::cut_elsewhere", |bytes: &[u8]| {
        let mut input = Input(bytes);
        let cuts = [
            input.below(20),
            input.below(20),
            input.below(20),
            input.below(20),
        ];
        let text = String::from_utf8_lossy(input.rest()).into_owned();
        let letters: Vec<char> = text.chars().take(60).collect();
        let key = |one: usize, two: usize| {
            let one = one.min(letters.len());
            let two = (one + two).min(letters.len());
            let part = |range: std::ops::Range<usize>| letters[range].iter().collect::<String>();
            Key::new(part(0..one), part(one..two), part(two..letters.len()))
        };
        let (Ok(one), Ok(other)) = (key(cuts[0], cuts[1]), key(cuts[2], cuts[3])) else {
            return;
        };
        let same = (cuts[0], cuts[1]) == (cuts[2], cuts[3]);
        assert_eq!(one == other, same);
        assert_eq!(one.path() == other.path(), same);
        assert_eq!(one.hashed() == other.hashed(), same);
    });
}

/// The text of a path is read back, or is none.
#[test]
fn path() {
    check!("keys::path", |bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return;
        };
        if let Ok(key) = Key::from_path(text) {
            assert_eq!(Key::from_path(&key.path()).unwrap(), key);
        }
    });
}

/// The strict form is the string of a structured field; the lenient one may also be bare.
#[test]
fn header() {
    check!("keys::header", |bytes: &[u8]| {
        let Ok(value) = HeaderValue::from_bytes(bytes) else {
            return;
        };
        let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, value.clone())]);
        let read = |form| IdempotencyKey::from_headers(&headers, &IDEMPOTENCY_KEY, form);
        let (strict, lenient) = (read(KeyForm::Strict), read(KeyForm::Lenient));
        let text = value.as_bytes().trim_ascii();
        let theirs = Parser::new(text).parse::<Item>();
        let theirs = match theirs.map(|item| item.bare_item) {
            Ok(BareItem::String(text)) => IdempotencyKey::from_text(text.as_str()).ok(),
            _ => None,
        };
        assert_eq!(strict.as_ref().ok().cloned().flatten(), theirs);
        if text.first() == Some(&b'"') {
            assert_eq!(strict, lenient);
        }
        for key in [strict, lenient].into_iter().flatten().flatten() {
            let escaped = key.as_str().replace('\\', "\\\\").replace('"', "\\\"");
            let quoted = HeaderValue::from_str(&format!("\"{escaped}\"")).unwrap();
            let headers = HeaderMap::from_iter([(IDEMPOTENCY_KEY, quoted)]);
            let again = IdempotencyKey::from_headers(&headers, &IDEMPOTENCY_KEY, KeyForm::Strict);
            assert_eq!(again, Ok(Some(key)));
        }
    });
}
