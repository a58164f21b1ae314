//! In the manner of Square.

use http::StatusCode;
use serde_json::json;

use crate::{
    FingerprintRecipe, HttpPolicy, KeyFormat, KeySource, Markers, ProblemType, Requirement,
};

/// Behaves in the manner of Square. **Draft**: the status of a reused key is second-hand.
///
/// The body has the key as `/idempotency_key`, at most 128 characters; several of Square's
/// endpoints take 45. It is required, and belongs to the path: endpoints without keys, such as
/// `orders.search`, go without the layer. The body is compared by its value, whole. Success is
/// stored, and a replay has no marker. A key that was used for another request is `400` with the
/// code `IDEMPOTENCY_KEY_REUSED`.
///
/// Source: [`api.json`](https://github.com/square/connect-api-specification/blob/master/api.json)
/// of 2025-08-19.
///
#[doc = include_str!("square.md")]
#[must_use]
pub fn square() -> HttpPolicy {
    HttpPolicy::ietf()
        .with_requirement(Requirement::Required)
        .with_key_source(KeySource::member("/idempotency_key"))
        .with_key_format(KeyFormat::any().with_length(1..=128))
        .with_key_space(|request| vec![request.parts().uri.path().to_owned()])
        .with_fingerprint(FingerprintRecipe::body())
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_kept_statuses(super::success())
        .with_markers(Markers::none())
        .with_refusals(|refusal| {
            let (category, code) = match refusal.kind() {
                ProblemType::KeyReused => ("INVALID_REQUEST_ERROR", "IDEMPOTENCY_KEY_REUSED"),
                ProblemType::KeyMissing => ("INVALID_REQUEST_ERROR", "MISSING_REQUIRED_PARAMETER"),
                ProblemType::RequestInFlight => ("API_ERROR", "CONFLICT"),
                ProblemType::StoreUnavailable => ("API_ERROR", "SERVICE_UNAVAILABLE"),
                kind if super::is_of_the_client(kind) => ("INVALID_REQUEST_ERROR", "BAD_REQUEST"),
                _ => ("API_ERROR", "INTERNAL_SERVER_ERROR"),
            };
            let mut error = json!({"category": category, "code": code, "detail": refusal.detail()});
            if matches!(
                refusal.kind(),
                ProblemType::KeyReused | ProblemType::KeyMissing | ProblemType::KeyMalformed
            ) {
                error["field"] = "idempotency_key".into();
            }
            refusal.json(&json!({"errors": [error]}))
        })
}
