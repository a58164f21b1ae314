//! Edits of JSON texts that leave every other value as it is written.
//!
//! A parsed and rewritten document loses digits and the order of members. These functions look only
//! at the objects on the way to a member, so the rest of a replay stays as the handler wrote it.

use std::borrow::Cow;

use bytes::Bytes;
use idem_core::json::RawJson;
use serde_json::Value;

use crate::pointer::Pointer;

/// Returns the document with this value for the member at the pointer (RFC 6901). The objects on
/// the way have to exist; arrays are not entered. Returns `None` if they do not, or the text is not
/// JSON.
///
/// For hooks that adjust a replay: see
/// [`with_replay_hook`](crate::HttpPolicy::with_replay_hook).
#[must_use]
pub fn with_member(document: &[u8], pointer: &str, value: &Value) -> Option<Bytes> {
    with_text(document, pointer, value.to_string().as_bytes())
}

/// Returns the document with this JSON text for the member at the pointer.
pub(crate) fn with_text(document: &[u8], pointer: &str, text: &[u8]) -> Option<Bytes> {
    let steps = Pointer::new(pointer).steps();
    Some(edit(RawJson::read(document)?, &steps, Some(text))?.into())
}

/// Returns the value without the member at the pointer; unchanged when there is none.
pub(crate) fn without_member<'a>(value: Cow<'a, [u8]>, pointer: &Pointer) -> Cow<'a, [u8]> {
    let document = RawJson::read(&value);
    match document.and_then(|document| edit(document, &pointer.steps(), None)) {
        Some(shorter) => shorter.into(),
        None => value,
    }
}

/// Sets or removes a member.
fn edit(object: RawJson<'_>, steps: &[String], value: Option<&[u8]>) -> Option<Vec<u8>> {
    let Some((step, rest)) = steps.split_first() else {
        return value.map(<[u8]>::to_vec);
    };
    if !object.bytes().starts_with(b"{") {
        return None;
    }
    let mut is_found = false;
    let mut edited = vec![b'{'];
    let mut push = |name: &[u8], value: &[u8]| {
        if edited.len() > 1 {
            edited.push(b',');
        }
        edited.extend_from_slice(name);
        edited.push(b':');
        edited.extend_from_slice(value);
    };
    for (name, found) in object.members() {
        let is_it = name.is_str(step);
        is_found |= is_it;
        match (is_it, rest.is_empty()) {
            (false, _) => push(name.bytes(), found.bytes()),
            (true, true) => value
                .into_iter()
                .for_each(|value| push(name.bytes(), value)),
            (true, false) => push(name.bytes(), &edit(found, rest, value)?),
        }
    }
    match (is_found, rest.is_empty(), value) {
        (false, true, Some(value)) => {
            push(Value::from(step.as_str()).to_string().as_bytes(), value);
        }
        (false, ..) => return None,
        (true, ..) => {}
    }
    edited.push(b'}');
    Some(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"z": 12345678901234567890123, "id": 1, "a": {"b": 1.0, "c/d": [1, 2]}}"#;

    fn set(pointer: &str, value: &Value) -> Option<String> {
        let bytes = with_member(TEXT.as_bytes(), pointer, value)?;
        Some(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn a_member_is_set_and_the_rest_keeps_its_order_and_digits() {
        assert_eq!(
            set("/id", &Value::from("x")).as_deref(),
            Some(r#"{"z":12345678901234567890123,"id":"x","a":{"b": 1.0, "c/d": [1, 2]}}"#)
        );
        assert_eq!(
            set("/a/new", &Value::from(true)).as_deref(),
            Some(r#"{"z":12345678901234567890123,"id":1,"a":{"b":1.0,"c/d":[1, 2],"new":true}}"#)
        );
        assert_eq!(set("/nowhere/at", &Value::Null), None);
        assert_eq!(set("/a/b/c", &Value::Null), None);
        assert_eq!(with_member(b"[1]", "/a", &Value::Null), None);
    }

    #[test]
    fn a_member_is_removed_if_it_is_there() {
        let without = |pointer| {
            let text = without_member(TEXT.as_bytes().into(), &Pointer::new(pointer));
            String::from_utf8(text.into_owned()).unwrap()
        };
        assert_eq!(without("/a"), r#"{"z":12345678901234567890123,"id":1}"#);
        assert_eq!(
            without("/a/c~1d"),
            r#"{"z":12345678901234567890123,"id":1,"a":{"b":1.0}}"#
        );
        for nothing in ["/b", "/a/b/c", "/x/y"] {
            assert_eq!(without(nothing), TEXT);
        }
    }
}
