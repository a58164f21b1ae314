//! [`FingerprintRecipe`]: what makes a request the same request.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderName;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use idem_core::Fingerprint;
use idem_core::fingerprint::canonical_json;
use idem_core::json::RawJson;

use crate::hook::{FromParts, Hook};
use crate::pointer::Pointer;
use crate::{KeyedRequest, forms, json, media};

/// Which parts of a request make its fingerprint: a request with the same key and another
/// fingerprint is a conflict.
///
/// | | method, path, query, media type | body |
/// | --- | --- | --- |
/// | [`request`](Self::request), the default | count; `application/json` and `text/json` are one type | JSON by its value (RFC 8785), a form by its decoded pairs, a `multipart` body by its parts, whatever its boundary, every other body by its bytes |
/// | [`body`](Self::body) | do not count | the same |
/// | [`bytes`](Self::bytes) | do not count | by its bytes, JSON and forms too |
///
/// The pairs and parts of a form count in their order. A `multipart` body that readers may divide in
/// different ways counts by its bytes: its boundary occurs within a part, or something stands before
/// the first part or after the last one.
///
/// JSON without a canonical form, such as a lone surrogate or an exponent beyond 64 bits, counts as
/// it is written, also member by member. [`canonical_json`](idem_core::fingerprint::canonical_json)
/// says more, also of numbers that no double holds.
///
/// ```
/// use idem_http::FingerprintRecipe;
///
/// let tool = FingerprintRecipe::body().of_member("/params/arguments").without_member("/meta");
/// # let _ = tool;
/// ```
#[derive(Debug, Clone)]
pub struct FingerprintRecipe {
    head: bool,
    body: Compared,
    members: Vec<Pointer>,
    without: Vec<Pointer>,
    headers: Option<Vec<HeaderName>>,
    also: Option<FromParts<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// JSON by its value where the media type says that it is JSON.
    ByType,
    /// JSON by its value whenever it is JSON.
    Value,
    Bytes,
}

impl FingerprintRecipe {
    const fn new(head: bool, body: Compared) -> Self {
        Self {
            head,
            body,
            members: Vec::new(),
            without: Vec::new(),
            headers: None,
            also: None,
        }
    }

    /// Compares method, path, query, media type and body. JSON counts by its value, where the media
    /// type says that it is JSON.
    #[must_use]
    pub const fn request() -> Self {
        Self::new(true, Compared::ByType)
    }

    /// Compares the body only: by its value if it is JSON, else as [`request`](Self::request) does.
    #[must_use]
    pub const fn body() -> Self {
        Self::new(false, Compared::Value)
    }

    /// Compares the bytes of the body only: JSON that is written in another way is another request.
    #[must_use]
    pub const fn bytes() -> Self {
        Self::new(false, Compared::Bytes)
    }

    /// Compares only the members at these JSON Pointers (RFC 6901) instead of the whole body; may
    /// be called several times. A missing member differs from `null`. A body that is not JSON, or
    /// that has a member on the way twice, counts whole.
    #[must_use]
    pub fn of_member(mut self, pointer: &str) -> Self {
        self.members.push(Pointer::new(pointer));
        self
    }

    /// Leaves out the member at this JSON Pointer, within the whole body or within each member of
    /// [`of_member`](Self::of_member). Arrays are not entered.
    #[must_use]
    pub fn without_member(mut self, pointer: &str) -> Self {
        self.without.push(Pointer::new(pointer));
        self
    }

    /// Also compares all headers except these, and except those of the connection (RFC 9110,
    /// 7.6.1), `Host`, `Content-Length` and `Date`. Proxies and tracing add headers: name them here,
    /// or a retry is a conflict.
    #[must_use]
    pub fn with_headers_except(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.headers = Some(names.into_iter().collect());
        self
    }

    /// Also compares this text: an API version, or the client's original path if a router has
    /// shortened it.
    #[must_use]
    pub fn with_text(mut self, text: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.also = Some(Hook(Arc::new(text)));
        self
    }

    /// Returns the fingerprint.
    pub(crate) fn of(&self, request: &KeyedRequest) -> Fingerprint {
        let (parts, body) = (request.parts(), request.body());
        let essence = media::essence(&parts.headers);
        let is_json = match self.body {
            Compared::ByType => media::is_json(&parts.headers, &essence),
            Compared::Value => true,
            Compared::Bytes => false,
        };
        let canonical = is_json.then(|| canonical_json(body).ok()).flatten();
        let class = match &canonical {
            Some(_) => media::json_class(&essence),
            None => &*essence,
        };
        let also = self.also.as_ref().map(|text| text(parts));
        let query = parts.uri.query().unwrap_or_default();
        let mut list: Vec<Cow<'_, [u8]>> = vec![b"idem/http/1".into()];
        if self.head {
            let head = [parts.method.as_str(), parts.uri.path(), query, class];
            list.extend(head.map(|text| text.as_bytes().into()));
        }
        list.push(also.unwrap_or_default().into_bytes().into());
        // JSON without a canonical form counts as it is written.
        let text = canonical.as_ref().map_or(&body[..], String::as_bytes);
        let chosen = is_json.then(|| self.chosen(text)).flatten();
        let may_be_form = self.body != Compared::Bytes && canonical.is_none();
        let form = may_be_form
            .then(|| forms::canonical(&parts.headers, body))
            .flatten();
        let is_form = form.is_some();
        match form {
            // One text more, so that no other body is the same.
            Some(form) => list.extend([b"form"[..].into(), form.into()]),
            None => list.extend(chosen.unwrap_or_else(|| vec![text.into()])),
        }
        if let Some(except) = &self.headers {
            list.push(compared_headers(parts, except, is_form).into());
        }
        Fingerprint::raw(length_prefixed(&list))
    }

    /// Returns the chosen members of a document; `None` when all of it counts: it is not JSON,
    /// readers may differ on its members, or none is chosen.
    fn chosen<'a>(&self, text: &'a [u8]) -> Option<Vec<Cow<'a, [u8]>>> {
        if self.members.is_empty() && self.without.is_empty() {
            return None;
        }
        let document = RawJson::read(text)?;
        let without = |value: RawJson<'a>| {
            let pointers = self.without.iter();
            pointers.fold(value.bytes().into(), json::without_member)
        };
        if self.members.is_empty() {
            return Some(vec![without(document)]);
        }
        let members = self.members.iter();
        // A missing member is the empty text, which no JSON value is.
        let texts = members.map(|pointer| {
            let found = document.pointer(pointer.as_str()).ok()?;
            Some(found.map(without).unwrap_or_default())
        });
        texts.collect()
    }
}

impl Default for FingerprintRecipe {
    fn default() -> Self {
        Self::request()
    }
}

/// Headers of the connection, and those that a client does not choose.
const OF_THE_CONNECTION: [&str; 10] = [
    "connection",
    "content-length",
    "date",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Returns the headers in a fixed order; of a form without its type, which may name a new boundary.
fn compared_headers(parts: &Parts, except: &[HeaderName], is_form: bool) -> Vec<u8> {
    let mut headers: Vec<(&str, &[u8])> = parts
        .headers
        .iter()
        .filter(|(name, _)| !except.contains(name) && !OF_THE_CONNECTION.contains(&name.as_str()))
        .filter(|(name, _)| !is_form || *name != CONTENT_TYPE)
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    // Stable, so that the values of one name keep their order.
    headers.sort_by_key(|(name, _)| *name);
    let texts = headers.iter();
    let texts: Vec<Cow<'_, [u8]>> = texts
        .flat_map(|(name, value)| [name.as_bytes().into(), Cow::Borrowed(*value)])
        .collect();
    length_prefixed(&texts)
}

/// Prefixes each part with its length, so that no two lists of parts give the same bytes.
fn length_prefixed(parts: &[Cow<'_, [u8]>]) -> Vec<u8> {
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

    fn keyed(method: Method, uri: &str, content_type: &str, body: &str) -> KeyedRequest {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", content_type)
            .body(());
        let parts = request.unwrap().into_parts().0;
        KeyedRequest::new(parts, body.to_owned().into())
    }

    fn fingerprint(method: Method, uri: &str, content_type: &str, body: &str) -> Fingerprint {
        FingerprintRecipe::request().of(&keyed(method, uri, content_type, body))
    }

    fn of_json(recipe: &FingerprintRecipe, body: &str) -> Fingerprint {
        recipe.of(&keyed(Method::POST, "/a", "application/json", body))
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
    fn each_type_of_json_beside_the_plain_one_is_another_request() {
        let of = |content_type| fingerprint(Method::PATCH, "/a", content_type, r#"{"a":1}"#);
        assert_eq!(of("application/json"), of("text/json; charset=utf-8"));
        let types = [
            "application/json",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/vnd.api+json",
        ];
        for (index, one) in types.iter().enumerate() {
            for other in &types[..index] {
                assert_ne!(of(one), of(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn only_the_body_counts_by_its_value_or_its_bytes() {
        for (recipe, is_by_value) in [
            (FingerprintRecipe::body(), true),
            (FingerprintRecipe::bytes(), false),
        ] {
            let put = keyed(Method::PUT, "/b?x", "text/plain", r#"{"a":1}"#);
            assert_eq!(recipe.of(&put), of_json(&recipe, r#"{"a":1}"#));
            let other = of_json(&recipe, r#"{"a": 1.0}"#);
            assert_eq!(other == of_json(&recipe, r#"{"a":1}"#), is_by_value);
        }
    }

    #[test]
    fn chosen_members_count_and_excluded_ones_do_not() {
        let recipe = FingerprintRecipe::body()
            .of_member("/params/arguments")
            .of_member("/params/name")
            .without_member("/meta");
        let of = |arguments: &str, name: &str| {
            let body =
                format!(r#"{{"id": 1, "params": {{"arguments": {arguments}, "name": {name}}}}}"#);
            of_json(&recipe, &body)
        };
        let base = of(r#"{"a":1,"meta":{"k":1}}"#, "\"pay\"");
        assert_eq!(base, of(r#"{"meta":{"k":2}, "a":1.0}"#, "\"pay\""));
        assert_eq!(base, of(r#"{"a":1}"#, "\"pay\""));
        assert_ne!(base, of(r#"{"a":2}"#, "\"pay\""));
        assert_ne!(base, of(r#"{"a":1}"#, "\"list\""));
        assert_ne!(
            of("{}", "null"),
            of_json(&recipe, r#"{"params":{"arguments":{}}}"#)
        );
    }

    #[test]
    fn headers_count_except_those_named_and_those_of_the_connection() {
        let recipe = FingerprintRecipe::request()
            .with_headers_except([HeaderName::from_static("traceparent")]);
        let of = |name: &'static str, value: &'static str| {
            let mut request = keyed(Method::POST, "/a", "text/plain", "b")
                .into_request::<Bytes>()
                .0;
            let value = http::HeaderValue::from_static(value);
            request.headers_mut().insert(name, value);
            let (parts, body) = request.into_parts();
            recipe.of(&KeyedRequest::new(parts, body))
        };
        assert_ne!(of("x-version", "1"), of("x-version", "2"));
        for name in ["traceparent", "date", "connection"] {
            assert_eq!(of(name, "1"), of(name, "2"), "{name}");
        }
    }

    use bytes::Bytes;

    #[test]
    fn parts_are_never_joined() {
        let of = |parts: &[&str]| {
            let parts: Vec<Cow<'_, [u8]>> =
                parts.iter().map(|part| part.as_bytes().into()).collect();
            length_prefixed(&parts)
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
    }
}
