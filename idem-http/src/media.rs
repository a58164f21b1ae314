//! Media types: which bodies are JSON, and which are streams.

use std::borrow::Cow;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Types whose bodies are streams.
const STREAMED: [&str; 4] = [
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/json-seq",
];

/// How the body of an answer comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Whole,
    /// As events (HTML, 9.2).
    Events,
    /// Piece by piece.
    Stream,
    /// As images that replace each other, or as gRPC, whose status comes in trailers.
    Unrecorded,
}

/// Returns type and subtype in lower case, without parameters; empty when there is none.
pub(crate) fn essence(headers: &HeaderMap) -> Cow<'_, str> {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = value.unwrap_or_default().split(|byte| *byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    match std::str::from_utf8(essence) {
        Ok(text)
            if text
                .bytes()
                .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) =>
        {
            text.into()
        }
        // Byte by byte, so that other bytes are another text.
        _ => {
            let lower = essence.iter().map(u8::to_ascii_lowercase);
            lower.map(char::from).collect::<String>().into()
        }
    }
}

/// Returns the elements of a list in these headers. Bytes outside of ASCII spoil their element only.
pub(crate) fn elements<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'h [u8]> {
    let values = headers.get_all(name).iter();
    let elements = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    elements.map(<[u8]>::trim_ascii)
}

/// Returns the type of JSON that counts in a fingerprint: `json` for the plain one, whatever it is
/// called. Any other has a meaning of its own: JSON Patch and JSON Merge Patch read one document
/// in two ways.
pub(crate) fn json_class(essence: &str) -> &str {
    match essence {
        "application/json" | "text/json" => "json",
        other => other,
    }
}

/// Returns whether the body is plain JSON: `application/json`, a `+json` type or that of AWS, without
/// a content coding.
pub(crate) fn is_json(headers: &HeaderMap, essence: &str) -> bool {
    !is_encoded(headers) && is_json_type(essence)
}

/// Returns whether some reader may find JSON in a body that does not follow its grammar: by its
/// type, behind its content coding, or because it begins like an object or an array.
pub(crate) fn may_be_json(headers: &HeaderMap, body: &[u8]) -> bool {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
    is_encoded(headers)
        || is_json_type(&essence(headers))
        || matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

fn is_json_type(essence: &str) -> bool {
    matches!(essence, "application/json" | "text/json")
        || essence.ends_with("+json")
        || essence.starts_with("application/x-amz-json-")
}

/// Returns whether the body is a form of pairs.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    essence(headers) == "application/x-www-form-urlencoded"
}

pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Returns how bodies of this type come.
pub(crate) fn flow(essence: &str) -> Flow {
    match essence {
        "text/event-stream" => Flow::Events,
        "multipart/x-mixed-replace" | "application/grpc" => Flow::Unrecorded,
        _ if STREAMED.contains(&essence) => Flow::Stream,
        _ if essence.starts_with("application/grpc+") => Flow::Unrecorded,
        _ if essence.starts_with("application/grpc-web") => Flow::Unrecorded,
        _ => Flow::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_known_by_its_type_and_without_a_coding() {
        for (value, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/vnd.api+json", true),
            ("application/x-amz-json-1.1", true),
            ("application/jsonp", false),
            ("text/plain", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            assert_eq!(is_json(&headers, &essence(&headers)), expected, "{value}");
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            assert!(!is_json(&headers, &essence(&headers)), "{value}");
        }
    }

    #[test]
    fn a_type_is_read_up_to_its_parameters_whatever_bytes_they_have() {
        let read = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_bytes(value).unwrap());
            essence(&headers).into_owned()
        };
        assert_eq!(
            read(b"Text/Event-Stream; name=\"\xfc\""),
            "text/event-stream"
        );
        let others = [
            &b"text/\xc3\xa9"[..],
            b"text/\xc3\xbc",
            b"text/\xfc",
            b"text/\xe9",
            b"",
        ];
        for (index, one) in others.iter().enumerate() {
            for other in &others[..index] {
                assert_ne!(read(one), read(other));
            }
        }
    }

    #[test]
    fn streams_are_known_by_their_type() {
        for (essence, expected) in [
            ("text/event-stream", Flow::Events),
            ("application/jsonl", Flow::Stream),
            ("application/grpc", Flow::Unrecorded),
            ("application/grpc+proto", Flow::Unrecorded),
            ("application/grpc-web-text", Flow::Unrecorded),
            ("application/json", Flow::Whole),
            ("", Flow::Whole),
        ] {
            assert_eq!(flow(essence), expected, "{essence}");
        }
    }
}
