//! The idempotency rules of public protocols, as policies.
//!
//! Each preset is an [`HttpPolicy`](crate::HttpPolicy) whose settings may be changed further. Its
//! page shows what a server behind it answers: a table, and for each row what `curl` sends and
//! gets, recorded by a test. What the server does not decide is the same for all: put the layer
//! inside of authentication, give each route its operation, choose a store.
//!
//! | preset | key | another request with the key | in flight | stored |
//! | --- | --- | --- | --- | --- |
//! | [`HttpPolicy::ietf`](crate::HttpPolicy::ietf) | `Idempotency-Key`, optional | `422` | `409` | 2xx and final 4xx |
//! | [`acp`] | `Idempotency-Key`, every `POST` | `422 idempotency_conflict` | `409 idempotency_in_flight` | 2xx and final 4xx |
//! | [`ucp`] | `Idempotency-Key`, a UUID, required | `409` | `409` | 2xx and final 4xx |
//! | [`adcp`] | `/params/arguments/idempotency_key` | `IDEMPOTENCY_CONFLICT` | `IDEMPOTENCY_IN_FLIGHT` | success |
//! | [`iceberg`] | `Idempotency-Key`, UUIDv7, optional | `422` | `503` | 2xx and final 4xx |
//! | [`azure`] | `Repeatability-Request-ID` and `-First-Sent` | `400` | `409` | 2xx and final 4xx |
//! | [`stripe`] | `Idempotency-Key` of `POST`, optional | `400 idempotency_error` | `409` | all but `400`, `403`, `409` and passing 4xx |
//! | [`stripe_v2`] | `Idempotency-Key` of `POST` and `DELETE`, optional | `400 idempotency_error` | `409` | 2xx |
//! | [`square`] | `/idempotency_key`, required | `400 IDEMPOTENCY_KEY_REUSED` | `409` | 2xx |
//! | [`paypal`] | `PayPal-Request-Id`, optional | `422 DUPLICATE_REQUEST_ID` | `409` | 2xx |
//! | [`adyen`] | `Idempotency-Key` of `POST`, optional | `422` | `409`, `704` | unless `403` or `transient-error` |
//! | [`aws`] | `ClientToken` or the like, in the body, a form, the query or a header | `400 IdempotentParameterMismatch` | `409` | 2xx |
//! | [`aip155`] | `/request_id` or `requestId`, also in the query, a UUID, optional | `400 INVALID_ARGUMENT` | `409 ABORTED` | 2xx |
//! | [`mcp`], [`acp_mcp`], [`ucp_mcp`], [`a2a`] | in the JSON-RPC call | an error of the call | an error of the call | see there |
//! | [`a2a_rest`] | `/message/messageId`, required | `422` | `409 ABORTED` | 2xx |
//!
//! A request in flight is refused after a wait for its answer, 3 s by default
//! ([`with_wait`](crate::HttpPolicy::with_wait)); the transcripts are made without it.
//!
//! A preset that is marked as a *draft* follows a text that is not settled, or facts that were read
//! in secondary sources; it may change with them. The page says which.

mod adcp;
mod commerce;
mod json_rpc;
mod standards;
mod vendors;
mod words;

pub use adcp::adcp;
pub use commerce::{acp, acp_delegate_authentication, acp_mcp, ucp, ucp_mcp};
pub use json_rpc::{a2a, a2a_rest, mcp};
pub use standards::{aip155, azure, iceberg};
pub use vendors::{adyen, aws, aws_errors, paypal, square, stripe, stripe_v2};

use std::time::Duration;

use http::request::Parts;

use crate::{KeyedRequest, Statuses};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the statuses of success.
fn success() -> Statuses {
    Statuses::none().with(200..=299)
}

/// Returns method, path and query: with another target, a key or a request is another one.
fn target(parts: &Parts) -> String {
    let target = parts.uri.path_and_query();
    format!(
        "{} {}",
        parts.method,
        target.map_or("", |target| target.as_str())
    )
}

/// Makes the target part of the key.
fn by_target(request: &KeyedRequest) -> Vec<String> {
    vec![target(request.parts())]
}
