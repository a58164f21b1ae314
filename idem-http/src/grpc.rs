//! Keys of gRPC calls, which travel as metadata.
//!
//! A gRPC response has its status in trailers, which the layer does not store: it lets such
//! responses pass through. A method that is to run once asks the engine itself:
//!
//! 1. [`key`] reads `idempotency-key` from the metadata: with tonic,
//!    `request.metadata().clone().into_headers()`;
//! 2. [`Idempotency::run_with`](idem_core::Idempotency::run_with) or
//!    [`run_response`](idem_core::Idempotency::run_response) with the encoded reply runs the work;
//! 3. [`code`] turns what went wrong into a status code.
//!
//! `examples/tonic` is a server and a client that do.

use http::HeaderMap;
use idem_core::{ErrorKind, RunError};

use crate::{IDEMPOTENCY_KEY, IdempotencyKey, KeyError, KeyForm};

/// `INVALID_ARGUMENT`, also for a key that is malformed or missing.
pub const INVALID_ARGUMENT: i32 = 3;
/// `ABORTED`: being worked on; to be sent again, unchanged and after a pause.
pub const ABORTED: i32 = 10;
/// `INTERNAL`.
pub const INTERNAL: i32 = 13;
/// `UNAVAILABLE`: to be sent again.
pub const UNAVAILABLE: i32 = 14;
/// `DATA_LOSS`: handled before, without an answer that could be given again.
pub const DATA_LOSS: i32 = 15;

/// The key in a call's metadata, quoted or bare; `None` when there is none.
///
/// # Errors
///
/// [`KeyError`] says what is wrong with it; answer [`INVALID_ARGUMENT`].
pub fn key(metadata: &HeaderMap) -> Result<Option<IdempotencyKey>, KeyError> {
    IdempotencyKey::from_headers(metadata, &IDEMPOTENCY_KEY, KeyForm::Lenient)
}

/// The gRPC status code of a run without an answer; `None` for the work's own error, and where the
/// work has run and its value only was not stored: answer with that.
#[must_use]
pub fn code<E, T>(error: &RunError<E, T>) -> Option<i32> {
    match error {
        RunError::Work(_) | RunError::NotStored { .. } => None,
        RunError::Conflict(_) => Some(INVALID_ARGUMENT),
        RunError::InFlight(_) => Some(ABORTED),
        RunError::Failed(_) => Some(DATA_LOSS),
        RunError::Store(error) if error.kind() == ErrorKind::Contention => Some(ABORTED),
        RunError::Store(error) if error.is_retryable() => Some(UNAVAILABLE),
        _ => Some(INTERNAL),
    }
}
