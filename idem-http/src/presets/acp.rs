//! The Agentic Commerce Protocol.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use idem_core::json::RawJson;
use serde_json::{Value, json};

use super::DAY;
use crate::{
    FingerprintRecipe, HttpPolicy, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, JsonRpc, KeyForm,
    KeySource, Markers, ProblemType, Refusal, Requirement,
};

/// Follows the Agentic Commerce Protocol, release 2026-04-17, for checkout, cart and delegated
/// payment.
///
/// Every `POST` needs a key. The path is part of the key: the same key on another path is another
/// key. The body is compared by its JSON value, headers are not. Errors have the flat form
/// `{"type","code","message"}`, every answer repeats the key. Answers have to be replayed for 24
/// hours at least.
///
/// Source: [`rfc.agentic_checkout.md`](https://github.com/agentic-commerce-protocol/agentic-commerce-protocol/blob/main/rfcs/rfc.agentic_checkout.md),
/// sections 3.1 and 6, `rfc.delegate_payment.md`, section 5. Where the text is silent: a malformed
/// key is `400` with the code `invalid`; `429` and the like are not stored.
///
#[doc = include_str!("acp.md")]
#[must_use]
pub fn acp() -> HttpPolicy {
    HttpPolicy::ietf()
        .with_requirement(Requirement::Required)
        .with_methods([Method::POST])
        .with_key_form(KeyForm::Opaque)
        .with_key_space(|request| vec![request.parts().uri.path().to_owned()])
        .with_fingerprint(FingerprintRecipe::body())
        .with_markers(
            Markers::none()
                .with_replayed(IDEMPOTENT_REPLAYED, http::HeaderValue::from_static("true"))
                .with_key(IDEMPOTENCY_KEY),
        )
        .with_min_lifetime(DAY)
        .with_refusals(|refusal| refusal.json(&flat(refusal)))
}

/// Follows the Agentic Commerce Protocol for delegated authentication: [`acp`] with an optional key
/// and `409` for a key that was used for another request.
///
/// Source: `rfc.delegate_authentication.md`, section 7.
///
#[doc = include_str!("acp_delegate_authentication.md")]
#[must_use]
pub fn acp_delegate_authentication() -> HttpPolicy {
    acp()
        .with_requirement(Requirement::Optional)
        .with_status(ProblemType::KeyReused, StatusCode::CONFLICT)
}

/// Follows the Agentic Commerce Protocol over MCP. **Draft**: the binding writes the key as
/// optional, and says that the rules of REST hold; this preset requires it.
///
/// The tools `create_checkout_session`, `update_checkout_session`, `complete_checkout_session` and
/// `cancel_checkout_session` carry it in `/params/arguments/meta/idempotency_key`; set other names
/// with [`with_json_rpc`](HttpPolicy::with_json_rpc). Tool and `/params/arguments/id` are part of
/// the key, as the path is over REST; `/params/arguments/payload` is compared. Errors are JSON-RPC
/// errors with the code -32000 and the flat error as `data`.
///
/// Source: `docs/mcp-binding.md`.
///
#[doc = include_str!("acp_mcp.md")]
#[must_use]
pub fn acp_mcp() -> HttpPolicy {
    let tools = ["create", "update", "complete", "cancel"];
    let tools = tools.map(|verb| format!("{verb}_checkout_session"));
    acp()
        .with_json_rpc(JsonRpc::new().with_required(tools))
        .with_operation_by_call()
        .with_key_source(KeySource::member("/params/arguments/meta/idempotency_key"))
        .with_key_space(|request| {
            let id = request.member("/params/arguments/id");
            vec![id.map(RawJson::canonical).unwrap_or_default()]
        })
        .with_fingerprint(
            FingerprintRecipe::body()
                .of_member("/params/arguments/payload")
                .of_member("/params/arguments/id"),
        )
        .with_markers(Markers::none())
        .with_refusals(|refusal| -> Response<Bytes> {
            let flat = flat(refusal);
            let message = flat["message"].as_str().unwrap_or_default().to_owned();
            refusal.json_rpc(-32000, &message, &flat)
        })
}

/// Returns the error, which may have no further members.
fn flat(refusal: &Refusal<'_>) -> Value {
    let invalid = "invalid_request";
    let (kind, code, message) = match refusal.kind() {
        ProblemType::KeyMissing => (
            invalid,
            "idempotency_key_required",
            "Idempotency-Key header is required on all POST requests",
        ),
        ProblemType::KeyReused => (
            invalid,
            "idempotency_conflict",
            "This Idempotency-Key has already been used with a different request body",
        ),
        ProblemType::RequestInFlight => (
            invalid,
            "idempotency_in_flight",
            "A request with this Idempotency-Key is currently being processed",
        ),
        ProblemType::StoreUnavailable => (
            "service_unavailable",
            "service_unavailable",
            refusal.detail(),
        ),
        kind if super::is_of_the_client(kind) => (invalid, "invalid", refusal.detail()),
        _ => ("processing_error", "processing_error", refusal.detail()),
    };
    json!({"type": kind, "code": code, "message": message})
}
