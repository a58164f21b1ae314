//! In the manner of AWS client tokens.

use http::{HeaderName, StatusCode};
use serde_json::json;

use super::DAY;
use crate::{HttpPolicy, KeyFormat, KeySource, Markers, ProblemType};

/// Behaves in the manner of AWS services with a client token, over JSON. **Draft**: details differ
/// between services.
///
/// `member` is the pointer of the token in the body: `/ClientToken`, `/clientToken`,
/// `/ClientRequestToken`. A parameter of the query of that name will do, also with a small first
/// letter, and so will a field of a form, as EC2's clients send it; services that take a header need
/// another [`KeySource`]. It is optional, at most 128 characters (many services take 64), and upper
/// and lower case differ. `X-Amz-Target`, the operation, is part of the key. All other parameters
/// are compared; another request with the token is `IdempotentParameterMismatch`, `400`; one in
/// flight is `TransactionInProgressException`, `409`, after which SDKs try again. A service with
/// other names words them by [`with_refusals`](HttpPolicy::with_refusals). Success is stored for 24
/// hours.
///
/// Source: [Ensuring idempotency in Amazon EC2 API requests](https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html).
///
#[doc = include_str!("aws.md")]
#[must_use]
pub fn aws(member: &str) -> HttpPolicy {
    let name = member.trim_start_matches('/');
    let mut camel = name.to_owned();
    if let Some(first) = camel.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    let source = KeySource::member(member)
        .or(KeySource::query(name))
        .or(KeySource::query(&camel))
        .or(KeySource::form(name));
    HttpPolicy::ietf()
        .with_key_source(source)
        .with_key_format(KeyFormat::any().with_length(1..=128))
        .with_key_headers([HeaderName::from_static("x-amz-target")])
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_kept_statuses(super::success())
        .with_markers(Markers::none())
        .with_retention(DAY)
        .with_refusals(|refusal| {
            let kind = match refusal.kind() {
                ProblemType::KeyReused => "IdempotentParameterMismatch",
                // Of the names with which SDKs retry, whatever the status (botocore's
                // `retries/standard.py`), the one of a conflict.
                ProblemType::RequestInFlight => "TransactionInProgressException",
                ProblemType::StoreUnavailable => "ServiceUnavailableException",
                kind if super::is_of_the_client(kind) => "ValidationException",
                _ => "InternalServerException",
            };
            refusal.json(&json!({"__type": kind, "message": refusal.detail()}))
        })
}
