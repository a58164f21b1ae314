//! OASIS Repeatable Requests, and Azure's use of them.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::json;

use crate::{
    FingerprintRecipe, FirstSent, HttpPolicy, KeyFormat, KeySource, Markers, ProblemType, Refusal,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("repeatability-request-id");
const FIRST_SENT: HeaderName = HeaderName::from_static("repeatability-first-sent");
const CLIENT_ID: HeaderName = HeaderName::from_static("repeatability-client-id");
const RESULT: HeaderName = HeaderName::from_static("repeatability-result");

/// Follows OASIS Repeatable Requests 1.0.
///
/// A request carries `Repeatability-Request-ID`, upper and lower case being the same, and
/// `Repeatability-First-Sent`, an HTTP date; one without the other is `400`. A request that was
/// first sent before the window, which is the retention, is `412`. `Repeatability-Client-ID` is
/// part of the key. Method, path, query, body and all headers except the two ids, `Date` and those
/// of the connection are compared; another request with the key is `400`. Every answer has
/// `Repeatability-Result`: `accepted`, or `rejected` with a refusal. On routes that cannot support
/// it, set [`Requirement::Unsupported`](crate::Requirement::Unsupported): a request with a key
/// gets `501`.
///
/// Clients whose headers change between attempts, such as a renewed `Authorization`, need a recipe
/// that leaves those out: see [`azure`].
///
/// Source: [`odata-repeatable-requests`](https://docs.oasis-open.org/odata/repeatable-requests/v1.0/repeatable-requests-v1.0.html),
/// sections 3 to 8. Not there: batches and the deletion of ids.
///
#[doc = include_str!("oasis.md")]
#[must_use]
pub fn oasis() -> HttpPolicy {
    let key = KeySource::header(REQUEST_ID).with_first_sent(FirstSent::header(FIRST_SENT));
    HttpPolicy::ietf()
        .with_key_source(key)
        .with_key_format(KeyFormat::any().ignoring_case())
        .with_key_space(|request| {
            let clients = request.parts().headers.get_all(CLIENT_ID).iter();
            // Byte by byte, so that other bytes are another client.
            let lower = |client: &HeaderValue| {
                let bytes = client.as_bytes().iter();
                bytes
                    .map(|byte| char::from(byte.to_ascii_lowercase()))
                    .collect()
            };
            let clients: Vec<String> = clients.map(lower).collect();
            match clients.is_empty() {
                true => vec![String::new()],
                false => clients,
            }
        })
        // The ids are part of the key, where case does not count.
        .with_fingerprint(FingerprintRecipe::request().with_headers_except([REQUEST_ID, CLIENT_ID]))
        .with_status(ProblemType::KeyReused, StatusCode::BAD_REQUEST)
        .with_markers(Markers::none().with_result(
            RESULT,
            HeaderValue::from_static("accepted"),
            HeaderValue::from_static("rejected"),
        ))
        .with_refusals(refuse)
}

/// Follows Azure's use of [`oasis`]: `POST` only, a window of 5 minutes at least, and headers are
/// not compared.
///
/// Source: [`Guidelines.md`](https://github.com/microsoft/api-guidelines/blob/vNext/azure/Guidelines.md),
/// "Repeatability of requests", and the repeatable requests of Azure Communication Services.
///
#[doc = include_str!("azure.md")]
#[must_use]
pub fn azure() -> HttpPolicy {
    oasis()
        .with_methods([Method::POST])
        .with_fingerprint(FingerprintRecipe::request())
        .with_min_lifetime(Duration::from_secs(5 * 60))
}

fn refuse(refusal: &Refusal<'_>) -> http::Response<bytes::Bytes> {
    let code = match refusal.kind() {
        ProblemType::KeyMissing | ProblemType::KeyMalformed => "InvalidRepeatabilityHeaders",
        ProblemType::KeyReused => "RepeatabilityRequestMismatch",
        ProblemType::KeyExpired => "RepeatabilityWindowExpired",
        ProblemType::KeyUnsupported => "RepeatabilityNotSupported",
        ProblemType::RequestInFlight => "RepeatableRequestInProgress",
        ProblemType::StoreUnavailable => "ServiceUnavailable",
        kind if super::is_of_the_client(kind) => "BadRequest",
        _ => "InternalServerError",
    };
    refusal.json(&json!({"error": {"code": code, "message": refusal.detail()}}))
}
