//! [`JsonRpc`]: keys of calls in JSON-RPC envelopes.

mod call;
mod events;

use idem_core::json::RawJson;

use crate::{KeyError, Requirement};

pub use call::Call;
pub(crate) use events::{EventReader, Progress, with_id};

/// Which calls of a JSON-RPC endpoint carry keys.
///
/// The layer reads the envelope once. A call has the name of its method, and a call of `tools/call`
/// (MCP) the name of its tool. Calls that are not listed go to the service as they were sent, and
/// so do answers and documents without a method. The layer refuses a listed call without version
/// 2.0 or an `id`, and a name that is not a string, because some servers run it. It refuses a batch (an array) with a listed call,
/// or with anything except objects. It refuses a body that is not JSON, and a call that readers may
/// take for different ones: see [`KeySource`](crate::KeySource).
///
/// A replay gets the `id` of its own request, and every other byte of the answer stays. A result
/// whose `resultType` is neither `complete` nor `task` is not an outcome, and releases the key; so do
/// errors with the codes `-32603` (internal error) and `-32800` (cancelled).
///
/// Of an answer as a stream of events (`text/event-stream`), each event reaches the client at once,
/// and a question in it may be answered: the client's answer is no call, and passes. The first event
/// with the call's answer alone is stored, before the client gets it, and is replayed as JSON. A
/// stream that ends without the answer keeps the key for the rest of the lease, because the call may
/// go on: a server may close the stream and let the client come back for the rest, with `GET` and
/// `Last-Event-ID`, which have no key. An event over the limit of a response leaves the marker. A
/// client that hangs up in the stream ends it at once only under
/// [`OnDisconnect::Cancel`](crate::OnDisconnect::Cancel): a task reads on for 10 minutes otherwise.
///
/// ```
/// use idem_http::{HttpPolicy, JsonRpc, KeySource};
///
/// let policy = HttpPolicy::ietf()
///     .with_json_rpc(JsonRpc::new().with_required(["complete_checkout"]))
///     .with_key_source(KeySource::member("/params/arguments/meta/idempotency_key"));
/// # let _ = policy;
/// ```
#[derive(Debug, Clone, Default)]
pub struct JsonRpc {
    calls: Vec<(String, Requirement)>,
    streams: Vec<String>,
}

/// What a body is.
pub(crate) enum Envelope {
    /// A call that may carry a key.
    Call(Call, Requirement),
    /// A batch with such a call, or with anything except objects.
    Batch,
    /// Anything else.
    Other,
}

impl JsonRpc {
    /// Creates the rules of an endpoint without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires a key of calls with these names.
    #[must_use]
    pub fn with_required<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.with(names, Requirement::Required)
    }

    /// Accepts a key in calls with these names.
    #[must_use]
    pub fn with_optional<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        self.with(names, Requirement::Optional)
    }

    /// Says that these calls answer with a stream in which each event has the `id` of the call, as
    /// A2A's do: the stream is recorded to its end, and replayed as a stream.
    #[must_use]
    pub fn with_streams<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.streams.extend(names.into_iter().map(Into::into));
        self
    }

    /// Returns whether the call ends with its stream, not with an answer in it.
    pub(crate) fn streams(&self, call: &Call) -> bool {
        self.streams.iter().any(|name| name == call.name())
    }

    fn with<N: Into<String>>(
        mut self,
        names: impl IntoIterator<Item = N>,
        requirement: Requirement,
    ) -> Self {
        let names = names.into_iter().map(|name| (name.into(), requirement));
        self.calls.extend(names);
        self
    }

    pub(crate) fn envelope(&self, body: RawJson<'_>) -> Result<Envelope, KeyError> {
        // A batch passes only if each element is an object with one reading. Some readers take an
        // array for a call, by the positions of its elements.
        let is_other =
            |one: RawJson<'_>| one.bytes().starts_with(b"{") && matches!(self.rule(one), Ok(None));
        if !body.elements().all(is_other) {
            return Ok(Envelope::Batch);
        }
        Ok(match self.rule(body)? {
            Some((call, requirement)) => Envelope::Call(call, requirement),
            None => Envelope::Other,
        })
    }

    fn rule(&self, body: RawJson<'_>) -> Result<Option<(Call, Requirement)>, KeyError> {
        let Some((method, tool)) = Call::names(body)? else {
            return Ok(None);
        };
        let name = tool.as_ref().unwrap_or(&method);
        let Some((_, requirement)) = self.calls.iter().find(|(listed, _)| listed == name) else {
            return Ok(None);
        };
        Ok(Some((Call::read(body, method, tool)?, *requirement)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn rules() -> JsonRpc {
        JsonRpc::new()
            .with_required(["pay"])
            .with_optional(["message/send"])
    }

    fn envelope(body: &Value) -> Envelope {
        let text = body.to_string();
        let body = RawJson::read(text.as_bytes()).unwrap();
        rules().envelope(body).unwrap()
    }

    fn tool(name: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name}})
    }

    #[test]
    fn listed_calls_are_found_by_method_or_tool() {
        let message = json!({"jsonrpc": "2.0", "id": "a", "method": "message/send"});
        for (body, expected) in [
            (tool("pay"), Some(("pay", Requirement::Required))),
            (message, Some(("message/send", Requirement::Optional))),
            (tool("list"), None),
            (json!({"jsonrpc": "2.0", "method": "message/list"}), None),
            (json!({"jsonrpc": "2.0", "id": 1, "result": {}}), None),
            (json!("text"), None),
        ] {
            let found = match envelope(&body) {
                Envelope::Call(call, requirement) => Some((call.name().to_owned(), requirement)),
                Envelope::Batch => panic!("{body}"),
                Envelope::Other => None,
            };
            let found = found.as_ref().map(|(name, rule)| (name.as_str(), *rule));
            assert_eq!(found, expected, "{body}");
        }
    }

    #[test]
    fn a_batch_is_refused_only_with_a_listed_call() {
        let with = json!([tool("list"), tool("pay")]);
        assert!(matches!(envelope(&with), Envelope::Batch));
        let without = json!([tool("list")]);
        assert!(matches!(envelope(&without), Envelope::Other));
    }
}
