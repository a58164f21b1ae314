//! Edits of JSON texts that leave every other value as it is written.
//!
//! A parsed and rewritten document loses digits and the order of members. These functions look only
//! at the objects on the way to a member, so the rest of a replay stays as the handler wrote it.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::pointer::Pointer;

/// Returns the document with this value for the member at the pointer (RFC 6901). The objects on
/// the way have to exist; arrays are not entered. Returns `None` if they do not, or the text is not
/// JSON.
///
/// For hooks that adjust a replay: see
/// [`with_replay_hook`](crate::HttpPolicy::with_replay_hook).
#[must_use]
pub fn with_member(document: &[u8], pointer: &str, value: &Value) -> Option<Bytes> {
    let text = std::str::from_utf8(document).ok()?;
    let steps = Pointer::new(pointer).steps();
    Some(edit(text, &steps, Some(&value.to_string()))?.into())
}

/// Returns the document without the member at the pointer; unchanged when there is none.
pub(crate) fn without_member(document: &str, pointer: &Pointer) -> String {
    edit(document, &pointer.steps(), None).unwrap_or_else(|| document.to_owned())
}

/// Returns the text of the value at the pointer.
pub(crate) fn member<'a>(document: &'a str, pointer: &Pointer) -> Option<&'a str> {
    let mut value = document;
    for step in pointer.steps() {
        let object: Object<'_> = serde_json::from_str(value).ok()?;
        let (_, found) = object.0.into_iter().find(|(name, _)| *name == step)?;
        value = found.get();
    }
    Some(value)
}

/// Sets or removes a member.
fn edit(text: &str, steps: &[String], value: Option<&str>) -> Option<String> {
    let Some((step, rest)) = steps.split_first() else {
        return value.map(str::to_owned);
    };
    let object: Object<'_> = serde_json::from_str(text).ok()?;
    let mut members: Vec<(String, String)> = Vec::with_capacity(object.0.len() + 1);
    let mut is_found = false;
    for (name, found) in object.0 {
        let is_it = name == *step;
        is_found |= is_it;
        let new = match (is_it, rest.is_empty()) {
            (false, _) => Some(found.get().to_owned()),
            (true, true) => value.map(str::to_owned),
            (true, false) => Some(edit(found.get(), rest, value)?),
        };
        members.extend(new.map(|new| (name, new)));
    }
    match (is_found, rest.is_empty(), value) {
        (false, true, Some(value)) => members.push((step.clone(), value.to_owned())),
        (false, ..) => return None,
        (true, ..) => {}
    }
    let written = members
        .iter()
        .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())));
    Some(format!("{{{}}}", written.collect::<Vec<_>>().join(",")))
}

/// The members of an object, in their order, as they are written.
struct Object<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
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
        let without = |pointer| without_member(TEXT, &Pointer::new(pointer));
        assert_eq!(without("/a"), r#"{"z":12345678901234567890123,"id":1}"#);
        assert_eq!(
            without("/a/c~1d"),
            r#"{"z":12345678901234567890123,"id":1,"a":{"b":1.0}}"#
        );
        for nothing in ["/b", "/a/b/c", "/x/y"] {
            assert_eq!(without(nothing), TEXT);
        }
    }

    #[test]
    fn a_member_is_found_as_it_is_written() {
        let found = |pointer| member(TEXT, &Pointer::new(pointer));
        assert_eq!(found("/a/b"), Some("1.0"));
        assert_eq!(found(""), Some(TEXT));
        assert_eq!(found("/a/c~1d"), Some("[1, 2]"));
        assert_eq!(found("/a/c~1d/0"), None);
    }
}
