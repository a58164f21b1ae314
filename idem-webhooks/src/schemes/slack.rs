//! `X-Slack-Signature: v0=hex` over `v0:time:body`.

use http::{HeaderMap, HeaderName};
use idem_core::Fingerprint;
use serde::Deserialize;

use super::{Identity, Presented, of_signature, seconds};
use crate::{Rejection, hex};

const SIGNATURE: HeaderName = HeaderName::from_static("x-slack-signature");
const TIME: HeaderName = HeaderName::from_static("x-slack-request-timestamp");

pub(super) fn presented(headers: &HeaderMap) -> Result<Presented, Rejection> {
    let value = of_signature(headers, &SIGNATURE)?;
    let time = seconds(of_signature(headers, &TIME)?)?;
    let signature = value.strip_prefix("v0=").and_then(hex::decode);
    Ok(Presented {
        signatures: vec![signature.ok_or(Rejection::MalformedSignature)?],
        time: Some(time),
    })
}

pub(super) fn prefix(time: u64) -> String {
    format!("v0:{time}:")
}

pub(super) fn headers(signature: &[u8; 32], time: u64) -> Vec<(HeaderName, String)> {
    vec![
        (SIGNATURE, format!("v0={}", hex::encode(signature))),
        (TIME, time.to_string()),
    ]
}

pub(super) fn identity(body: &[u8]) -> Result<Identity, Rejection> {
    let envelope: Envelope = serde_json::from_slice(body).map_err(|_| Rejection::Malformed)?;
    let id = envelope.event_id.ok_or(Rejection::NoId)?;
    let fields = ["/team_id", "/api_app_id", "/event_time", "/event"];
    Ok(Identity {
        id,
        topic: envelope.event.and_then(|event| event.kind),
        fingerprint: Fingerprint::fields(body, fields).map_err(|_| Rejection::Malformed)?,
    })
}

/// Returns the text that Slack sends once to check that the endpoint exists, and expects back.
pub(crate) fn challenge(body: &[u8]) -> Option<String> {
    let envelope: Envelope = serde_json::from_slice(body).ok()?;
    let is_handshake = envelope.kind.as_deref() == Some("url_verification");
    envelope.challenge.filter(|_| is_handshake)
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: Option<String>,
    challenge: Option<String>,
    event_id: Option<String>,
    event: Option<Inner>,
}

#[derive(Deserialize)]
struct Inner {
    #[serde(rename = "type")]
    kind: Option<String>,
}
