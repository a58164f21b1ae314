//! [`Rpc`]: the JSON-RPC calls of the protocols.

use super::subject::Sent;

#[derive(Clone, Copy)]
pub(super) enum Rpc {
    Acp,
    Ucp,
    Adcp,
    Mcp,
    A2a,
}

impl Rpc {
    /// Returns the body of a call.
    pub(super) fn body(self, sent: &Sent, order: &str) -> String {
        let elsewhere = sent.is_elsewhere;
        let member = |name: &str| match &sent.key {
            Some(key) => format!(r#""{name}":"{key}""#),
            None => String::new(),
        };
        let with_comma = |text: String| if text.is_empty() { text } else { text + "," };
        let resource = if elsewhere { "cs_2" } else { "cs_1" };
        let (method, params) = match self {
            Self::Acp => (
                "tools/call",
                format!(
                    r#""name":"complete_checkout_session","arguments":{{"meta":{{{}}},"id":"{resource}","payload":{{{order}}}}}"#,
                    member("idempotency_key")
                ),
            ),
            Self::Ucp => {
                let context = if sent.has_other_context {
                    r#""agent":"b""#
                } else {
                    r#""agent":"a""#
                };
                let tool = if elsewhere {
                    "cancel_checkout"
                } else {
                    "complete_checkout"
                };
                (
                    "tools/call",
                    format!(
                        r#""name":"{tool}","arguments":{{"meta":{{{}{context}}},"id":"co_1",{order}}}"#,
                        with_comma(member("idempotency-key"))
                    ),
                )
            }
            Self::Adcp => {
                let context = if sent.has_other_context {
                    "second"
                } else {
                    "first"
                };
                let tool = if elsewhere {
                    "update_media_buy"
                } else {
                    "create_media_buy"
                };
                (
                    "tools/call",
                    format!(
                        r#""name":"{tool}","arguments":{{{}"account":{{"account_id":"acc_1"}},"context":{{"trace":"{context}"}},{order}}}"#,
                        with_comma(member("idempotency_key"))
                    ),
                )
            }
            Self::Mcp => {
                let tool = if elsewhere { "refund" } else { "pay" };
                (
                    "tools/call",
                    format!(
                        r#""name":"{tool}",{}"arguments":{{{order}}}"#,
                        with_comma(member("idempotencyKey"))
                    ),
                )
            }
            Self::A2a => (
                "message/send",
                format!(
                    r#""message":{{{}"role":"user","parts":[{{"kind":"data","data":{{{order}}}}}]}}"#,
                    with_comma(member("messageId"))
                ),
            ),
        };
        let id = sent.id;
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
    }
}
