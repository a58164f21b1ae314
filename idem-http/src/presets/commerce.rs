//! Protocols of commerce by agents.

use http::{HeaderValue, Method, StatusCode};
use idem_core::json::RawJson;
use serde_json::json;

use super::words::{self, Pair, worded};
use super::{DAY, HOUR};
use crate::{
    FingerprintRecipe, HttpPolicy, IDEMPOTENCY_KEY, IDEMPOTENT_REPLAYED, JsonRpc, KeyForm,
    KeyFormat, KeySource, Markers, ProblemType, Refusal, Requirement,
};

/// Follows the Agentic Commerce Protocol, release 2026-04-17, for checkout, cart and delegated
/// payment.
///
/// Every `POST` needs a key. Path and query are part of the key: the same key on another path is
/// another key. The body is compared by its JSON value, headers are not. Errors have the flat form
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
    let policy = HttpPolicy::ietf()
        .with_requirement(Requirement::Required)
        .with_methods([Method::POST])
        .with_key_form(KeyForm::Opaque)
        .with_key_space(super::by_target)
        .with_fingerprint(FingerprintRecipe::body())
        .with_markers(
            Markers::none()
                .with_replayed(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"))
                .with_key(IDEMPOTENCY_KEY),
        )
        .with_min_lifetime(DAY);
    worded(policy, &words::ACP, |refusal, words| {
        refusal.json(&words::acp(refusal, words))
    })
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
    let policy = acp()
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
                .of_member("/params/arguments/id")
                .with_text(super::target),
        )
        .with_markers(Markers::none());
    worded(policy, &words::ACP, |refusal, words| {
        let flat = words::acp(refusal, words);
        refusal.json_rpc(-32000, flat["message"].as_str().unwrap_or_default(), &flat)
    })
}

/// Follows the Universal Commerce Protocol over REST, as of 2026-08-22.
///
/// `POST` and `PUT` need a key, a UUID. Path, query and the bytes of the body are compared, so JSON that is
/// written in another way is a conflict, `409`. Replays have no marker. Answers are kept for 48 hours, and
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
    let policy = HttpPolicy::ietf()
        .with_requirement(Requirement::Required)
        .with_methods([Method::POST, Method::PUT])
        .with_key_format(KeyFormat::uuid())
        .with_fingerprint(FingerprintRecipe::bytes().with_text(super::target))
        .with_status(ProblemType::KeyReused, StatusCode::CONFLICT)
        .with_markers(Markers::none())
        .with_retention(48 * HOUR)
        .with_min_lifetime(DAY);
    worded(
        policy,
        &words::UCP,
        |refusal: &Refusal<'_>, [code, _]: Pair| {
            refusal.json(&json!({"code": code, "content": refusal.detail()}))
        },
    )
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
    let policy = ucp()
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
                .without_member("/meta")
                .with_text(super::target),
        );
    worded(
        policy,
        &words::UCP,
        |refusal: &Refusal<'_>, [code, _]: Pair| {
            let mut data = json!({"code": code, "content": refusal.detail()});
            if let Some(seconds) = refusal.retry_after() {
                data["retry_after"] = seconds.into();
            }
            refusal.json_rpc(-32000, refusal.detail(), &data)
        },
    )
}
