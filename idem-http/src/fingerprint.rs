//! The fingerprint of a request.

use http::request::Parts;
use idem_core::Fingerprint;
use idem_core::fingerprint::canonical_json;

use crate::from_parts::FromParts;
use crate::media;

/// Returns the fingerprint of method, path, query, media type and body, and of the policy's
/// addition.
///
/// A JSON body is compared by its value. A malformed one, and any other body, is compared by its
/// bytes.
pub(crate) fn of(parts: &Parts, body: &[u8], also: Option<&FromParts<String>>) -> Fingerprint {
    let essence = media::essence(&parts.headers);
    let canonical = media::is_json(&parts.headers, &essence)
        .then(|| canonical_json(body).ok())
        .flatten();
    let (class, body) = match &canonical {
        Some(text) => ("json", text.as_bytes()),
        None => (&*essence, body),
    };
    let also = also.map(|text| text.of(parts)).unwrap_or_default();
    Fingerprint::raw(length_prefixed([
        b"idem/http/1",
        parts.method.as_str().as_bytes(),
        parts.uri.path().as_bytes(),
        parts.uri.query().unwrap_or_default().as_bytes(),
        class.as_bytes(),
        also.as_bytes(),
        body,
    ]))
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
    use http::{Method, Request};

    fn fingerprint(method: Method, uri: &str, content_type: &str, body: &str) -> Fingerprint {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content_type)
            .body(());
        of(&request.unwrap().into_parts().0, body.as_bytes(), None)
    }

    #[test]
    fn json_counts_by_its_value_and_other_bodies_by_their_bytes() {
        let json = |body| fingerprint(Method::POST, "/a", "application/json", body);
        assert_eq!(json(r#"{"a":1,"b":2}"#), json("{ \"b\": 2.0,\n\"a\": 1 }"));
        assert_ne!(json(r#"{"a":1}"#), json(r#"{"a":2}"#));
        assert_ne!(
            json(r#"{"a":1"#),
            json(r#"{"a": 1"#),
            "not well-formed: by its bytes"
        );
        let text = |body| fingerprint(Method::POST, "/a", "text/plain", body);
        assert_ne!(text(r#"{"a":1}"#), text(r#"{"a": 1}"#));
    }

    #[test]
    fn method_path_query_and_type_count_and_the_authority_does_not() {
        let base = fingerprint(Method::POST, "/a?x=1", "text/plain", "b");
        for (method, uri, content_type) in [
            (Method::PUT, "/a?x=1", "text/plain"),
            (Method::POST, "/A?x=1", "text/plain"),
            (Method::POST, "/a?x=2", "text/plain"),
            (Method::POST, "/a", "text/plain"),
            (Method::POST, "/a%3Fx=1", "text/plain"),
            (Method::POST, "/a?x=1", "text/html"),
        ] {
            assert_ne!(fingerprint(method, uri, content_type, "b"), base, "{uri}");
        }
        for (uri, content_type) in [
            ("https://example.com/a?x=1", "text/plain"),
            ("/a?x=1", "Text/Plain; charset=utf-8"),
        ] {
            assert_eq!(
                fingerprint(Method::POST, uri, content_type, "b"),
                base,
                "{uri}"
            );
        }
    }

    #[test]
    fn parts_are_never_joined() {
        assert_ne!(
            length_prefixed([b"ab", b"c"]),
            length_prefixed([b"a", b"bc"])
        );
    }
}
