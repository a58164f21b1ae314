//! The meaning of the driver's and the server's errors for the caller.

pub(crate) use idem_core::backend::Access;
use std::error::Error as StdError;

use idem_core::backend::Meaning;
use idem_core::{Effect, Error, ErrorKind};
use mongodb::bson::Document;
use mongodb::error::{
    Error as MongoError, ErrorKind as MongoKind, NO_WRITES_PERFORMED, RETRYABLE_WRITE_ERROR,
    SYSTEM_OVERLOADED_ERROR, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT,
    WriteFailure,
};

use crate::codes::{
    DUPLICATE_KEY, MAX_TIME_EXPIRED, NO_TRANSACTIONS, WRITE_CONCERN_TIMEOUT, WRITE_CONFLICT,
    by_code,
};

/// Converts the driver's error, and keeps it as the source except when it quotes the key.
pub(crate) fn classify(error: MongoError, sent: Access) -> Error {
    let (kind, effect, message) = meaning(&error);
    let harmless = sent == Access::Read || error.contains_label(NO_WRITES_PERFORMED);
    let effect = if harmless { Effect::None } else { effect };
    let classified = Error::new(kind, effect, message);
    if code(&error) == Some(DUPLICATE_KEY) {
        return classified;
    }
    classified.with_source(error)
}

fn meaning(error: &MongoError) -> Meaning {
    match meaning_of_kind(error) {
        // Labels that newer servers add to unlisted codes.
        (ErrorKind::Other, effect, _) if error.contains_label(SYSTEM_OVERLOADED_ERROR) => {
            (ErrorKind::Unavailable, effect, "the server is overloaded")
        }
        (ErrorKind::Other, effect, _) if error.contains_label(RETRYABLE_WRITE_ERROR) => (
            ErrorKind::Unavailable,
            effect,
            "the server could not do the write for a moment's reason",
        ),
        meaning => meaning,
    }
}

fn meaning_of_kind(error: &MongoError) -> Meaning {
    use ErrorKind::{Corrupt, InvalidInput, Misconfigured, Other, Unavailable};
    if let Some(meaning) = by_label(error) {
        return meaning;
    }
    match &*error.kind {
        MongoKind::Command(error) => by_code(error.code),
        MongoKind::Write(WriteFailure::WriteError(error)) => by_code(error.code),
        // The write is on the primary; it is unknown whether it stays there.
        MongoKind::Write(WriteFailure::WriteConcernError(error)) => {
            let (kind, _, message) = by_code(error.code);
            (kind, Effect::Unknown, message)
        }
        // The driver reports these three only if it has sent nothing: after a try whose answer was
        // lost, it reports the error of that try (retryable writes).
        MongoKind::ServerSelection { .. } | MongoKind::DnsResolve { .. } => (
            Unavailable,
            Effect::None,
            "no suitable server was found in time: none runs, none is primary, or the address is wrong",
        ),
        MongoKind::ConnectionPoolCleared { .. } => (
            Unavailable,
            Effect::None,
            "the connections to the server were closed because one of them failed",
        ),
        MongoKind::Authentication { .. } => (
            Misconfigured,
            Effect::None,
            "the server refused user, password or mechanism; correct them in the URL (`authSource` names the \
             database of the users)",
        ),
        MongoKind::Io(_) => (
            Unavailable,
            Effect::Unknown,
            "the connection to the server was lost",
        ),
        MongoKind::Shutdown => (Misconfigured, Effect::None, "the client has been shut down"),
        MongoKind::InvalidTlsConfig { .. } => (
            Misconfigured,
            Effect::None,
            "the TLS settings cannot be used; see the source",
        ),
        MongoKind::InvalidArgument { .. } => (
            Misconfigured,
            Effect::None,
            "the driver refused an argument; see the source",
        ),
        MongoKind::IncompatibleServer { .. } => (
            Misconfigured,
            Effect::None,
            "the server is too old or too new for the driver; MongoDB 5.0 or later is needed",
        ),
        MongoKind::SessionsNotSupported | MongoKind::Transaction { .. } => (
            Misconfigured,
            Effect::None,
            "no transaction can run: the deployment has none (a standalone server; make it a replica set of \
             one), or none was started on the session",
        ),
        MongoKind::BsonSerialization(_) => (InvalidInput, Effect::None, "a value cannot be sent"),
        MongoKind::Bson(_)
        | MongoKind::BsonDeserialization(_)
        | MongoKind::InvalidResponse { .. } => (
            Corrupt,
            Effect::Unknown,
            "the server's answer makes no sense",
        ),
        _ => (Other, Effect::Unknown, "the driver failed; see the source"),
    }
}

/// Returns the meaning of a label, which says more than the code:
/// <https://www.mongodb.com/docs/manual/core/transactions-in-applications/#transaction-error-handling>.
fn by_label(error: &MongoError) -> Option<Meaning> {
    if error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) {
        return Some((
            ErrorKind::Unavailable,
            Effect::Unknown,
            "whether the transaction was committed is not known; ask again with the same key",
        ));
    }
    error.contains_label(TRANSIENT_TRANSACTION_ERROR).then_some((
        ErrorKind::Contention,
        Effect::None,
        "the transaction failed for a moment's reason, such as a write conflict; repeat the whole transaction",
    ))
}

/// Returns the error of a deployment without transactions.
pub(crate) fn no_transactions() -> Error {
    let (kind, effect, message) = NO_TRANSACTIONS;
    Error::new(kind, effect, message)
}

/// Returns the server's code of a command, a write, or a write concern.
pub(crate) fn code(error: &MongoError) -> Option<i32> {
    match &*error.kind {
        MongoKind::Command(error) => Some(error.code),
        MongoKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        MongoKind::Write(WriteFailure::WriteConcernError(error)) => Some(error.code),
        _ => None,
    }
}

/// Returns whether a statement outside a transaction has lost a race and was undone: it may be sent
/// again at once.
pub(crate) fn is_lost_race(error: &MongoError) -> bool {
    !matches!(
        &*error.kind,
        MongoKind::Write(WriteFailure::WriteConcernError(_))
    ) && matches!(code(error), Some(DUPLICATE_KEY | WRITE_CONFLICT))
}

/// Returns whether the server ended a statement because its time (`maxTimeMS`) was over before it
/// had written. If the write is done and only its write concern timed out, the server reports that
/// beside the answer, as a write concern error:
/// <https://github.com/mongodb/specifications/blob/master/source/client-side-operations-timeout/client-side-operations-timeout.md>.
pub(crate) fn is_out_of_time(error: &MongoError) -> bool {
    let is_write_concern = matches!(
        &*error.kind,
        MongoKind::Write(WriteFailure::WriteConcernError(_))
    );
    !is_write_concern && code(error) == Some(MAX_TIME_EXPIRED)
}

/// Returns whether the document is written, but too few members confirmed it in time.
pub(crate) fn is_unconfirmed(error: &MongoError) -> bool {
    matches!(
        &*error.kind,
        MongoKind::Write(WriteFailure::WriteConcernError(error))
            if matches!(error.code, MAX_TIME_EXPIRED | WRITE_CONCERN_TIMEOUT)
    )
}

/// The same for a command with many statements, whose answer carries the error of the write concern.
pub(crate) fn is_unconfirmed_answer(answer: &Document) -> bool {
    let error = answer.get_document("writeConcernError");
    let code = error.and_then(|error| error.get_i32("code"));
    matches!(code, Ok(MAX_TIME_EXPIRED | WRITE_CONCERN_TIMEOUT))
}

/// Returns whether a statement of a transaction met a document that another transaction has
/// written.
pub(crate) fn is_write_conflict(error: &MongoError) -> bool {
    code(error) == Some(WRITE_CONFLICT)
}

/// Returns whether the caller should repeat the whole transaction after this error. That holds if
/// the error or one of its sources carries the label `TransientTransactionError`, as write
/// conflicts (112) in a transaction do. It also holds for a [`Contention`](ErrorKind::Contention)
/// of this crate.
#[must_use]
pub fn is_transaction_retryable(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<Error>()
            && error.kind() == ErrorKind::Contention
        {
            return true;
        }
        if let Some(error) = error.downcast_ref::<MongoError>() {
            return error.contains_label(TRANSIENT_TRANSACTION_ERROR);
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_connection_may_have_had_an_effect_unless_it_was_a_read() {
        let lost = || MongoError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(classify(lost(), Access::Write).effect(), Effect::Unknown);
        assert_eq!(classify(lost(), Access::Read).effect(), Effect::None);
        assert!(classify(lost(), Access::Write).is_retryable());
        assert!(classify(lost(), Access::Write).source().is_some());
        assert!(!is_transaction_retryable(&lost()));
    }

    #[test]
    fn contention_repeats_the_transaction() {
        let lost = Error::new(ErrorKind::Contention, Effect::None, "lost");
        assert!(is_transaction_retryable(&lost));
        assert!(!is_transaction_retryable(&Error::claim_lost()));
    }
}
