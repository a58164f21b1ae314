//! The Universal Commerce Protocol.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::{DAY, HOUR};
use crate::{
    FingerprintRecipe, HttpPolicy, IDEMPOTENCY_KEY, JsonRpc, KeyFormat, KeySource, Markers,
    ProblemType, Refusal, Requirement,
};

/// Follows the Universal Commerce Protocol over REST, as of 2026-08-22.
///
/// `POST` and `PUT` need a key, a UUID. The bytes of the body are compared, so JSON that is written
/// in another way is a conflict, `409`. Replays have no marker. Answers are kept for 48 hours, and
/// have to be for 24. While the store is unreachable, requests get `503`. Give each of the
/// protocol's operations its route and its own
/// [`with_operation`](HttpPolicy::with_operation): keys belong to an operation.
///
/// Source: [`signatures.md`](https://github.com/Universal-Commerce-Protocol/ucp/blob/main/docs/specification/signatures.md),
/// "Replay Protection", and `rest.openapi.json`. The two disagree about whether a key is required
/// and of which form; the preset follows the OpenAPI document. The protocol registers no error
/// codes for idempotency; those of this preset are its own.
///
#[doc = include_str!("ucp.md")]
#[must_use]
pub fn ucp() -> HttpPolicy {
    HttpPolicy::ietf()
        .with_requirement(Requirement::Required)
        .with_methods([Method::POST, Method::PUT])
        .with_key_format(KeyFormat::uuid())
        .with_fingerprint(FingerprintRecipe::bytes())
        .with_status(ProblemType::KeyReused, StatusCode::CONFLICT)
        .with_markers(Markers::none())
        .with_retention(48 * HOUR)
        .with_min_lifetime(DAY)
        .with_refusals(|refusal| refusal.json(&error(refusal)))
}

/// Follows the Universal Commerce Protocol over MCP. **Draft**: what is compared is under
/// discussion (issue 664, pull request 782 of the protocol).
///
/// The tools `complete_checkout`, `cancel_checkout` and `cancel_cart` carry the key in
/// `/params/arguments/meta/idempotency-key`. A request with a `Signature` header has to carry the
/// same key in `Idempotency-Key`, which the signature covers. The arguments without `meta` are
/// compared by their value. Refusals are JSON-RPC errors with the code -32000, `{code, content}` as
/// `data`, and `200`: clients of MCP end the session at another status.
///
/// Source: `docs/specification/shopping/checkout/mcp.md`.
///
#[doc = include_str!("ucp_mcp.md")]
#[must_use]
pub fn ucp_mcp() -> HttpPolicy {
    let tools = ["complete_checkout", "cancel_checkout", "cancel_cart"];
    ucp()
        .with_json_rpc(JsonRpc::new().with_required(tools))
        .with_operation_by_call()
        .with_key_source(KeySource::member_and_header(
            "/params/arguments/meta/idempotency-key",
            IDEMPOTENCY_KEY,
            |parts| parts.headers.contains_key("signature"),
        ))
        .with_fingerprint(
            FingerprintRecipe::body()
                .of_member("/params/arguments")
                .without_member("/meta"),
        )
        .with_refusals(|refusal| -> Response<Bytes> {
            let mut data = error(refusal);
            if let Some(seconds) = refusal.retry_after() {
                data["retry_after"] = seconds.into();
            }
            refusal.json_rpc(-32000, refusal.detail(), &data)
        })
}

fn error(refusal: &Refusal<'_>) -> Value {
    let code = match refusal.kind() {
        ProblemType::KeyMissing => "idempotency_key_required",
        ProblemType::KeyMalformed => "idempotency_key_invalid",
        ProblemType::KeyReused => "idempotency_conflict",
        ProblemType::RequestInFlight => "idempotency_in_flight",
        ProblemType::StoreUnavailable => "service_unavailable",
        kind if super::is_of_the_client(kind) => "invalid_request",
        _ => "internal_error",
    };
    json!({"code": code, "content": refusal.detail()})
}
