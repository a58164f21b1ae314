//! Public standards over REST.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode};

use super::success;
use super::words::{self, worded};
use crate::{FirstSent, HttpPolicy, KeyFormat, KeySource, Markers, ProblemType, Statuses};

const REQUEST_ID: HeaderName = HeaderName::from_static("repeatability-request-id");
const FIRST_SENT: HeaderName = HeaderName::from_static("repeatability-first-sent");
const CLIENT_ID: HeaderName = HeaderName::from_static("repeatability-client-id");
const RESULT: HeaderName = HeaderName::from_static("repeatability-result");

/// Follows Azure's use of OASIS Repeatable Requests 1.0.
///
/// A `POST` may carry `Repeatability-Request-ID`, whose case does not count, and
/// `Repeatability-First-Sent`, an HTTP date. A date without an id is `400`. A request that was first
/// sent before the window is `412`. The window is the retention;
/// [`IdempotencyLayer::verify`](crate::IdempotencyLayer::verify) refuses one under 5 minutes. Some of
/// Azure's clients, such as `azure-communication-chat`, send no date. Their repeats get `412` for 10
/// minutes after the retention, then run again.
///
/// `Repeatability-Client-ID` is part of the key. Method, path, query and body are compared; another
/// request with the key is `400`. The answer to a `POST` with an id has `Repeatability-Result`:
/// `accepted`, or `rejected` with a refusal. On routes that cannot support it, set
/// [`Requirement::Unsupported`](crate::Requirement::Unsupported): a request with a key gets `501`.
///
/// OASIS itself compares all headers. No preset does so: clients that date each attempt anew could
/// never repeat a request. Batches and the deletion of ids are not supported.
///
/// Source: [`Guidelines.md`](https://github.com/microsoft/api-guidelines/blob/vNext/azure/Guidelines.md),
/// "Repeatability of requests", the repeatable requests of Azure Communication Services, and
/// [`odata-repeatable-requests`](https://docs.oasis-open.org/odata/repeatable-requests/v1.0/repeatable-requests-v1.0.html),
/// sections 3 to 8.
///
#[doc = include_str!("azure.md")]
#[must_use]
pub fn azure() -> HttpPolicy {
    let first_sent = FirstSent::header(FIRST_SENT).optional();
    let policy = HttpPolicy::ietf()
        .with_key_source(KeySource::header(REQUEST_ID).with_first_sent(first_sent))
        .with_key_format(KeyFormat::any().ignoring_case())
        .with_methods([Method::POST])
        .with_key_space(|request| {
            let clients = request.parts().headers.get_all(CLIENT_ID).iter();
            // Other bytes are another client.
            let ids = clients.map(|client| client.as_bytes().escape_ascii().to_string());
            ids.map(|id| id.to_ascii_lowercase()).collect()
        })
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_markers(Markers::none().with_result(
            RESULT,
            HeaderValue::from_static("accepted"),
            HeaderValue::from_static("rejected"),
        ))
        .with_min_lifetime(Duration::from_secs(5 * 60));
    worded(policy, &words::AZURE, words::azure)
}

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
    let policy = HttpPolicy::ietf()
        .with_key_format(KeyFormat::uuid_version(7))
        .with_status(
            ProblemType::RequestInFlight,
            StatusCode::SERVICE_UNAVAILABLE,
        )
        .with_kept_statuses(stored.without(403..=403).without(419..=419))
        .with_markers(Markers::none());
    worded(policy, &words::ICEBERG, words::iceberg)
}

/// Follows AIP-155 for methods over HTTP and JSON. **Draft**: it is guidance, and leaves the errors
/// open.
///
/// The body may have `request_id` or, as the REST clients write it, `requestId`, a UUID; the query may
/// have it instead. Success is stored; a replay may also be the resource's current state:
/// [`with_replay_hook`](HttpPolicy::with_replay_hook). Errors have the form of
/// `google.rpc.Status`. Another request with the id is `400 INVALID_ARGUMENT`, one in flight `409
/// ABORTED`. For gRPC, read the field of the message with
/// [`IdempotencyKey::from_text`](crate::IdempotencyKey::from_text): see [`grpc`](crate::grpc).
///
/// Source: [google.aip.dev/155](https://google.aip.dev/155).
///
#[doc = include_str!("aip155.md")]
#[must_use]
pub fn aip155() -> HttpPolicy {
    let policy = HttpPolicy::ietf()
        .with_key_source(
            KeySource::member("/request_id")
                .or(KeySource::member("/requestId"))
                .or(KeySource::query("request_id"))
                .or(KeySource::query("requestId")),
        )
        .with_key_format(KeyFormat::uuid())
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_kept_statuses(success())
        .with_markers(Markers::none());
    worded(policy, &words::GOOGLE, words::google)
}
