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
//! | [`oasis`], [`azure`] | `Repeatability-Request-ID` and `-First-Sent` | `400` | `409` | 2xx and final 4xx |
//! | [`stripe`] | `Idempotency-Key` of `POST`, optional | `400 idempotency_error` | `409` | all but `400`, `403`, `409` and passing 4xx |
//! | [`square`] | `/idempotency_key`, required | `400 IDEMPOTENCY_KEY_REUSED` | `409` | 2xx |
//! | [`paypal`] | `PayPal-Request-Id`, optional | `422 DUPLICATE_REQUEST_ID` | `409` | 2xx |
//! | [`adyen`] | `Idempotency-Key` of `POST`, optional | `422` | `409`, `704` | unless `403` or `transient-error` |
//! | [`aws`] | `ClientToken` or the like, in the body, a form or the query | `400 IdempotentParameterMismatch` | `409` | 2xx |
//! | [`aip155`] | `/request_id` or `requestId`, also in the query, a UUID, optional | `400 INVALID_ARGUMENT` | `409 ABORTED` | 2xx |
//! | [`mcp`], [`acp_mcp`], [`ucp_mcp`], [`a2a`] | in the JSON-RPC call | an error of the call | an error of the call | see there |
//!
//! A request in flight is refused after a wait for its answer, 3 s by default
//! ([`with_wait`](crate::HttpPolicy::with_wait)); the transcripts are made without it.
//!
//! A preset that is marked as a *draft* follows a text that is not settled, or facts that were read
//! in secondary sources; it may change with them. The page says which.

mod acp;
mod adcp;
mod adyen;
mod aws;
mod google;
mod iceberg;
mod json_rpc;
mod oasis;
mod paypal;
mod square;
mod stripe;
mod ucp;

pub use acp::{acp, acp_delegate_authentication, acp_mcp};
pub use adcp::adcp;
pub use adyen::adyen;
pub use aws::aws;
pub use google::aip155;
pub use iceberg::iceberg;
pub use json_rpc::{a2a, mcp};
pub use oasis::{azure, oasis};
pub use paypal::paypal;
pub use square::square;
pub use stripe::stripe;
pub use ucp::{ucp, ucp_mcp};

use std::time::Duration;

use crate::{ProblemType, Statuses};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns the statuses of success.
fn success() -> Statuses {
    Statuses::none().with(200..=299)
}

/// Whether the fault is the client's: it has to change the request.
fn is_of_the_client(kind: ProblemType) -> bool {
    kind.status().is_client_error()
}
