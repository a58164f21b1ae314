//! In the manner of PayPal.

use http::{HeaderName, Method};
use serde_json::json;

use super::DAY;
use crate::{HttpPolicy, KeyForm, KeyFormat, KeySource, Markers, ProblemType};

/// Behaves in the manner of PayPal. **Draft**: the errors differ between its APIs.
///
/// `POST` may carry `PayPal-Request-Id`, 1 to 108 characters, which belongs to the path. Scope: the client id or merchant, never the access token, which is
/// refreshed between two tries. Success is
/// stored for 45 days, as for Orders (Payments: 6 hours). PayPal's replays show the current state
/// of the resource: add a hook that reads it,
/// [`with_replay_hook`](HttpPolicy::with_replay_hook); without one, a replay is the first answer.
/// Set [`Requirement::Required`](crate::Requirement::Required) where a route demands a key:
/// `PAYPAL_REQUEST_ID_REQUIRED`.
///
/// Source: [paypal-rest-api-specifications](https://github.com/paypal/paypal-rest-api-specifications)
/// of 2024-02-03.
///
#[doc = include_str!("paypal.md")]
#[must_use]
pub fn paypal() -> HttpPolicy {
    HttpPolicy::ietf()
        .with_methods([Method::POST])
        .with_key_source(KeySource::header(HeaderName::from_static(
            "paypal-request-id",
        )))
        .with_key_form(KeyForm::Opaque)
        .with_key_format(KeyFormat::any().with_length(1..=108))
        .with_key_space(|request| vec![request.parts().uri.path().to_owned()])
        .with_kept_statuses(super::success())
        .with_markers(Markers::none())
        .with_retention(45 * DAY)
        .with_refusals(|refusal| {
            let (name, issue) = match refusal.kind() {
                ProblemType::KeyMissing => ("INVALID_REQUEST", "PAYPAL_REQUEST_ID_REQUIRED"),
                ProblemType::KeyReused => ("UNPROCESSABLE_ENTITY", "DUPLICATE_REQUEST_ID"),
                ProblemType::RequestInFlight => {
                    ("RESOURCE_CONFLICT", "PREVIOUS_REQUEST_IN_PROGRESS")
                }
                ProblemType::StoreUnavailable => ("SERVICE_UNAVAILABLE", "SERVICE_UNAVAILABLE"),
                kind if super::is_of_the_client(kind) => ("INVALID_REQUEST", "INVALID_REQUEST_ID"),
                _ => ("INTERNAL_SERVER_ERROR", "INTERNAL_SERVER_ERROR"),
            };
            refusal.json(&json!({
                "name": name,
                "message": refusal.detail(),
                "details": [{"issue": issue, "description": refusal.detail()}],
            }))
        })
}
