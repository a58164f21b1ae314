//! In the manner of Stripe.

use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::json;

use super::DAY;
use crate::{HttpPolicy, KeyForm, KeyFormat, ProblemType, Statuses};

/// The headers by which a platform names the account that a request is about.
const ACCOUNTS: [HeaderName; 2] = [
    HeaderName::from_static("stripe-account"),
    HeaderName::from_static("stripe-context"),
];

/// Tells clients whether to retry, whatever the status says.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("stripe-should-retry");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const FALSE: HeaderValue = HeaderValue::from_static("false");

/// Behaves in the manner of Stripe's API v1. **Draft**: its rules are read from its documentation,
/// which has no schema for them.
///
/// `POST` may carry a key, which is any text. `Stripe-Account` and `Stripe-Context` are part of it:
/// the same key for another account is another key. Scope: the account of the secret key. Once a
/// handler began, its answer is stored, `500` included. Not stored: `400` (validation failed,
/// nothing ran), `403` (a permission may be given), `409` (a lost race), [client errors that may
/// pass](crate::Statuses::without_transient), and answers with `Stripe-Should-Retry: true`; mark
/// other answers of requests that did not begin with [`NotStored`](crate::NotStored). The replay of
/// a 5xx has `Stripe-Should-Retry: false`, so that clients stop. A key that was used for another
/// request is `400` with the type `idempotency_error`. Answers are replayed for 24 hours, with
/// `Idempotent-Replayed: true`.
///
/// Source: [docs.stripe.com/api/idempotent_requests](https://docs.stripe.com/api/idempotent_requests).
///
#[doc = include_str!("stripe.md")]
#[must_use]
pub fn stripe() -> HttpPolicy {
    let stored = Statuses::all().without_transient();
    let stored = stored.without(400..=400).without(403..=403);
    let stored = stored.without(409..=409);
    HttpPolicy::ietf()
        .with_methods([Method::POST])
        .with_key_form(KeyForm::Opaque)
        .with_key_format(KeyFormat::any().with_length(1..=255))
        .with_key_headers(ACCOUNTS)
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_kept_statuses(stored)
        .with_kept_if(|answer| answer.headers().get(SHOULD_RETRY) != Some(&TRUE))
        .with_replay_hook(|_, mut replay| async move {
            if replay.status().is_server_error() {
                replay.headers_mut().insert(SHOULD_RETRY, FALSE);
            }
            replay
        })
        .with_retention(DAY)
        .with_refusals(|refusal| {
            let kind = match refusal.kind() {
                ProblemType::KeyReused | ProblemType::KeyMalformed => "idempotency_error",
                kind if super::is_of_the_client(kind) => "invalid_request_error",
                _ => "api_error",
            };
            let mut error = json!({"type": kind, "message": refusal.detail()});
            if refusal.kind() == ProblemType::RequestInFlight {
                error["code"] = "idempotency_key_in_use".into();
            }
            refusal.json(&json!({"error": error}))
        })
}
