//! A key as a member of a JSON body, without a change to its other bytes.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::Error;

/// Returns the body with the member at the pointer, as the first of its object.
pub(super) fn add(body: &Bytes, pointer: &str, value: &str) -> Result<Bytes, Error> {
    let (parents, name) = pointer
        .rsplit_once('/')
        .ok_or_else(|| Error::invalid("the pointer to the key does not begin with `/`"))?;
    let text = str::from_utf8(body).map_err(|error| not_json().with_source(error))?;
    let mut object: &RawValue =
        serde_json::from_str(text).map_err(|error| not_json().with_source(error))?;
    let mut members = members(object)?;
    for parent in parents.split('/').skip(1) {
        object = members.only(&unescaped(parent))?.ok_or_else(|| {
            Error::invalid("the body lacks an object that the pointer to the key names")
        })?;
        members = self::members(object)?;
    }
    let name = unescaped(name);
    if members.only(&name)?.is_some() {
        return Err(Error::invalid(
            "the body has a key already; remove it and name the intent, or send it without this \
             client",
        ));
    }
    let mut member = json(&name)?;
    member.push(':');
    member.push_str(&json(value)?);
    if !members.0.is_empty() {
        member.push(',');
    }
    // The object is a part of the text, so the difference of their addresses is its position.
    let start = object.get().as_ptr().addr() - text.as_ptr().addr();
    let (before, after) = text.split_at(start + 1);
    Ok([before, &member, after].concat().into())
}

/// The members of an object, in their order.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'t> Members<'t> {
    /// Returns the member with this name. Two are refused: readers differ on which one counts.
    fn only(&self, name: &str) -> Result<Option<&'t RawValue>, Error> {
        let mut named = self.0.iter().filter(|(member, _)| member == name);
        match (named.next(), named.next()) {
            (first, None) => Ok(first.map(|(_, value)| *value)),
            (_, Some(_)) => Err(Error::invalid("the body has a member twice")),
        }
    }
}

fn members(object: &RawValue) -> Result<Members<'_>, Error> {
    serde_json::from_str(object.get()).map_err(|error| not_json().with_source(error))
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, &'de RawValue>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// Reads a token of a JSON Pointer.
fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn json(text: &str) -> Result<String, Error> {
    serde_json::to_string(text).map_err(|error| not_json().with_source(error))
}

fn not_json() -> Error {
    Error::invalid("the body is not a JSON object, so it cannot carry a key")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(body: &'static str, pointer: &str) -> Option<String> {
        let body = add(&Bytes::from_static(body.as_bytes()), pointer, "k").ok()?;
        Some(String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn the_member_is_the_first_and_the_other_bytes_stay() {
        for (body, pointer, expected) in [
            ("{}", "/key", r#"{"key":"k"}"#),
            (" { } ", "/key", r#" {"key":"k" } "#),
            (
                "{ \"a\" : 1.50, \"n\":12345678901234567890123 }",
                "/key",
                "{\"key\":\"k\", \"a\" : 1.50, \"n\":12345678901234567890123 }",
            ),
            (
                r#"{"x":"é{","params":{"arguments":{"a":[{}]}}}"#,
                "/params/arguments/key",
                r#"{"x":"é{","params":{"arguments":{"key":"k","a":[{}]}}}"#,
            ),
            (r#"{"a/b":{}}"#, "/a~1b/c~0d", r#"{"a/b":{"c~d":"k"}}"#),
        ] {
            assert_eq!(added(body, pointer).as_deref(), Some(expected), "{body}");
        }
    }

    #[test]
    fn a_body_that_cannot_carry_the_key_is_refused() {
        for (body, pointer) in [
            ("", "/key"),
            ("[]", "/key"),
            ("1", "/key"),
            ("{\"a\":1", "/key"),
            (r#"{"key":null}"#, "/key"),
            (r#"{"\u006bey":1}"#, "/key"),
            (r#"{"a":1,"a":2}"#, "/a/key"),
            (r#"{"a":{},"a":{}}"#, "/a/key"),
            ("{}", "/a/key"),
            (r#"{"a":[]}"#, "/a/key"),
            ("{}", "key"),
        ] {
            assert_eq!(added(body, pointer), None, "{body} {pointer}");
        }
    }
}
