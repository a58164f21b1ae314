//! [`Subject`]: a preset and the way its clients write a request.

use idem_http::HttpPolicy;

use super::curl;
use super::rpc::Rpc;

/// A preset under test.
pub(super) struct Subject {
    /// The stem of its page.
    pub(super) name: &'static str,
    pub(super) policy: fn() -> HttpPolicy,
    pub(super) carrier: Carrier,
    /// The rows that make sense for it, and what each answers: see [`Expected`](super::row::Expected).
    pub(super) rows: &'static str,
}

/// Where its requests carry the key.
#[derive(Clone, Copy)]
pub(super) enum Carrier {
    Header(&'static str),
    /// The two headers of Azure.
    Pair,
    /// A member of the body.
    Member(&'static str),
    Rpc(Rpc),
}

/// One request of a client.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) account: &'static str,
    pub(super) method: &'static str,
    pub(super) key: Option<String>,
    pub(super) order: Order,
    /// Another path, tool or resource than the first one.
    pub(super) is_elsewhere: bool,
    /// The `id` of a JSON-RPC call.
    pub(super) id: u32,
    /// Whether members that do not count are changed.
    pub(super) has_other_context: bool,
    pub(super) is_batch: bool,
    pub(super) first_sent: &'static str,
    /// More headers.
    pub(super) headers: Vec<String>,
}

/// What a client orders.
#[derive(Clone, Copy)]
pub(super) enum Order {
    Usual,
    /// The same JSON value, written in another way.
    Rewritten,
    WithNull,
    Other,
    /// The card decides what the server does.
    Card(&'static str),
}

impl Order {
    /// Returns the members, without braces.
    pub(super) fn members(self) -> String {
        match self {
            Self::Usual => r#""amount":1250,"currency":"EUR""#.to_owned(),
            Self::Rewritten => r#""currency": "EUR", "amount": 1250.0"#.to_owned(),
            Self::WithNull => r#""amount":1250,"currency":"EUR","note":null"#.to_owned(),
            Self::Other => r#""amount":99,"currency":"EUR""#.to_owned(),
            Self::Card(card) => format!(r#""amount":1250,"currency":"EUR","card":"{card}""#),
        }
    }
}

impl Subject {
    /// Returns the first request with this key.
    pub(super) fn first(&self, key: &str) -> Sent {
        Sent {
            account: "alice",
            method: "POST",
            key: Some(key.to_owned()),
            order: Order::Usual,
            is_elsewhere: false,
            id: 7,
            has_other_context: false,
            is_batch: false,
            first_sent: curl::DATE,
            headers: Vec::new(),
        }
    }

    /// Returns the command that sends this request.
    pub(super) fn command(&self, sent: &Sent) -> String {
        let path = match (self.carrier, sent.is_elsewhere) {
            (Carrier::Rpc(_), _) => "/rpc",
            (_, false) => "/payments",
            (_, true) => "/refunds",
        };
        let mut headers = vec![
            format!("Authorization: Bearer {}", sent.account),
            "Content-Type: application/json".to_owned(),
        ];
        match (self.carrier, &sent.key) {
            (Carrier::Header(name), Some(key)) => headers.push(format!("{name}: {key}")),
            (Carrier::Pair, Some(key)) => {
                headers.push(format!("Repeatability-Request-ID: {key}"));
                if !sent.first_sent.is_empty() {
                    headers.push(format!("Repeatability-First-Sent: {}", sent.first_sent));
                }
            }
            _ => {}
        }
        headers.extend(sent.headers.iter().cloned());
        let headers: String = headers
            .iter()
            .map(|header| format!(" \\\n  -H '{header}'"))
            .collect();
        let method = match sent.method {
            "POST" => String::new(),
            method => format!(" -X {method}"),
        };
        let body = match sent.method {
            "GET" => String::new(),
            _ => format!(" \\\n  -d '{}'", self.body(sent)),
        };
        format!("curl -i localhost:3000{path}{method}{headers}{body}")
    }

    fn body(&self, sent: &Sent) -> String {
        let members = sent.order.members();
        let key = sent.key.as_ref();
        match self.carrier {
            Carrier::Header(_) | Carrier::Pair => format!("{{{members}}}"),
            Carrier::Member(name) => match key {
                Some(key) => format!(r#"{{"{name}":"{key}",{members}}}"#),
                None => format!("{{{members}}}"),
            },
            Carrier::Rpc(rpc) => {
                let call = rpc.body(sent, &members);
                if sent.is_batch {
                    format!("[{call}]")
                } else {
                    call
                }
            }
        }
    }
}
