//! In the manner of AWS client tokens.

use http::StatusCode;
use serde_json::json;

use super::DAY;
use crate::{FingerprintRecipe, HttpPolicy, KeyFormat, KeySource, Markers, ProblemType};

/// Behaves in the manner of AWS services with a client token, over JSON. **Draft**: details differ
/// between services.
///
/// `member` is the pointer of the token in the body: `/ClientToken`, `/clientToken`,
/// `/ClientRequestToken`. It is optional, at most 64 characters, and upper and lower case differ.
/// All other parameters are compared; another request with the token is
/// `IdempotentParameterMismatch`, `400`. Success is stored for 24 hours.
///
/// Source: [Ensuring idempotency in Amazon EC2 API requests](https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html).
/// Parameters in the query or in a form are not read.
///
#[doc = include_str!("aws.md")]
#[must_use]
pub fn aws(member: &str) -> HttpPolicy {
    HttpPolicy::ietf()
        .with_key_source(KeySource::member(member))
        .with_key_format(KeyFormat::any().with_length(1..=64))
        .with_fingerprint(FingerprintRecipe::request().without_member(member))
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_kept_statuses(super::success())
        .with_markers(Markers::none())
        .with_retention(DAY)
        .with_refusals(|refusal| {
            let kind = match refusal.kind() {
                ProblemType::KeyReused => "IdempotentParameterMismatch",
                ProblemType::RequestInFlight => "ConflictException",
                ProblemType::StoreUnavailable => "ServiceUnavailableException",
                kind if super::is_of_the_client(kind) => "ValidationException",
                _ => "InternalServerException",
            };
            refusal.json(&json!({"__type": kind, "message": refusal.detail()}))
        })
}
