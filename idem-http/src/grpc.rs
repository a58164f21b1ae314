//! Keys of gRPC calls, which travel as metadata.
//!
//! A gRPC response has its status in trailers, which the layer does not store, so the layer passes
//! such responses through. A method that has to run once calls the engine itself:
//!
//! 1. [`key`] reads `idempotency-key` from the metadata: with tonic,
//!    `request.metadata().clone().into_headers()`; [`key_or_field`] also takes a field of the
//!    message, such as the `request_id` of AIP-155;
//! 2. [`Idempotency::run_with`](idem_core::Idempotency::run_with) or
//!    [`run_response`](idem_core::Idempotency::run_response) with the encoded reply runs the work;
//! 3. [`code`] turns the error of a run into a status code.
//!
//! The program `grpc` of `idem-examples` is a server and a client.

use http::HeaderMap;
use idem_core::{ErrorKind, RunError};

use crate::{IDEMPOTENCY_KEY, IdempotencyKey, KeyError, KeyForm};

/// `INVALID_ARGUMENT`: the request is invalid, or its key is malformed or missing.
pub const INVALID_ARGUMENT: i32 = 3;
/// `ABORTED`: the request is in progress; send it again, unchanged and after a pause.
pub const ABORTED: i32 = 10;
/// `INTERNAL`.
pub const INTERNAL: i32 = 13;
/// `UNAVAILABLE`: send the request again.
pub const UNAVAILABLE: i32 = 14;
/// `DATA_LOSS`: the request was handled before, and its response was not stored or cannot be read.
pub const DATA_LOSS: i32 = 15;

/// Returns the key in a call's metadata, quoted or bare; `None` when there is none.
///
/// # Errors
///
/// [`KeyError`] says why the key is invalid; answer [`INVALID_ARGUMENT`].
pub fn key(metadata: &HeaderMap) -> Result<Option<IdempotencyKey>, KeyError> {
    IdempotencyKey::from_headers(metadata, &IDEMPOTENCY_KEY, KeyForm::Lenient)
}

/// Returns the key in a call's metadata, or in this field of its message; `None` when there is
/// neither. An empty field is no key, as everywhere in Protocol Buffers.
///
/// # Errors
///
/// [`KeyError`] says why the key is invalid, or that the two differ; answer [`INVALID_ARGUMENT`].
pub fn key_or_field(metadata: &HeaderMap, field: &str) -> Result<Option<IdempotencyKey>, KeyError> {
    let field = match field {
        "" => None,
        text => Some(IdempotencyKey::from_text(text)?),
    };
    match (key(metadata)?, field) {
        (Some(sent), Some(field)) if sent != field => Err(KeyError::Different),
        (sent, field) => Ok(sent.or(field)),
    }
}

/// Returns the gRPC status code of a run without a response. Returns `None` for the work's own
/// error, and when the work has run and only its value was not stored: answer with that error or
/// value.
#[must_use]
pub fn code<E, T>(error: &RunError<E, T>) -> Option<i32> {
    match error {
        RunError::Work(_) | RunError::NotStored { .. } => None,
        RunError::Conflict(_) => Some(INVALID_ARGUMENT),
        RunError::InFlight(_) => Some(ABORTED),
        RunError::Failed(_) | RunError::Codec(_) => Some(DATA_LOSS),
        RunError::Store(error) if error.kind() == ErrorKind::Corrupt => Some(DATA_LOSS),
        RunError::Store(error) if error.kind() == ErrorKind::Contention => Some(ABORTED),
        RunError::Store(error) if error.is_retryable() => Some(UNAVAILABLE),
        _ => Some(INTERNAL),
    }
}
