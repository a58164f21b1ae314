//! [`ProblemType`]: what a problem is about.

use http::StatusCode;

/// The type of a problem (RFC 9457), with which the layer refuses a request.
///
/// | `type` | status | when |
/// | --- | --- | --- |
/// | `urn:idem:problem:key-missing` | 400 | the route requires a key |
/// | `urn:idem:problem:key-malformed` | 400 | the header is no key, or occurs twice; the detail gives the reason and quotes nothing |
/// | `urn:idem:problem:key-reused` | 422, or as the policy says | the key belongs to another request |
/// | `urn:idem:problem:request-in-flight` | 409, `Retry-After` | the first request is in progress (`Retry-After` is the end of its lease), or an open transaction holds the key for longer than the engine's policy waits; also on an open route |
/// | `urn:idem:problem:request-too-large` | 413 | the body is over the limit |
/// | `urn:idem:problem:request-unreadable` | 400 | the body ended with an error |
/// | `urn:idem:problem:scope-unknown` | 403, or 401 with a challenge | the request has no scope: the caller is not known |
/// | `urn:idem:problem:response-not-stored` | 410 | the request was handled and its response not stored; a retry will not get it either |
/// | `urn:idem:problem:outcome-unknown` | 500 | the request was begun and recorded as panicked, failed or abandoned; it must not be handled again |
/// | `urn:idem:problem:store-unavailable` | 503, `Retry-After` | the store cannot be reached (an open route handles the request instead), or the server is shutting down |
/// | `urn:idem:problem:misconfigured` | 500 | a scope or an operation is no part of a key, or the store is not set up; the log says more |
///
/// A problem means that nothing ran for this request, except while the server shuts down: then the
/// retry shows the truth.
///
/// The body is `application/problem+json` with `type`, `title`, `status` and `detail`; `retryAfter`
/// in seconds where there is a `Retry-After`; `documentation`, and a `Link` with
/// `rel="describedby"`, if the policy names a page. The extensions of the response carry this type,
/// so that a layer outside can word the problem in another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemType {
    /// The route requires a key and there is none: `400`.
    KeyMissing,
    /// The header is no key: `400`.
    KeyMalformed,
    /// The key was used for another request: `422`, or as the policy says.
    KeyReused,
    /// The request with this key is being worked on, or a transaction that is still open holds it:
    /// `409` with `Retry-After`.
    RequestInFlight,
    /// The request's body is over the limit: `413`.
    RequestTooLarge,
    /// The request's body could not be read to its end: `400`.
    RequestUnreadable,
    /// Nobody is known on whose behalf the request is made: `403`, or `401` with a challenge.
    ScopeUnknown,
    /// The request was handled, and its response was not stored: `410`. It is not handled again.
    ResponseNotStored,
    /// Handling the request was begun and given up, and that was recorded as final: `500`.
    OutcomeUnknown,
    /// The store cannot be reached, so nothing was done: `503` with `Retry-After`.
    StoreUnavailable,
    /// The server is set up wrongly, so nothing was done: `500`.
    Misconfigured,
}

impl ProblemType {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::KeyMissing,
        Self::KeyMalformed,
        Self::KeyReused,
        Self::RequestInFlight,
        Self::RequestTooLarge,
        Self::RequestUnreadable,
        Self::ScopeUnknown,
        Self::ResponseNotStored,
        Self::OutcomeUnknown,
        Self::StoreUnavailable,
        Self::Misconfigured,
    ];

    /// The `type` of the problem. It never changes.
    #[must_use]
    pub const fn uri(self) -> &'static str {
        match self {
            Self::KeyMissing => "urn:idem:problem:key-missing",
            Self::KeyMalformed => "urn:idem:problem:key-malformed",
            Self::KeyReused => "urn:idem:problem:key-reused",
            Self::RequestInFlight => "urn:idem:problem:request-in-flight",
            Self::RequestTooLarge => "urn:idem:problem:request-too-large",
            Self::RequestUnreadable => "urn:idem:problem:request-unreadable",
            Self::ScopeUnknown => "urn:idem:problem:scope-unknown",
            Self::ResponseNotStored => "urn:idem:problem:response-not-stored",
            Self::OutcomeUnknown => "urn:idem:problem:outcome-unknown",
            Self::StoreUnavailable => "urn:idem:problem:store-unavailable",
            Self::Misconfigured => "urn:idem:problem:misconfigured",
        }
    }

    /// The status that it has unless the policy says otherwise.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyMalformed | Self::RequestUnreadable => {
                StatusCode::BAD_REQUEST
            }
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::RequestInFlight => StatusCode::CONFLICT,
            Self::RequestTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::ScopeUnknown => StatusCode::FORBIDDEN,
            Self::ResponseNotStored => StatusCode::GONE,
            Self::OutcomeUnknown | Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
            Self::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The `title` of the problem.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::KeyMissing => "Idempotency-Key is missing",
            Self::KeyMalformed => "Idempotency-Key is malformed",
            Self::KeyReused => "Idempotency-Key is already used",
            Self::RequestInFlight => "A request is outstanding for this Idempotency-Key",
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
