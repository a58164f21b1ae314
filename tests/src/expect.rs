//! Checks of answers, which fail the case.

use idem_core::{
    CheckpointStore, Claim, ClaimOutcome, Completed, Conflict, Effect, Error, ErrorKind, Failed,
    IdempotencyStore, InFlight, Key, Record, RecordAdmin, WatermarkStore,
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

/// Returns the checkpoints of a store whose profile promises them.
pub(crate) fn points(store: &dyn IdempotencyStore) -> CaseResult<&dyn CheckpointStore> {
    let points = store.checkpoints();
    points.ok_or_else(|| CaseError::new("checkpoints are promised, but `checkpoints` gives none"))
}

/// Returns the watermarks of a store whose profile promises them.
pub(crate) fn marks(store: &dyn IdempotencyStore) -> CaseResult<&dyn WatermarkStore> {
    let marks = store.watermarks();
    marks.ok_or_else(|| CaseError::new("watermarks are promised, but `watermarks` gives none"))
}

/// Returns the lists and forced steps of a store whose profile promises them.
pub(crate) fn admin(store: &dyn IdempotencyStore) -> CaseResult<&dyn RecordAdmin> {
    let admin = store.admin();
    admin.ok_or_else(|| CaseError::new("`admin` is promised, but gives none"))
}

/// Returns the position and the text of a key, escaped; of a long one, the end of each part.
pub(crate) fn named(at: usize, key: &Key) -> String {
    let part = |text: &str| {
        let escaped = text.escape_debug().to_string();
        let skipped = escaped.chars().count().saturating_sub(40);
        let dots = if skipped == 0 { "" } else { "…" };
        format!(
            "{dots}{}",
            escaped.chars().skip(skipped).collect::<String>()
        )
    };
    let parts = [key.scope(), key.operation(), key.id()].map(part);
    format!("key {at} (\"{}\")", parts.join("\", \""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_named_by_its_escaped_text() {
        let key = Key::new("a\u{202e}b", "o", format!("{}\"end", "x".repeat(99))).unwrap();
        let dots = format!("…{}\\\"end", "x".repeat(35));
        let expected = format!(r#"key 3 ("a\u{{202e}}b", "o", "{dots}")"#);
        assert_eq!(named(3, &key), expected);
    }
}
