//! JSON-RPC: tools of MCP, and messages of A2A.

use bytes::Bytes;
use http::{Method, Response};
use idem_core::json::RawJson;
use serde_json::json;

use crate::{
    FingerprintRecipe, HttpPolicy, JsonRpc, KeySource, Markers, ProblemType, Refusal, Requirement,
    Statuses,
};

/// Gives tools of MCP an idempotency key. **Draft**: the protocol of 2026-07-28 has none; this
/// follows SEP-3182, which was closed without being merged.
///
/// Calls of these tools may carry a key in `/params/_meta/idempotencyKey`, which every client can
/// set, or in `/params/idempotencyKey`. Tool and arguments are compared by their JSON value.
/// Results and errors are stored, except those of a crash (`-32603`) and a cancellation (`-32800`).
/// Refusals are JSON-RPC errors with `data.type` `idempotency_key_conflict` or
/// `idempotency_key_in_progress`. For tools that take the key as an argument, change the
/// [`KeySource`] and leave the argument out of the fingerprint.
///
/// In MCP a client cancels by closing the stream. This preset finishes the handler nonetheless, so
/// that a retry gets the answer; [`OnDisconnect::Cancel`](crate::OnDisconnect::Cancel) is the other
/// choice.
///
#[doc = include_str!("mcp.md")]
#[must_use]
pub fn mcp<N: Into<String>>(tools: impl IntoIterator<Item = N>) -> HttpPolicy {
    calls(
        JsonRpc::new().with_optional(tools),
        KeySource::member("/params/_meta/idempotencyKey")
            .or(KeySource::member("/params/idempotencyKey")),
    )
    .with_fingerprint(
        FingerprintRecipe::body()
            .of_member("/params/name")
            .of_member("/params/arguments"),
    )
}

/// Handles a message of A2A once. **Draft**: the protocol's version 1.0 says that a server may, and
/// the rules are planned for 1.1.
///
/// The key of `message/send` (`SendMessage`) is the message's own id,
/// `/params/message/messageId`. The message is compared by its JSON value. Results and errors of
/// the call are stored. `/params/tenant` is part of the key.
///
/// `message/stream` (`SendStreamingMessage`) and the REST binding pass unguarded: their answers are
/// streams, or other paths.
///
#[doc = include_str!("a2a.md")]
#[must_use]
pub fn a2a() -> HttpPolicy {
    let calls_with_key = JsonRpc::new().with_required(["message/send", "SendMessage"]);
    calls(
        calls_with_key,
        KeySource::member("/params/message/messageId"),
    )
    .with_key_space(|request| {
        let tenant = request.member("/params/tenant");
        tenant.map(RawJson::canonical).into_iter().collect()
    })
    .with_fingerprint(FingerprintRecipe::body().of_member("/params/message"))
}

fn calls(rules: JsonRpc, key: KeySource) -> HttpPolicy {
    HttpPolicy::ietf()
        .with_requirement(Requirement::Optional)
        .with_methods([Method::POST])
        .with_json_rpc(rules)
        .with_key_source(key)
        .with_kept_statuses(Statuses::none().with(200..=299))
        .with_markers(Markers::none())
        .with_refusals(refuse)
}

fn refuse(refusal: &Refusal<'_>) -> Response<Bytes> {
    let (code, kind) = match refusal.kind() {
        ProblemType::KeyReused => (-32000, "idempotency_key_conflict"),
        ProblemType::RequestInFlight => (-32000, "idempotency_key_in_progress"),
        ProblemType::KeyMissing => (-32602, "idempotency_key_required"),
        ProblemType::KeyMalformed => (-32602, "idempotency_key_invalid"),
        ProblemType::StoreUnavailable => (-32000, "idempotency_unavailable"),
        _ => (-32603, "idempotency_error"),
    };
    let mut data = json!({"type": kind});
    if let Some(seconds) = refusal.retry_after() {
        data["retry_after"] = seconds.into();
    }
    refusal.json_rpc(code, refusal.detail(), &data)
}
