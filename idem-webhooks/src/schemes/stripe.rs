//! `Stripe-Signature: t=time,v1=hex` over `time.body`.

use http::{HeaderMap, HeaderName};
use idem_core::Fingerprint;
use serde::Deserialize;

use super::{Identity, Presented, of_signature, seconds};
use crate::{Rejection, hex};

const SIGNATURE: HeaderName = HeaderName::from_static("stripe-signature");

/// Signatures of other schemes (`v0`) are skipped.
pub(super) fn presented(headers: &HeaderMap) -> Result<Presented, Rejection> {
    let (mut time, mut signatures) = (None, Vec::new());
    for element in of_signature(headers, &SIGNATURE)?.split(',') {
        let (name, value) = element
            .trim()
            .split_once('=')
            .ok_or(Rejection::MalformedSignature)?;
        match name {
            "t" if time.is_some() => return Err(Rejection::MalformedSignature),
            "t" => time = Some(seconds(value)?),
            "v1" => signatures.push(hex::decode(value).ok_or(Rejection::MalformedSignature)?),
            _ => {}
        }
    }
    if time.is_none() || signatures.is_empty() {
        return Err(Rejection::MalformedSignature);
    }
    Ok(Presented { signatures, time })
}

pub(super) fn prefix(time: u64) -> String {
    format!("{time}.")
}

pub(super) fn headers(signature: &[u8; 32], time: u64) -> Vec<(HeaderName, String)> {
    let value = format!("t={time},v1={}", hex::encode(signature));
    vec![(SIGNATURE, value)]
}

/// `pending_webhooks` counts down between the deliveries of one event.
pub(super) fn identity(body: &[u8]) -> Result<Identity, Rejection> {
    let envelope: Envelope = serde_json::from_slice(body).map_err(|_| Rejection::Malformed)?;
    let fields = ["/type", "/created", "/account", "/livemode", "/data"];
    Ok(Identity {
        id: envelope.id.ok_or(Rejection::NoId)?,
        topic: envelope.kind,
        fingerprint: Fingerprint::fields(body, fields).map_err(|_| Rejection::Malformed)?,
    })
}

#[derive(Deserialize)]
struct Envelope {
    id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
}
