//! Between the types of `http` 0.2, which actix uses, and those of `http` 1.

use actix_web::HttpResponse;
use actix_web::dev::{RequestHead, ResponseHead};
use actix_web::http::{StatusCode, header as actix};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Version, response};
use idem_http::NotStored;

/// Returns the head of a request; `None` for one that `http` 1 cannot express.
pub(crate) fn request(head: &RequestHead) -> Option<Parts> {
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.method = Method::from_bytes(head.method.as_str().as_bytes()).ok()?;
    parts.uri = head.uri.to_string().parse().ok()?;
    parts.version = match head.version {
        actix_web::http::Version::HTTP_2 => Version::HTTP_2,
        actix_web::http::Version::HTTP_10 => Version::HTTP_10,
        _ => Version::HTTP_11,
    };
    parts.headers = headers(&head.headers);
    Some(parts)
}

/// Returns whether what follows the head is another protocol instead of a body. The condition is
/// that of the decoder of actix, whose payload then ends with the connection.
pub(crate) fn is_upgrade(head: &RequestHead) -> bool {
    let mut protocols = head.headers.get_all(actix::UPGRADE);
    let is_websocket = |name: &actix::HeaderValue| {
        let name = name.as_bytes().trim_ascii();
        name.eq_ignore_ascii_case(b"websocket")
    };
    head.version <= actix_web::http::Version::HTTP_11
        && protocols.any(is_websocket)
        && !head.headers.contains_key(actix::TRANSFER_ENCODING)
}

/// Returns whether the head of an upgrade announces a body, which is never in chunks.
pub(crate) fn has_body(head: &RequestHead) -> bool {
    let length = head.headers.get(actix::CONTENT_LENGTH);
    length.is_some_and(|length| {
        let length = length.to_str().unwrap_or_default();
        length.trim().parse() != Ok(0_u64)
    })
}

/// Returns the head of the inner service's response.
pub(crate) fn response(head: &HttpResponse<()>) -> Response<()> {
    let mut response = Response::new(());
    if let Ok(status) = http::StatusCode::from_u16(head.status().as_u16()) {
        *response.status_mut() = status;
    }
    *response.headers_mut() = headers(head.headers());
    if let Some(mark) = head.extensions().get::<NotStored>() {
        response.extensions_mut().insert(*mark);
    }
    response
}

/// Writes status and headers of a response of the layer.
pub(crate) fn write(parts: &response::Parts, head: &mut ResponseHead) {
    if let Ok(status) = StatusCode::from_u16(parts.status.as_u16()) {
        head.status = status;
    }
    head.headers.clear();
    for (name, value) in &parts.headers {
        let name = actix::HeaderName::from_bytes(name.as_ref());
        let value = actix::HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            head.headers.append(name, value);
        }
    }
}

/// Both versions accept the same headers, so none is left out.
fn headers(headers: &actix::HeaderMap) -> HeaderMap {
    let mut converted = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_ref());
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            converted.append(name, value);
        }
    }
    converted
}
