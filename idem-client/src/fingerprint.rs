//! The fingerprint of a request, before it has its key.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Uri};
use idem_core::Fingerprint;
use idem_core::fingerprint::canonical_json;

/// How a repeated request's body is compared with the first one.
///
/// It follows the server: one that compares bytes refuses a body whose members have another order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BodyComparison {
    /// JSON by its value (RFC 8785), anything else by its bytes.
    #[default]
    JsonValue,
    /// By its bytes.
    Bytes,
}

/// Returns the fingerprint of method, server, path, query, media type and body. The server counts,
/// because a key says nothing to another one.
pub(crate) fn of(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
    comparison: BodyComparison,
) -> Fingerprint {
    let authority = match uri.authority() {
        Some(authority) => authority
            .as_str()
            .rsplit('@')
            .next()
            .unwrap_or_default()
            .as_bytes(),
        None => headers
            .get(HOST)
            .map(HeaderValue::as_bytes)
            .unwrap_or_default(),
    };
    let essence = essence(headers);
    let canonical = (comparison == BodyComparison::JsonValue && is_json(headers, &essence))
        .then(|| canonical_json(body).ok())
        .flatten();
    let (class, body) = match &canonical {
        Some(text) if is_plain_json(&essence) => ("json", text.as_bytes()),
        // Other types of JSON have a meaning of their own, such as the two kinds of patches.
        Some(text) => (&*essence, text.as_bytes()),
        None => (&*essence, body),
    };
    Fingerprint::raw(length_prefixed([
        b"idem/client/1",
        method.as_str().as_bytes(),
        &authority.to_ascii_lowercase(),
        uri.path().as_bytes(),
        uri.query().unwrap_or_default().as_bytes(),
        class.as_bytes(),
        body,
    ]))
}

/// Returns type and subtype of the body in lower case, without parameters.
pub(crate) fn essence(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = value.unwrap_or_default().split(|byte| *byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    // Byte by byte, so that other bytes are another text.
    let lower = essence.iter().map(u8::to_ascii_lowercase);
    lower.map(char::from).collect()
}

/// Returns whether the body is JSON without a content coding.
pub(crate) fn is_json(headers: &HeaderMap, essence: &str) -> bool {
    !is_encoded(headers)
        && (is_plain_json(essence)
            || essence.ends_with("+json")
            || essence.starts_with("application/x-amz-json-"))
}

fn is_plain_json(essence: &str) -> bool {
    matches!(essence, "application/json" | "text/json")
}

/// Returns whether the body has a content coding, such as `gzip`.
pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Prefixes each part with its length, so that no two lists of parts give the same bytes.
fn length_prefixed<const N: usize>(parts: [&[u8]; N]) -> Vec<u8> {
    let size: usize = parts.iter().map(|part| part.len() + 8).sum();
    let mut bytes = Vec::with_capacity(size);
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn fingerprint(uri: &str, body: &str, comparison: BodyComparison) -> Fingerprint {
        typed(uri, b"application/json", body, comparison)
    }

    fn typed(uri: &str, media_type: &[u8], body: &str, comparison: BodyComparison) -> Fingerprint {
        let request = Request::post(uri)
            .header("content-type", media_type)
            .body(());
        let (parts, ()) = request.unwrap().into_parts();
        of(
            &parts.method,
            &parts.uri,
            &parts.headers,
            body.as_bytes(),
            comparison,
        )
    }

    #[test]
    fn json_counts_by_its_value_unless_the_server_compares_bytes() {
        let (one, two) = (r#"{"a":1,"b":2}"#, r#"{ "b": 2.0, "a": 1 }"#);
        for (comparison, is_same) in [
            (BodyComparison::JsonValue, true),
            (BodyComparison::Bytes, false),
        ] {
            let of = |body| fingerprint("http://a/x", body, comparison);
            assert_eq!(of(one) == of(two), is_same, "{comparison:?}");
        }
    }

    #[test]
    fn each_type_of_json_beside_the_plain_one_is_another_request() {
        let of = |kind: &[u8]| typed("http://a/x", kind, "{}", BodyComparison::JsonValue);
        assert_eq!(of(b"application/json"), of(b"text/json; charset=utf-8"));
        let amazon = |body| {
            let kind = b"application/x-amz-json-1.1";
            typed("http://a/x", kind, body, BodyComparison::JsonValue)
        };
        assert_eq!(amazon(r#"{"a":1,"b":2}"#), amazon(r#"{"b":2,"a":1}"#));
        let types = [
            &b"application/json"[..],
            b"application/json-patch+json",
            b"application/merge-patch+json",
            b"application/x-amz-json-1.1",
            b"text/\xfc",
            b"text/\xe9",
        ];
        for (index, one) in types.iter().enumerate() {
            for other in &types[..index] {
                assert_ne!(of(one), of(other));
            }
        }
    }

    #[test]
    fn another_server_path_or_query_is_another_request() {
        let of = |uri| fingerprint(uri, "{}", BodyComparison::JsonValue);
        let base = of("http://a.example/x?y=1");
        for other in [
            "http://b.example/x?y=1",
            "http://a.example:81/x?y=1",
            "http://a.example/y?y=1",
            "http://a.example/x?y=2",
        ] {
            assert_ne!(of(other), base, "{other}");
        }
        // Credentials and case of the server do not count.
        assert_eq!(of("http://user:secret@A.example/x?y=1"), base);
    }
}
