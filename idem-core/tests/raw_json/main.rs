//! [`RawJson`] beside the readers that handlers use.

mod judge;

use idem_core::json::{MemberError, RawJson};
use proptest::prelude::*;

use crate::judge::{PIECES, judge, write};

fn at<'a>(text: &'a (impl AsRef<[u8]> + ?Sized), pointer: &str) -> Option<&'a [u8]> {
    let found = RawJson::read(text.as_ref()).unwrap().pointer(pointer);
    found.unwrap().map(RawJson::bytes)
}

#[test]
fn a_member_is_found_whatever_stands_beside_it() {
    for beside in [
        &br#""\ud83d""#[..],
        b"\"\xff\xc0\x80\"",
        b"1e999",
        b"-0.5E+00123456789012345678901234567890",
        [b"[".repeat(200), b"]".repeat(200)].concat().as_slice(),
        [b"{\"a\":[".repeat(100_000), b"]}".repeat(100_000)]
            .concat()
            .as_slice(),
        br#"{"$serde_json::private::RawValue":"{\"key\":1}"}"#,
        b"[ ]",
        b"{\n}",
    ] {
        for text in [
            [&b"{\"x\" :"[..], beside, b", \"key\"\t: \"k\" }"].concat(),
            [&b"{\"key\":\"k\",\"\":"[..], beside, b"}\r\n"].concat(),
            [&b"{\"\\ud83d\":"[..], beside, b",\"k\\u0065y\":\"k\"}"].concat(),
        ] {
            assert_eq!(at(&text, "/key"), Some(&b"\"k\""[..]));
            assert_eq!(at(&text, "/key/x"), None);
        }
    }
}

#[test]
fn pointers_follow_rfc_6901() {
    let text = br#" {"a/b": [0, {"m~n": true}], "": {"": 1.50}, "01": null} "#;
    for (pointer, expected) in [
        ("", Some(&text[1..text.len() - 1])),
        ("/a~1b/1/m~0n", Some(b"true")),
        ("/a~1b/0", Some(b"0")),
        ("/a~1b/2", None),
        ("//", Some(b"1.50")),
        ("/01", Some(b"null")),
        ("/01/x", None),
        ("a~1b", None),
    ] {
        assert_eq!(at(text, pointer), expected, "{pointer}");
    }
}

#[test]
fn a_member_with_two_readings_is_an_error() {
    let read = |text: &'static str, pointer: &str| {
        let found = RawJson::read(text.as_bytes()).unwrap().pointer(pointer);
        found.map(|found| found.map(RawJson::bytes))
    };
    for (text, pointer, error) in [
        (r#"{"a":1,"a":1}"#, "/a", MemberError::Repeated),
        (r#"{"a":1,"\u0061":1}"#, "/a", MemberError::Repeated),
        (
            r#"{"a":{},"b":0,"a":{"b":1}}"#,
            "/a/b",
            MemberError::Repeated,
        ),
        (r#"["k"]"#, "/key", MemberError::Positional),
        (r#"{"a":["k"]}"#, "/a/01", MemberError::Positional),
        (
            r#"{"a":{"$serde_json::private::RawValue":"{\"b\":1}"}}"#,
            "/a/b",
            MemberError::Hidden,
        ),
    ] {
        assert_eq!(read(text, pointer), Err(error), "{text}");
    }
    let elsewhere = r#"{"b":[],"a":1,"b":2,"c":{"a":3}}"#;
    assert_eq!(read(elsewhere, "/a"), Ok(Some(&b"1"[..])));
}

#[test]
fn a_repeated_name_is_found_at_any_depth() {
    let deep = |inner: &str| {
        let text = [
            "[{\"a\":".repeat(10_000),
            inner.to_owned(),
            "}]".repeat(10_000),
        ]
        .concat();
        RawJson::read(text.as_bytes()).unwrap().has_repeated_name()
    };
    assert!(!deep(r#"{"b":{"a":1},"c":{"a":"\ud83d"},"d":[{},{}]}"#));
    for repeated in [
        r#"{"b":1,"c":2,"\u0062":1}"#,
        r#"1,"a":2"#,
        r#"{"\ud83d":1,"\ud83d":1}"#,
    ] {
        assert!(deep(repeated), "{repeated}");
    }
}

#[test]
fn a_string_is_unicode_text_or_none() {
    let text = |value: &'static [u8]| RawJson::read(value).unwrap().as_str();
    assert_eq!(text(br#""\ud83d\ude00\u0041\/""#).as_deref(), Some("😀A/"));
    assert_eq!(text("\"é\"".as_bytes()).as_deref(), Some("é"));
    for none in [
        &br#""\ud83d""#[..],
        b"\"\xff\"",
        br#""\udc00\ud83d""#,
        b"1",
        b"null",
        b"[]",
    ] {
        assert_eq!(text(none), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn it_agrees_with_three_typed_readers(
        choices in prop::collection::vec(any::<u8>(), 0..48),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_usize), 0..3),
    ) {
        let mut text = Vec::new();
        // Most documents are objects.
        let first = [choices.first().map_or(0, |choice| choice % 5)];
        write(&mut first.into_iter().chain(choices), 0, &mut text);
        judge(&text);
        for (place, piece, removed) in edits {
            let start = place.index(text.len() + 1);
            let end = text.len().min(start + removed);
            text.splice(start..end, PIECES[piece as usize % PIECES.len()].iter().copied());
            judge(&text);
        }
    }
}
