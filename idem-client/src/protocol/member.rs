//! A key as a member of a JSON body, without a change to its other bytes.

use bytes::Bytes;
use idem_core::json::{MemberError, RawJson};

use crate::Error;

/// Returns the body with the member at the pointer, as the first of its object.
pub(super) fn add(body: &Bytes, pointer: &str, value: &str) -> Result<Bytes, Error> {
    let (parents, name) = pointer
        .rsplit_once('/')
        .ok_or_else(|| Error::invalid("the pointer to the key does not begin with `/`"))?;
    let document = RawJson::read(body).ok_or_else(not_json)?;
    let object = document
        .pointer(parents)
        .map_err(ambiguous)?
        .ok_or_else(|| {
            Error::invalid("the body lacks an object that the pointer to the key names")
        })?;
    if !object.bytes().starts_with(b"{") {
        return Err(not_json());
    }
    let name = name.replace("~1", "/").replace("~0", "~");
    if object.member(&name).map_err(ambiguous)?.is_some() {
        return Err(Error::invalid(
            "the body has a key already; remove it and name the intent, or send it without this \
             client",
        ));
    }
    let mut member = json(&name)?;
    member.push(':');
    member.push_str(&json(value)?);
    if object.members().next().is_some() {
        member.push(',');
    }
    // The object is a part of the body, so the difference of their addresses is its position.
    let start = object.bytes().as_ptr().addr() - body.as_ptr().addr();
    let (before, after) = body.split_at(start + 1);
    Ok([before, member.as_bytes(), after].concat().into())
}

fn json(text: &str) -> Result<String, Error> {
    serde_json::to_string(text).map_err(|error| not_json().with_source(error))
}

fn ambiguous(error: MemberError) -> Error {
    Error::invalid("readers of the body may differ on where the key is").with_source(error)
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
            (
                r#"{"x":"\ud83d","y":1e999}"#,
                "/key",
                r#"{"key":"k","x":"\ud83d","y":1e999}"#,
            ),
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
