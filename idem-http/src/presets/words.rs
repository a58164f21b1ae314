//! The words of each protocol for refusals, and the shapes of its errors.

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

use crate::ProblemType::{
    KeyExpired, KeyMalformed, KeyMissing, KeyReused, KeyUnsupported, RequestInFlight,
    StoreUnavailable,
};
use crate::{HttpPolicy, ProblemType, Refusal};

/// A word and a second one, such as a type and a code; the second may be empty.
pub(super) type Pair = [&'static str; 2];

/// The words by kind of refusal, with `/` between the two.
pub(super) struct Words {
    by_kind: &'static [(ProblemType, &'static str)],
    /// For other faults of the client, who has to change the request.
    of_client: &'static str,
    of_server: &'static str,
}

impl Words {
    pub(super) fn of(&self, kind: ProblemType) -> Pair {
        let mut by_kind = self.by_kind.iter().filter(|(of, _)| *of == kind);
        let words = match by_kind.next() {
            Some((_, words)) => *words,
            None if kind.status().is_client_error() => self.of_client,
            None => self.of_server,
        };
        words.split_once('/').unwrap_or((words, "")).into()
    }
}

/// Words the refusals of a policy so, in this shape.
pub(super) fn worded(
    policy: HttpPolicy,
    words: &'static Words,
    shape: impl Fn(&Refusal<'_>, Pair) -> Response<Bytes> + Send + Sync + 'static,
) -> HttpPolicy {
    policy.with_refusals(move |refusal| shape(refusal, words.of(refusal.kind())))
}

pub(super) static ACP: Words = Words {
    by_kind: &[
        (KeyMissing, "invalid_request/idempotency_key_required"),
        (KeyReused, "invalid_request/idempotency_conflict"),
        (RequestInFlight, "invalid_request/idempotency_in_flight"),
        (StoreUnavailable, "service_unavailable/service_unavailable"),
    ],
    of_client: "invalid_request/invalid",
    of_server: "processing_error/processing_error",
};

/// The error of ACP, which may have no further members.
pub(super) fn acp(refusal: &Refusal<'_>, [kind, code]: Pair) -> Value {
    let message = match refusal.kind() {
        KeyMissing => "Idempotency-Key header is required on all POST requests",
        KeyReused => "This Idempotency-Key has already been used with a different request body",
        RequestInFlight => "A request with this Idempotency-Key is currently being processed",
        _ => refusal.detail(),
    };
    json!({"type": kind, "code": code, "message": message})
}

pub(super) static UCP: Words = Words {
    by_kind: &[
        (KeyMissing, "idempotency_key_required"),
        (KeyMalformed, "idempotency_key_invalid"),
        (KeyReused, "idempotency_conflict"),
        (RequestInFlight, "idempotency_in_flight"),
        (StoreUnavailable, "service_unavailable"),
    ],
    of_client: "invalid_request",
    of_server: "internal_error",
};

/// A code, and whether a client may repair the request. A conflict says nothing else, so that it
/// does not help to guess keys.
pub(super) static ADCP: Words = Words {
    by_kind: &[
        (KeyMissing, "VALIDATION_ERROR/correctable"),
        (KeyMalformed, "VALIDATION_ERROR/correctable"),
        (KeyReused, "IDEMPOTENCY_CONFLICT"),
        (KeyExpired, "IDEMPOTENCY_EXPIRED/correctable"),
        (RequestInFlight, "IDEMPOTENCY_IN_FLIGHT/transient"),
        (StoreUnavailable, "SERVICE_UNAVAILABLE/transient"),
    ],
    of_client: "INVALID_REQUEST/correctable",
    of_server: "SERVICE_UNAVAILABLE/terminal",
};

pub(super) static RPC: Words = Words {
    by_kind: &[
        (KeyReused, "idempotency_key_conflict"),
        (RequestInFlight, "idempotency_key_in_progress"),
        (KeyMissing, "idempotency_key_required"),
        (KeyMalformed, "idempotency_key_invalid"),
        (StoreUnavailable, "idempotency_unavailable"),
    ],
    of_client: "idempotency_error",
    of_server: "idempotency_error",
};

pub(super) fn rpc(refusal: &Refusal<'_>, [kind, _]: Pair) -> Response<Bytes> {
    let code = match refusal.kind() {
        KeyMissing | KeyMalformed => -32602,
        KeyReused | RequestInFlight | StoreUnavailable => -32000,
        _ => -32603,
    };
    let mut data = json!({"type": kind});
    if let Some(seconds) = refusal.retry_after() {
        data["retry_after"] = seconds.into();
    }
    refusal.json_rpc(code, refusal.detail(), &data)
}

pub(super) static AZURE: Words = Words {
    by_kind: &[
        (KeyMissing, "InvalidRepeatabilityHeaders"),
        (KeyMalformed, "InvalidRepeatabilityHeaders"),
        (KeyReused, "RepeatabilityRequestMismatch"),
        (KeyExpired, "RepeatabilityWindowExpired"),
        (KeyUnsupported, "RepeatabilityNotSupported"),
        (RequestInFlight, "RepeatableRequestInProgress"),
        (StoreUnavailable, "ServiceUnavailable"),
    ],
    of_client: "BadRequest",
    of_server: "InternalServerError",
};

pub(super) fn azure(refusal: &Refusal<'_>, [code, _]: Pair) -> Response<Bytes> {
    refusal.json(&json!({"error": {"code": code, "message": refusal.detail()}}))
}

pub(super) static ICEBERG: Words = Words {
    by_kind: &[
        (KeyReused, "IdempotencyKeyConflictException"),
        (RequestInFlight, "IdempotencyKeyInProgressException"),
        (StoreUnavailable, "ServiceUnavailableException"),
    ],
    of_client: "BadRequestException",
    of_server: "InternalServerError",
};

pub(super) fn iceberg(refusal: &Refusal<'_>, [kind, _]: Pair) -> Response<Bytes> {
    let code = refusal.status().as_u16();
    refusal.json(&json!({"error": {"message": refusal.detail(), "type": kind, "code": code}}))
}

pub(super) static GOOGLE: Words = Words {
    by_kind: &[
        (RequestInFlight, "ABORTED"),
        (StoreUnavailable, "UNAVAILABLE"),
        (KeyUnsupported, "UNIMPLEMENTED"),
    ],
    of_client: "INVALID_ARGUMENT",
    of_server: "INTERNAL",
};

/// The form of `google.rpc.Status`.
pub(super) fn google(refusal: &Refusal<'_>, [status, _]: Pair) -> Response<Bytes> {
    let code = refusal.status().as_u16();
    let error = json!({"code": code, "message": refusal.detail(), "status": status});
    refusal.json(&json!({"error": error}))
}

pub(super) static STRIPE: Words = Words {
    by_kind: &[
        (KeyReused, "idempotency_error"),
        (KeyMalformed, "idempotency_error"),
        (
            RequestInFlight,
            "invalid_request_error/idempotency_key_in_use",
        ),
    ],
    of_client: "invalid_request_error",
    of_server: "api_error",
};

pub(super) fn stripe(refusal: &Refusal<'_>, [kind, code]: Pair) -> Response<Bytes> {
    let mut error = json!({"type": kind, "message": refusal.detail()});
    if !code.is_empty() {
        error["code"] = code.into();
    }
    refusal.json(&json!({"error": error}))
}

pub(super) static SQUARE: Words = Words {
    by_kind: &[
        (KeyReused, "INVALID_REQUEST_ERROR/IDEMPOTENCY_KEY_REUSED"),
        (
            KeyMissing,
            "INVALID_REQUEST_ERROR/MISSING_REQUIRED_PARAMETER",
        ),
        (RequestInFlight, "API_ERROR/CONFLICT"),
        (StoreUnavailable, "API_ERROR/SERVICE_UNAVAILABLE"),
    ],
    of_client: "INVALID_REQUEST_ERROR/BAD_REQUEST",
    of_server: "API_ERROR/INTERNAL_SERVER_ERROR",
};

pub(super) fn square(refusal: &Refusal<'_>, [category, code]: Pair) -> Response<Bytes> {
    let mut error = json!({"category": category, "code": code, "detail": refusal.detail()});
    if matches!(refusal.kind(), KeyReused | KeyMissing | KeyMalformed) {
        error["field"] = "idempotency_key".into();
    }
    refusal.json(&json!({"errors": [error]}))
}

pub(super) static PAYPAL: Words = Words {
    by_kind: &[
        (KeyMissing, "INVALID_REQUEST/PAYPAL_REQUEST_ID_REQUIRED"),
        (KeyReused, "UNPROCESSABLE_ENTITY/DUPLICATE_REQUEST_ID"),
        (
            RequestInFlight,
            "RESOURCE_CONFLICT/PREVIOUS_REQUEST_IN_PROGRESS",
        ),
        (StoreUnavailable, "SERVICE_UNAVAILABLE/SERVICE_UNAVAILABLE"),
    ],
    of_client: "INVALID_REQUEST/INVALID_REQUEST_ID",
    of_server: "INTERNAL_SERVER_ERROR/INTERNAL_SERVER_ERROR",
};

pub(super) fn paypal(refusal: &Refusal<'_>, [name, issue]: Pair) -> Response<Bytes> {
    refusal.json(&json!({
        "name": name,
        "message": refusal.detail(),
        "details": [{"issue": issue, "description": refusal.detail()}],
    }))
}

pub(super) static ADYEN: Words = Words {
    by_kind: &[
        (RequestInFlight, "704/validation"),
        (KeyReused, "704/validation"),
    ],
    of_client: "702/validation",
    of_server: "905/internal",
};

pub(super) fn adyen(refusal: &Refusal<'_>, [code, kind]: Pair) -> Response<Bytes> {
    let mut response = refusal.json(&json!({
        "status": refusal.status().as_u16(),
        "errorCode": code,
        "message": refusal.detail(),
        "errorType": kind,
    }));
    if refusal.kind() == StoreUnavailable {
        let headers = response.headers_mut();
        headers.insert(
            super::vendors::TRANSIENT,
            http::HeaderValue::from_static("true"),
        );
    }
    response
}

pub(super) static AWS: Words = Words {
    by_kind: &[(StoreUnavailable, "ServiceUnavailableException")],
    of_client: "ValidationException",
    of_server: "InternalServerException",
};

/// JSON; for a request in a form, the XML of EC2 (botocore's `parsers.py`, `EC2QueryParser`).
pub(super) fn aws(refusal: &Refusal<'_>, name: &str) -> Response<Bytes> {
    let is_form = |request: &crate::KeyedRequest| crate::media::is_form(&request.parts().headers);
    if !refusal.request().is_some_and(is_form) {
        return refusal.json(&json!({"__type": name, "message": refusal.detail()}));
    }
    let detail = refusal.detail().replace('&', "&amp;").replace('<', "&lt;");
    let error = format!("<Error><Code>{name}</Code><Message>{detail}</Message></Error>");
    let xml = format!("<Response><Errors>{error}</Errors></Response>");
    refusal.response("text/xml;charset=UTF-8", xml)
}
