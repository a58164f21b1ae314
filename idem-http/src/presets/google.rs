//! Google's AIP-155.

use http::StatusCode;
use serde_json::json;

use crate::{HttpPolicy, KeyFormat, KeySource, Markers, ProblemType};

/// Follows AIP-155 for methods over HTTP and JSON. **Draft**: it is guidance, and leaves the errors
/// open.
///
/// The body may have `request_id` or, as the REST clients write it, `requestId`, a UUID; the query may
/// have it instead. Success is stored; a replay may also be the resource's
/// current state: [`with_replay_hook`](HttpPolicy::with_replay_hook). Errors have the form of
/// `google.rpc.Status`. Another request with the id is `400 INVALID_ARGUMENT`, one in flight `409
/// ABORTED`. For gRPC, read the field of the message with
/// [`IdempotencyKey::from_text`](crate::IdempotencyKey::from_text): see [`grpc`](crate::grpc).
///
/// Source: [google.aip.dev/155](https://google.aip.dev/155).
///
#[doc = include_str!("aip155.md")]
#[must_use]
pub fn aip155() -> HttpPolicy {
    HttpPolicy::ietf()
        .with_key_source(
            KeySource::member("/request_id")
                .or(KeySource::member("/requestId"))
                .or(KeySource::query("request_id"))
                .or(KeySource::query("requestId")),
        )
        .with_key_format(KeyFormat::uuid())
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_kept_statuses(super::success())
        .with_markers(Markers::none())
        .with_refusals(|refusal| {
            let status = match refusal.kind() {
                ProblemType::RequestInFlight => "ABORTED",
                ProblemType::StoreUnavailable => "UNAVAILABLE",
                ProblemType::KeyUnsupported => "UNIMPLEMENTED",
                kind if super::is_of_the_client(kind) => "INVALID_ARGUMENT",
                _ => "INTERNAL",
            };
            let code = refusal.status().as_u16();
            let error = json!({"code": code, "message": refusal.detail(), "status": status});
            refusal.json(&json!({"error": error}))
        })
}
