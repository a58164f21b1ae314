//! [`RawJson`] beside the readers that handlers use.

use std::collections::BTreeMap;

use idem_core::json::{MemberError, RawJson};
use proptest::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

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

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Order {
    key: Option<String>,
    meta: Option<Meta>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Meta {
    key: Option<String>,
}

/// Compares what a reader found with ours, which may find two readings instead.
fn compare(text: &[u8], pointer: &str, theirs: Option<&str>) {
    match RawJson::read(text).unwrap().pointer(pointer) {
        Ok(found) => {
            let ours = found.filter(|found| !found.is_null());
            assert_eq!(ours.map(|key| key.as_str().unwrap()).as_deref(), theirs);
        }
        Err(MemberError::Positional) => {}
        Err(error) => panic!("{error}, and serde read {theirs:?}"),
    }
}

fn judge(text: &[u8]) {
    let ours = RawJson::read(text);
    let skipped = serde_json::from_slice::<IgnoredAny>(text);
    assert_eq!(ours.is_some(), skipped.is_ok(), "the same grammar");
    if let Ok(order) = serde_json::from_slice::<Order>(text) {
        compare(text, "/key", order.key.as_deref());
        let nested = order.meta.and_then(|meta| meta.key);
        compare(text, "/meta/key", nested.as_deref());
    }
    let Some(ours) = ours else { return };
    let is_private = text.windows(8).any(|part| part == b"private:");
    if let (Ok(value), false) = (serde_json::from_slice::<Value>(text), is_private) {
        for pointer in ["/key", "/meta/key", "/0/key", "/list/1"] {
            if let Ok(found) = ours.pointer(pointer) {
                let found = found.map(|found| found.parse::<Value>().unwrap());
                assert_eq!(found.as_ref(), value.pointer(pointer), "{pointer}");
            }
        }
        assert_eq!(
            ours.elements().count(),
            value.as_array().map_or(0, Vec::len)
        );
    }
    if let Ok(members) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(text) {
        let mut names = 0;
        for (name, value) in &members {
            names += ours
                .members()
                .filter(|(own, _)| own.as_str().unwrap() == **name)
                .count();
            match ours.member(name) {
                Ok(found) => assert_eq!(found.unwrap().bytes(), value.get().as_bytes()),
                Err(error) => assert_eq!(error, MemberError::Repeated),
            }
        }
        assert_eq!(ours.members().count(), names);
    }
}

const NAMES: [&[u8]; 8] = [
    b"\"key\"",
    b"\"key\"",
    b"\"k\\u0065y\"",
    b"\"meta\"",
    b"\"list\"",
    b"\"\\ud83d\"",
    b"\"\xff\"",
    b"\"$serde_json::private::RawValue\"",
];
const LEAVES: [&[u8]; 16] = [
    b"\"k\"",
    b"\"\\u006b\"",
    b"\"\\ud83d\\ude00\"",
    b"\"\\ud83d\"",
    b"\"\xff\"",
    b"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
    b"\"{\\\"key\\\":1}\"",
    b"null",
    b"true",
    b"false",
    b"0",
    b"-0.10e+2",
    b"1e999",
    b"12345678901234567890123",
    b"[[[[]]]]",
    b"\"\"",
];
const PIECES: [&[u8]; 16] = [
    b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\", b"\\u00", b"-", b".", b"e", b"0", b" ",
    b"\n", b"\x01",
];

/// A document that the choices make.
fn write(choices: &mut impl Iterator<Item = u8>, depth: usize, text: &mut Vec<u8>) {
    let mut choose = || choices.next().unwrap_or_default() as usize;
    let (kind, items) = (choose(), choose() % 4);
    let is_object = match kind % 8 {
        _ if depth == 4 => None,
        0..=3 => Some(true),
        4..=5 => Some(false),
        _ => None,
    };
    let Some(is_object) = is_object else {
        text.extend(LEAVES[(kind / 8) % LEAVES.len()]);
        return;
    };
    text.push(if is_object { b'{' } else { b'[' });
    for item in 0..items {
        let name = choices.next().unwrap_or_default() as usize;
        text.extend(if item > 0 { &b", "[..] } else { b"" });
        if is_object {
            text.extend(NAMES[name % NAMES.len()]);
            text.extend(if name & 8 == 0 { &b":"[..] } else { b" : " });
        }
        write(choices, depth + 1, text);
    }
    text.push(if is_object { b'}' } else { b']' });
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
