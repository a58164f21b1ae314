//! Documents, and what typed readers find in them.

use std::collections::BTreeMap;

use idem_core::json::{MemberError, RawJson};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Order {
    pub(crate) key: Option<String>,
    pub(crate) meta: Option<Meta>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Meta {
    pub(crate) key: Option<String>,
}

/// Compares what a reader found with ours, which may find two readings instead.
fn compare(text: &[u8], pointer: &str, theirs: Option<&str>) {
    match RawJson::read(text).unwrap().pointer(pointer) {
        Ok(found) => {
            let ours = found.filter(|found| !found.is_null());
            assert_eq!(ours.map(|key| key.as_str().unwrap()).as_deref(), theirs);
        }
        Err(MemberError::Positional | MemberError::Hidden) => {}
        Err(error) => panic!("{error}, and serde read {theirs:?}"),
    }
}

/// Compares what typed readers find in a document with what [`RawJson`] does.
pub(crate) fn judge(text: &[u8]) {
    let ours = RawJson::read(text);
    let skipped = serde_json::from_slice::<IgnoredAny>(text);
    assert_eq!(ours.is_some(), skipped.is_ok(), "the same grammar");
    if let Ok(order) = serde_json::from_slice::<Order>(text) {
        compare(text, "/key", order.key.as_deref());
        let nested = order.meta.and_then(|meta| meta.key);
        compare(text, "/meta/key", nested.as_deref());
    }
    let Some(ours) = ours else { return };
    if let Ok(value) = serde_json::from_slice::<Value>(text) {
        for pointer in ["/key", "/meta/key", "/0/key", "/list/1"] {
            if let Ok(found) = ours.pointer(pointer) {
                let found = found.map(|found| found.parse::<Value>().unwrap());
                assert_eq!(found.as_ref(), value.pointer(pointer), "{pointer}");
            }
        }
        let elements = value.as_array().map_or(0, Vec::len);
        let is_hidden = ours.member("") == Err(MemberError::Hidden);
        assert!(is_hidden || ours.elements().count() == elements);
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
                Err(error) => assert_ne!(error, MemberError::Positional),
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
pub(crate) const PIECES: [&[u8]; 16] = [
    b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\", b"\\u00", b"-", b".", b"e", b"0", b" ",
    b"\n", b"\x01",
];

/// A document that the choices make.
pub(crate) fn write(choices: &mut impl Iterator<Item = u8>, depth: usize, text: &mut Vec<u8>) {
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
