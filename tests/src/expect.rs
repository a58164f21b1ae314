//! Checks of answers, which fail the case.

use idem_core::{
    Claim, ClaimOutcome, Completed, Conflict, Effect, Error, ErrorKind, Failed, InFlight, Record,
};

use crate::failure::ensure_eq;
use crate::{CaseError, CaseResult};

macro_rules! outcome {
    ($($(#[$doc:meta])* $name:ident: $variant:ident -> $type:ty),+ $(,)?) => {$(
        $(#[$doc])*
        #[track_caller]
        pub(crate) fn $name(outcome: ClaimOutcome) -> CaseResult<$type> {
            match outcome {
                ClaimOutcome::$variant(value) => Ok(value),
                other => Err(unexpected(stringify!($variant), other.name())),
            }
        }
    )+};
}

outcome! {
    /// The claim was acquired.
    acquired: Acquired -> Claim,
    /// Another caller holds the key.
    in_flight: InFlight -> InFlight,
    /// The stored response was replayed.
    completed: Completed -> Completed,
    /// The stored failure was replayed.
    failed: Failed -> Failed,
    /// The key belongs to another request.
    conflict: Conflict -> Conflict,
}

#[track_caller]
fn unexpected(wanted: &str, got: &str) -> CaseError {
    let at = std::panic::Location::caller();
    CaseError::new(format!(
        "wanted {wanted}, got {got} ({}:{})",
        at.file(),
        at.line()
    ))
}

/// Checks that there is a record.
#[track_caller]
pub(crate) fn record(record: Option<Record>) -> CaseResult<Record> {
    record.ok_or_else(|| unexpected("a record", "none"))
}

/// Checks that the operation was refused with this kind, and reports no effect.
#[track_caller]
pub(crate) fn refused<T>(result: Result<T, Error>, kind: ErrorKind) -> CaseResult<Error> {
    let at = std::panic::Location::caller();
    let Err(error) = result else {
        return Err(unexpected(&format!("{kind:?}"), "success"));
    };
    if error.kind() != kind {
        return Err(unexpected(&format!("{kind:?}"), &format!("{error:?}")));
    }
    ensure_eq!(error.effect(), Effect::None, "effect of {error} at {at}");
    Ok(error)
}

/// Checks that the claim is no longer held.
#[track_caller]
pub(crate) fn lost<T>(result: Result<T, Error>) -> CaseResult<Error> {
    refused(result, ErrorKind::ClaimLost)
}

/// Returns the record without the instant of its read.
pub(crate) fn unobserved(record: Option<Record>) -> Option<Record> {
    record.map(|mut record| {
        let info = match &mut record {
            Record::InFlight(InFlight { info, .. })
            | Record::Completed(Completed { info, .. })
            | Record::Failed(Failed { info, .. }) => info,
        };
        info.observed_at = idem_core::Timestamp::default();
        record
    })
}
