//! `X-Shopify-Hmac-Sha256: base64` over the body.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName};
use idem_core::Fingerprint;

use super::{Identity, Presented, of_event, of_signature};
use crate::Rejection;

const SIGNATURE: HeaderName = HeaderName::from_static("x-shopify-hmac-sha256");
const EVENT_ID: HeaderName = HeaderName::from_static("x-shopify-event-id");
const TOPIC: HeaderName = HeaderName::from_static("x-shopify-topic");

pub(super) fn presented(headers: &HeaderMap) -> Result<Presented, Rejection> {
    let value = of_signature(headers, &SIGNATURE)?;
    let signature = STANDARD.decode(value).ok();
    let signature = signature.and_then(|bytes| bytes.try_into().ok());
    Ok(Presented {
        signatures: vec![signature.ok_or(Rejection::MalformedSignature)?],
        time: None,
    })
}

pub(super) fn headers(signature: &[u8; 32]) -> Vec<(HeaderName, String)> {
    vec![(SIGNATURE, STANDARD.encode(signature))]
}

/// The id names the merchant's action, which may cause events of several topics.
pub(super) fn identity(headers: &HeaderMap, body: &[u8]) -> Result<Identity, Rejection> {
    let (topic, id) = (of_event(headers, &TOPIC)?, of_event(headers, &EVENT_ID)?);
    Ok(Identity {
        id: format!("{topic} {id}"),
        topic: Some(topic.to_owned()),
        fingerprint: Fingerprint::raw(body),
    })
}
