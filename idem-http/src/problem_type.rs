//! [`ProblemType`]: the type of a problem.

use http::StatusCode;

/// The type of a problem (RFC 9457) with which the layer refuses a request.
///
/// | `type` | status | when |
/// | --- | --- | --- |
/// | `urn:idem:problem:key-missing` | 400 | the route requires a key |
/// | `urn:idem:problem:key-malformed` | 400 | the key is not valid, or there are two; the detail gives the reason and quotes nothing |
/// | `urn:idem:problem:key-reused` | 422 | the key belongs to another request |
/// | `urn:idem:problem:key-expired` | 410, 412 for an old first attempt | the answer is forgotten, and the request may have been handled: see [`with_tombstone`](crate::HttpPolicy::with_tombstone) and [`FirstSent`](crate::FirstSent) |
/// | `urn:idem:problem:key-unsupported` | 501 | the route does not support keys, and the request has one |
/// | `urn:idem:problem:request-in-flight` | 409, `Retry-After` | the first request is in progress after the [wait](crate::HttpPolicy::with_wait) (`Retry-After` grows with the age of the key), or an open transaction holds the key for longer than the engine's policy waits; also on an open route |
/// | `urn:idem:problem:too-early` | 425, whatever the policy says | the request has a key and `Early-Data`: it may be repeated by others until the handshake has ended (RFC 8470) |
/// | `urn:idem:problem:request-too-large` | 413 | the body is over the limit |
/// | `urn:idem:problem:request-unreadable` | 400 | the body ended with an error |
/// | `urn:idem:problem:scope-unknown` | 403, or 401 with a challenge | the request has no scope: the caller is not known |
/// | `urn:idem:problem:response-not-stored` | 410 | the request was handled and its response not stored; a retry will not get it either |
/// | `urn:idem:problem:outcome-unknown` | 500 | the request was begun and recorded as panicked, failed or abandoned, and must not be handled again; or its record cannot be read; 503 with `Retry-After` where the answer to a [commit](crate::IdempotencyLayer::in_transactions) was lost |
/// | `urn:idem:problem:store-unavailable` | 503, `Retry-After` | the store is unreachable (an open route handles the request instead) |
/// | `urn:idem:problem:misconfigured` | 500 | a scope or an operation is not valid in a key, the store is misconfigured, or a key to decrypt records is missing; the log says more |
///
/// A problem means that nothing ran for this request, or that what ran was rolled back. An earlier one with the same key may have run.
///
/// The body is `application/problem+json` with `type`, `title`, `status` and `detail`. With a
/// `Retry-After` it also has `retryAfter`, in seconds. If the policy names a page, it has
/// `documentation`, and the response a `Link` with `rel="describedby"`. The extensions of the
/// response carry this type. A policy may change the status
/// ([`with_status`](crate::HttpPolicy::with_status)) or word refusals in another way
/// ([`with_refusals`](crate::HttpPolicy::with_refusals)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemType {
    /// The route requires a key and there is none: `400`.
    KeyMissing,
    /// The key is not valid: `400`.
    KeyMalformed,
    /// The key was used for another request: `422`.
    KeyReused,
    /// The key's answer is forgotten, and the request may have been handled: `410`, or `412`.
    KeyExpired,
    /// The route does not support keys: `501`.
    KeyUnsupported,
    /// The request with this key is in progress, or an open transaction holds the key: `409` with
    /// `Retry-After`.
    RequestInFlight,
    /// A key came in the early data of a TLS connection (RFC 8470): `425`.
    TooEarly,
    /// The request's body is over the limit: `413`.
    RequestTooLarge,
    /// The request's body ended with an error: `400`.
    RequestUnreadable,
    /// The caller is not known: `403`, or `401` with a challenge.
    ScopeUnknown,
    /// The request was handled, and its response was not stored: `410`. It is not handled again.
    ResponseNotStored,
    /// The request was begun, and its end was recorded as a final failure or cannot be read: `500`.
    OutcomeUnknown,
    /// The store is unreachable, so nothing ran for this request: `503` with `Retry-After`.
    StoreUnavailable,
    /// The server is misconfigured, so nothing ran for this request: `500`.
    Misconfigured,
}

impl ProblemType {
    /// All types.
    pub const ALL: [Self; 14] = [
        Self::KeyMissing,
        Self::KeyMalformed,
        Self::KeyReused,
        Self::KeyExpired,
        Self::KeyUnsupported,
        Self::RequestInFlight,
        Self::TooEarly,
        Self::RequestTooLarge,
        Self::RequestUnreadable,
        Self::ScopeUnknown,
        Self::ResponseNotStored,
        Self::OutcomeUnknown,
        Self::StoreUnavailable,
        Self::Misconfigured,
    ];

    /// Returns the `type` of the problem. It never changes.
    #[must_use]
    pub const fn uri(self) -> &'static str {
        match self {
            Self::KeyMissing => "urn:idem:problem:key-missing",
            Self::KeyMalformed => "urn:idem:problem:key-malformed",
            Self::KeyReused => "urn:idem:problem:key-reused",
            Self::KeyExpired => "urn:idem:problem:key-expired",
            Self::KeyUnsupported => "urn:idem:problem:key-unsupported",
            Self::RequestInFlight => "urn:idem:problem:request-in-flight",
            Self::TooEarly => "urn:idem:problem:too-early",
            Self::RequestTooLarge => "urn:idem:problem:request-too-large",
            Self::RequestUnreadable => "urn:idem:problem:request-unreadable",
            Self::ScopeUnknown => "urn:idem:problem:scope-unknown",
            Self::ResponseNotStored => "urn:idem:problem:response-not-stored",
            Self::OutcomeUnknown => "urn:idem:problem:outcome-unknown",
            Self::StoreUnavailable => "urn:idem:problem:store-unavailable",
            Self::Misconfigured => "urn:idem:problem:misconfigured",
        }
    }

    /// Returns the default status, which the policy may change.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyMalformed | Self::RequestUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RequestInFlight => StatusCode::CONFLICT,
            Self::TooEarly => StatusCode::TOO_EARLY,
            Self::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ScopeUnknown => StatusCode::FORBIDDEN,
            Self::ResponseNotStored | Self::KeyExpired => StatusCode::GONE,
            Self::KeyUnsupported => StatusCode::NOT_IMPLEMENTED,
            Self::OutcomeUnknown | Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
            Self::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the `title` of the problem.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "Idempotency-Key is missing",
            Self::KeyMalformed => "Idempotency-Key is malformed",
            Self::KeyReused => "Idempotency-Key is already used",
            Self::KeyExpired => "Idempotency-Key has expired",
            Self::KeyUnsupported => "Idempotency-Key is not supported",
            Self::RequestInFlight => "A request is outstanding for this Idempotency-Key",
            Self::TooEarly => "The request came too early",
            Self::RequestTooLarge => "The request is too large",
            Self::RequestUnreadable => "The request could not be read",
            Self::ScopeUnknown => "The caller is not known",
            Self::ResponseNotStored => "The response is not available any more",
            Self::OutcomeUnknown => "The outcome is not known",
            Self::StoreUnavailable => "Idempotency keys cannot be checked now",
            Self::Misconfigured => "Idempotency keys are set up wrongly",
        }
    }
}
