//! Apache Iceberg's REST catalog.

use http::StatusCode;
use serde_json::json;

use crate::{HttpPolicy, KeyFormat, Markers, ProblemType, Statuses};

/// Follows the REST catalog of Apache Iceberg 1.11.
///
/// The key is optional, a UUID of version 7. `2xx` and final `4xx` are stored, `409` among them;
/// `403`, `419`, `5xx` and [client errors that may pass](crate::Statuses::without_transient), such as
/// `401`, are not. Replays have no marker. Errors have the form
/// `{"error":{"message","type","code"}}`.
///
/// Publish [`Lifetime::iso8601`](crate::Lifetime::iso8601) as `idempotency-key-lifetime` in `GET
/// /v1/config`: clients send keys only then. Catalogs should wait for a request in flight: set
/// [`BusyPolicy::Wait`](idem_core::BusyPolicy::Wait) in the engine's policy. After the wait it is
/// `503`, never `409`: clients take that for a commit that failed, and delete its files.
///
/// Source: [`rest-catalog-open-api.yaml`](https://github.com/apache/iceberg/blob/main/open-api/rest-catalog-open-api.yaml),
/// `parameters/idempotency-key`. Where it is silent: a key that was used for another request gets
/// `422`, as from Apache Polaris; `401`, `403` and `419` are not stored, as in Apache Gravitino.
///
#[doc = include_str!("iceberg.md")]
#[must_use]
pub fn iceberg() -> HttpPolicy {
    let stored = Statuses::none().with(200..=299).with(400..=499);
    let stored = stored.without_transient();
    let stored = stored.without(403..=403).without(419..=419);
    HttpPolicy::ietf()
        .with_key_format(KeyFormat::uuid_version(7))
        .with_status(
            ProblemType::RequestInFlight,
            StatusCode::SERVICE_UNAVAILABLE,
        )
        .with_kept_statuses(stored)
        .with_markers(Markers::none())
        .with_refusals(|refusal| {
            let kind = match refusal.kind() {
                ProblemType::KeyReused => "IdempotencyKeyConflictException",
                ProblemType::RequestInFlight => "IdempotencyKeyInProgressException",
                ProblemType::StoreUnavailable => "ServiceUnavailableException",
                kind if super::is_of_the_client(kind) => "BadRequestException",
                _ => "InternalServerError",
            };
            let code = refusal.status().as_u16();
            refusal.json(&json!({
                "error": {"message": refusal.detail(), "type": kind, "code": code},
            }))
        })
}
