//! Requests of providers.

use idem_core::Bytes;
use idem_webhooks::Verifier;
use idem_webhooks::http::{HeaderName, HeaderValue, Request};

/// Returns a `POST` with these headers and this body.
pub(crate) fn request(headers: &[(&'static str, &str)], body: &[u8]) -> Request<Bytes> {
    let mut request = Request::post("/hook").body(Bytes::copy_from_slice(body));
    let request_headers = request.as_mut().unwrap().headers_mut();
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).unwrap();
        request_headers.append(HeaderName::from_static(name), value);
    }
    request.unwrap()
}

/// Returns what the provider would send.
pub(crate) fn signed(
    verifier: &Verifier,
    headers: &[(&'static str, &str)],
    body: &[u8],
) -> Request<Bytes> {
    let mut request = request(headers, body);
    verifier.sign(&mut request).unwrap();
    request
}
