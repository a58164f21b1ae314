//! `X-Hub-Signature-256: sha256=hex` over the body.

use http::{HeaderMap, HeaderName};
use idem_core::Fingerprint;

use super::{Identity, Presented, of_event, of_signature, only};
use crate::{Rejection, hex};

const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature-256");
const DELIVERY: HeaderName = HeaderName::from_static("x-github-delivery");
const EVENT: HeaderName = HeaderName::from_static("x-github-event");

pub(super) fn presented(headers: &HeaderMap) -> Result<Presented, Rejection> {
    let value = of_signature(headers, &SIGNATURE)?;
    let signature = value.strip_prefix("sha256=").and_then(hex::decode);
    Ok(Presented {
        signatures: vec![signature.ok_or(Rejection::MalformedSignature)?],
        time: None,
    })
}

pub(super) fn headers(signature: &[u8; 32]) -> Vec<(HeaderName, String)> {
    vec![(SIGNATURE, format!("sha256={}", hex::encode(signature)))]
}

pub(super) fn identity(headers: &HeaderMap, body: &[u8]) -> Result<Identity, Rejection> {
    let topic = only(headers, &EVENT).map_err(|()| Rejection::Malformed)?;
    Ok(Identity {
        id: of_event(headers, &DELIVERY)?.to_owned(),
        topic: topic.map(Into::into),
        fingerprint: Fingerprint::raw(body),
    })
}
