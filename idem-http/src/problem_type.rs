//! [`ProblemType`]: what a problem is about.

use http::StatusCode;

/// What a problem (RFC 9457) that the layer answers with is about.
///
/// It is also left in the extensions of the response, for services around the layer that word problems in their
/// own way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemType {
    /// The route requires a key and there is none: `400`.
    KeyMissing,
    /// The header is no key: `400`.
    KeyMalformed,
    /// The key was used for another request: `422`, or as the policy says.
    KeyReused,
    /// The request with this key is being worked on, or a transaction that is still open holds it: `409` with
    /// `Retry-After`.
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
