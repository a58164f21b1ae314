//! The Ad Context Protocol.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use idem_core::json::{MemberError, RawJson};
use serde_json::{Value, json};

use super::DAY;
use super::words::{self, Pair, worded};
use crate::{
    FingerprintRecipe, HttpPolicy, JsonRpc, KeyFormat, KeySource, KeyedRequest, Markers, Refusal,
    json as edit,
};

/// The members of the input that do not count (the closed list of the protocol).
const EXCLUDED: [&str; 4] = [
    "/idempotency_key",
    "/context",
    "/governance_context",
    "/push_notification_config/authentication/credentials",
];

/// Follows the Ad Context Protocol over MCP, 3.2.0-beta.5 of 2026-08-22.
///
/// The tools of `mutating` need a key in `/params/arguments/idempotency_key`, 16 to 255 characters
/// of `[A-Za-z0-9_.:-]` that are not easy to guess; the tools of `reading` may carry one. The
/// account and the session of the input are part of the key. Tool and input are compared by their
/// JSON value, without the key, the contexts and the credentials of notifications. Only success is
/// stored: a `status` other than that of a task that is open or failed, such as `completed`,
/// `submitted`, or `active` of version 3.0, also with advisory `errors`. Errors release the key. A
/// replay has `replayed: true` and this request's `context`. Answers are replayed for 24 hours; for
/// 24 more the key is refused as `IDEMPOTENCY_EXPIRED`.
///
/// Publish [`Lifetime::adcp`](crate::Lifetime::adcp) in `get_adcp_capabilities`.
///
/// Source: [`security.mdx`](https://github.com/adcontextprotocol/adcp/blob/main/docs/building/by-layer/L1/security.mdx),
/// "Idempotency", rules 1 to 10.
///
/// ```
/// use idem_http::presets;
///
/// let policy = presets::adcp(["create_media_buy", "update_media_buy"], ["get_products"]);
/// # let _ = policy;
/// ```
///
#[doc = include_str!("adcp.md")]
#[must_use]
pub fn adcp<M: Into<String>, R: Into<String>>(
    mutating: impl IntoIterator<Item = M>,
    reading: impl IntoIterator<Item = R>,
) -> HttpPolicy {
    let recipe = FingerprintRecipe::body()
        .of_member("/params/arguments")
        .of_member("/params/name")
        .with_text(super::target);
    let recipe = EXCLUDED
        .iter()
        .fold(recipe, |recipe, pointer| recipe.without_member(pointer));
    let rules = JsonRpc::new()
        .with_required(mutating)
        .with_optional(reading);
    let policy = HttpPolicy::ietf()
        .with_methods([Method::POST])
        .with_json_rpc(rules)
        .with_key_source(KeySource::member("/params/arguments/idempotency_key"))
        .with_key_format(
            KeyFormat::characters("_.:-")
                .with_length(16..=255)
                .refusing_weak(),
        )
        .with_key_space(|request| {
            let text = |name: &str| {
                let member = request.member(&format!("/params/arguments/{name}"));
                member.map(RawJson::canonical).unwrap_or_default()
            };
            vec![text("account"), text("session_id")]
        })
        .with_fingerprint(recipe)
        .with_kept_statuses(super::success())
        .with_kept_if(is_success)
        .with_markers(Markers::none())
        .with_replay_hook(|request, response| async move {
            let replayed = [("replayed", &b"true"[..])].into_iter();
            let members: Vec<_> = replayed.chain(context(&request)).collect();
            with_members(response, &members)
        })
        .with_retention(DAY)
        .with_tombstone(DAY);
    worded(policy, &words::ADCP, refuse)
}

/// The states of a task that is open or failed. In 3.0 `status` may be that of the media buy.
const NO_SUCCESS: [&str; 7] = [
    "auth-required",
    "canceled",
    "failed",
    "input-required",
    "rejected",
    "unknown",
    "working",
];

/// An open task has another answer later, and a failed one is tried again.
fn is_success(answer: &Response<Bytes>) -> bool {
    let result = RawJson::read(answer.body()).map(|answer| {
        let Some(result) = answer.member("result")? else {
            return Ok(false);
        };
        let is_error = result
            .member("isError")?
            .is_some_and(|is_error| is_error.bytes() == b"true");
        let content = match result.member("structuredContent")? {
            Some(content) if !is_error => content,
            _ => return Ok(!is_error),
        };
        let status = content.member("status")?.and_then(RawJson::as_str);
        let is_success = match status.as_deref() {
            // Beside a state, errors are advisory.
            Some(status) => !NO_SUCCESS.contains(&status),
            None => content.pointer("/errors/0")?.is_none(),
        };
        Ok(is_success && content.member("adcp_error")?.is_none())
    });
    // Of an answer with two readings, a replay is the lesser harm than a second run.
    result.is_some_and(|result: Result<bool, MemberError>| result.unwrap_or(true))
}

/// Returns the context of this request, which each answer repeats.
fn context(request: &KeyedRequest) -> Option<(&str, &[u8])> {
    let context = request.member("/params/arguments/context")?.bytes();
    let is_text = std::str::from_utf8(context).is_ok();
    is_text.then_some(("context", context))
}

/// Sets members of the structured content, and of the text that repeats it.
fn with_members(mut response: Response<Bytes>, members: &[(&str, &[u8])]) -> Response<Bytes> {
    const CONTENT: &str = "/result/structuredContent";
    let marked = |mut document: Bytes, at: &str| {
        for (name, text) in members {
            document = edit::with_text(&document, &format!("{at}/{name}"), text)?;
        }
        Some(document)
    };
    let Some(body) = marked(response.body().clone(), CONTENT) else {
        return response;
    };
    let with_text = || {
        let content = RawJson::read(&body)?.pointer("/result/content").ok()??;
        let mut elements = content.elements();
        let (only, None) = (elements.next()?, elements.next()) else {
            return None;
        };
        let text = only.member("text").ok()??.as_str()?.into_owned();
        let text = Value::from(std::str::from_utf8(&marked(text.into(), "")?).ok()?);
        let only = edit::with_member(only.bytes(), "/text", &text)?;
        edit::with_text(&body, "/result/content", &[b"[", &only[..], b"]"].concat())
    };
    *response.body_mut() = with_text().unwrap_or(body);
    response
}

/// Answers as a tool does, with `200`, `isError` and the request's context.
fn refuse(refusal: &Refusal<'_>, [code, recovery]: Pair) -> Response<Bytes> {
    let mut error = json!({"code": code, "message": refusal.detail()});
    if !recovery.is_empty() {
        error["recovery"] = recovery.into();
    }
    if code == "VALIDATION_ERROR" {
        error["field"] = "idempotency_key".into();
        error["issues"] = json!([{"pointer": "/idempotency_key", "message": refusal.detail()}]);
    }
    if let Some(seconds) = refusal.retry_after() {
        error["retry_after"] = seconds.clamp(1, 3600).into();
    }
    let content = json!({"adcp_error": error, "errors": [error]});
    let result = json!({
        "content": [{"type": "text", "text": content.to_string()}],
        "isError": true,
        "structuredContent": content,
    });
    let call = refusal.request().and_then(KeyedRequest::call);
    let id = call.map_or(Value::Null, |call| call.id().clone());
    let mut response = refusal.json(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    *response.status_mut() = StatusCode::OK;
    let context = refusal.request().and_then(context);
    with_members(response, context.as_slice())
}
