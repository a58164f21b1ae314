//! JSON-RPC: tools of MCP, and messages of A2A.

use http::Method;
use idem_core::json::RawJson;

use super::success;
use super::words::{self, worded};
use crate::{
    FingerprintRecipe, HttpPolicy, JsonRpc, KeySource, KeyedRequest, Markers, Requirement,
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
/// An answer as a stream of events passes event by event; [`JsonRpc`] says what is recorded. A stream
/// that closes before the result (SEP-1699) keeps the key for the lease of the engine's policy: set
/// it to the longest time of a tool. A client comes back for the rest with `GET`, which has no key.
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
            .of_member("/params/arguments")
            .with_text(super::target),
    )
}

/// Handles a message of A2A once. **Draft**: the protocol's version 1.0 says that a server may, and
/// the rules are planned for 1.1.
///
/// The key of `message/send` and `message/stream` (`SendMessage`, `SendStreamingMessage`) is the
/// message's own id, `/params/message/messageId`. The message is compared by its JSON value. Results
/// and errors of the call are stored, and streams whole. `/params/tenant` is part of the key. For the
/// REST binding see [`a2a_rest`].
///
#[doc = include_str!("a2a.md")]
#[must_use]
pub fn a2a() -> HttpPolicy {
    let calls_with_key = JsonRpc::new()
        .with_required(["message/send", "SendMessage"])
        .with_required(STREAMING)
        .with_streams(STREAMING);
    calls(
        calls_with_key,
        KeySource::member("/params/message/messageId"),
    )
    .with_key_space(tenant("/params/tenant"))
    .with_fingerprint(
        FingerprintRecipe::body()
            .of_member("/params/message")
            .with_text(super::target),
    )
}

/// The calls of A2A that answer with streams.
const STREAMING: [&str; 2] = ["message/stream", "SendStreamingMessage"];

/// Handles a message of A2A's REST binding once: [`a2a`] for the paths `/message:send` and
/// `/message:stream` (`/v1/message:send` in 0.3), where the key is `/message/messageId`. **Draft**.
///
/// A refusal has the form of `google.rpc.Status`. Put the layer around these routes only.
#[must_use]
pub fn a2a_rest() -> HttpPolicy {
    let policy = HttpPolicy::ietf()
        .with_requirement(Requirement::Required)
        .with_methods([Method::POST])
        .with_key_source(KeySource::member("/message/messageId"))
        .with_key_space(tenant("/tenant"))
        .with_fingerprint(FingerprintRecipe::request().of_member("/message"))
        .with_kept_statuses(success())
        .with_markers(Markers::none());
    worded(policy, &words::GOOGLE, words::google)
}

fn tenant(pointer: &'static str) -> impl Fn(&KeyedRequest) -> Vec<String> + Send + Sync {
    move |request| {
        let Some(document) = request.json() else {
            return Vec::new();
        };
        // Where readers may differ on the tenant, the whole document is part of the key.
        let tenant = document.pointer(pointer).unwrap_or(Some(document));
        tenant.map(RawJson::canonical).into_iter().collect()
    }
}

fn calls(rules: JsonRpc, key: KeySource) -> HttpPolicy {
    let policy = HttpPolicy::ietf()
        .with_methods([Method::POST])
        .with_json_rpc(rules)
        .with_key_source(key)
        .with_kept_statuses(success())
        .with_markers(Markers::none());
    worded(policy, &words::RPC, words::rpc)
}
