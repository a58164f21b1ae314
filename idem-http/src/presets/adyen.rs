//! In the manner of Adyen.

use http::{HeaderName, HeaderValue, Method};
use serde_json::json;

use super::DAY;
use crate::{HttpPolicy, IDEMPOTENCY_KEY, KeyForm, KeyFormat, Markers, ProblemType, Statuses};

const TRANSIENT: HeaderName = HeaderName::from_static("transient-error");

/// Behaves in the manner of Adyen. **Draft**: some of its rules are second-hand.
///
/// `POST` may carry a key of at most 64 characters. Take the company account as the scope, which the
/// header `X-API-Key` tells. All answers are stored, errors too, unless the handler sets the header
/// `transient-error: true`, or answers with `403` (a permission may be given) or a [client error
/// that may pass](crate::Statuses::without_transient). Every answer repeats the key. A request in
/// flight gets `409` with the code `704`. Answers are replayed for 7 days.
///
/// Source: [docs.adyen.com/development-resources/api-idempotency](https://docs.adyen.com/development-resources/api-idempotency).
///
#[doc = include_str!("adyen.md")]
#[must_use]
pub fn adyen() -> HttpPolicy {
    HttpPolicy::ietf()
        .with_methods([Method::POST])
        .with_key_form(KeyForm::Opaque)
        .with_key_format(KeyFormat::any().with_length(1..=64))
        .with_kept_statuses(Statuses::all().without_transient().without(403..=403))
        .with_kept_if(|answer| {
            let transient = answer.headers().get(&TRANSIENT);
            transient.map(HeaderValue::as_bytes) != Some(b"true")
        })
        .with_markers(Markers::none().with_key(IDEMPOTENCY_KEY))
        .with_retention(7 * DAY)
        .with_refusals(|refusal| {
            let (code, kind) = match refusal.kind() {
                ProblemType::RequestInFlight | ProblemType::KeyReused => ("704", "validation"),
                kind if super::is_of_the_client(kind) => ("702", "validation"),
                _ => ("905", "internal"),
            };
            let mut response = refusal.json(&json!({
                "status": refusal.status().as_u16(),
                "errorCode": code,
                "message": refusal.detail(),
                "errorType": kind,
            }));
            if refusal.kind() == ProblemType::StoreUnavailable {
                let headers = response.headers_mut();
                headers.insert(TRANSIENT, HeaderValue::from_static("true"));
            }
            response
        })
}
