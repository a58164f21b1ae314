//! The server's codes: what each means for the caller, whether the statement may have had an
//! effect, and what to do.
//!
//! A code comes with a failed command (`ok: 0`), a failed write, or a write concern error. The
//! effect of a write concern error is always unknown, because the write is on the primary: see
//! [`crate::error`]. Labels are checked before codes.
//!
//! Codes: <https://www.mongodb.com/docs/manual/reference/error-codes/> and
//! <https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml>. Which of them
//! drivers repeat:
//! <https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md>.

use idem_core::backend::{Codes, Meaning, error_codes};
use idem_core::{Effect, ErrorKind};

pub(crate) const DUPLICATE_KEY: i32 = 11000;
pub(crate) const WRITE_CONFLICT: i32 = 112;
pub(crate) const MAX_TIME_EXPIRED: i32 = 50;
pub(crate) const WRITE_CONCERN_TIMEOUT: i32 = 64;

pub(crate) const NO_TRANSACTIONS: Meaning = (
    ErrorKind::Misconfigured,
    Effect::None,
    "the deployment has no transactions: a standalone server; make it a replica set of one",
);

const NOT_KNOWN: &str =
    "the server does not know a command or operator of MongoDB 5.0; run `verify()`, which names it";

const CODES: Codes<i32> = error_codes! {
    // DuplicateKey, and its name before 4.0: the unique index refused the document.
    Contention None [DUPLICATE_KEY, 11001, 12582] => "the key was claimed at the same time (11000)";
    // WriteConflict; LockTimeout of a transaction; PreparedTransactionInProgress: the server has
    // undone the statement.
    Contention None [WRITE_CONFLICT, 24, 267] =>
        "a concurrent write or transaction got in the way (112, 24, 267)";
    // SnapshotTooOld, SnapshotUnavailable, TransactionAborted,
    // TransactionExceededLifetimeLimitSeconds, TransactionCoordinatorReachedAbortDecision: the
    // transaction is aborted, or its first read failed.
    Contention None [239, 246, 244, 290, 283] =>
        "the server has ended the transaction (239, 246, 244, 290, 283), perhaps because it took \
         too long; repeat the whole transaction";
    // NoSuchTransaction, TransactionTooOld, TransactionCoordinatorSteppingDown: for a commit they
    // do not say whether an earlier try succeeded. Where the server knows that it did not, they
    // carry a label.
    Contention Unknown [251, 225, 282] =>
        "the server knows the transaction no more (251, 225, 282); repeat the whole transaction \
         with the same key";
    // TransactionCommitted: for a statement or an abort after a commit whose answer was lost.
    Contention Unknown [256] =>
        "the transaction was committed before (256); repeat the whole transaction with the same \
         key";
    // MaxTimeMSExpired, ExceededTimeLimit, Interrupted, ClientDisconnect, CursorKilled,
    // QueryPlanKilled: the statement ended at an unknown moment; a retried one may follow one that
    // succeeded.
    Unavailable Unknown [MAX_TIME_EXPIRED, 262, 11601, 279, 237, 175] =>
        "the server stopped the statement because it took too long, or somebody did (50, 262, \
         11601, 279, 237, 175)";
    // CursorNotFound: only for reads whose cursor was lost in a failover or a restart.
    Unavailable None [43] => "the server has lost the cursor of a read (43)";
    // WriteConcernFailed: the primary has the write.
    Unavailable Unknown [WRITE_CONCERN_TIMEOUT] =>
        "not enough members confirmed the write in time (64)";
    // NoReplicationEnabled, UnknownReplWriteConcern, UnsatisfiableWriteConcern: reported after the
    // write.
    Misconfigured Unknown [75, 76, 79, 100] =>
        "the write concern cannot be met by this deployment (76, 79, 100)";
    // ShutdownInProgress, PrimarySteppedDown, NotWritablePrimary, InterruptedAtShutdown,
    // InterruptedDueToReplStateChange, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary,
    // LegacyNotPrimary: the write may precede the change; writes that only the old primary had may
    // be rolled back or not.
    Unavailable Unknown [91, 189, 10107, 11600, 11602, 13435, 13436, 10058] =>
        "the member is shutting down, or is primary no longer or not yet";
    // HostUnreachable, HostNotFound, NetworkTimeout, SocketException,
    // NetworkInterfaceExceededTimeLimit, ConnectionPoolExpired, ConnectionError,
    // PooledConnectionsDropped: between a mongos and a shard, which may have done the write.
    Unavailable Unknown [6, 7, 89, 9001, 202, 317, 384] =>
        "the server lost its connection to another one (6, 7, 89, 9001, 202, 317, 384)";
    // FailedToSatisfyReadPreference, ReadConcernMajorityNotAvailableYet, NotYetInitialized: a
    // mongos has no primary, or a member has just started. A mongos also answers 133 to the second
    // try of a statement.
    Unavailable Unknown [133, 134, 94] =>
        "no primary is known, or the member has just started (133, 134, 94)";
    // StaleShardVersion, StaleConfig, StaleEpoch, StaleDbVersion, ShardNotFound, MigrationConflict,
    // ConflictingOperationInProgress, LockBusy, ObjectIsBusy: chunks are moving, or the collection
    // is being changed.
    Unavailable Unknown [63, 13388, 150, 249, 70, 117, 46, 314] =>
        "chunks of the collection are being moved, or it is being changed (63, 13388, 150, 249, \
         70, 117, 46, 314)";
    // ExceededMemoryLimit, QueryExceededMemoryLimitNoDiskUseAllowed, TooManyLogicalSessions,
    // OutOfDiskSpace, and 16500, with which Azure Cosmos DB limits rates.
    Unavailable Unknown [146, 292, 261, 14031, 16500] =>
        "the server is out of memory, sessions, disk space or rate (146, 292, 261, 14031, 16500)";
    // IngressRequestRateLimitExceeded: refused before the server read it.
    Unavailable None [462] => "the server is overloaded and refuses requests (462)";
    // ReauthenticationRequired: the connection's token has expired, which the server checks before
    // it runs a statement.
    Unavailable None [391] => "the connection has to authenticate anew (391)";
    // Unauthorized, AuthenticationFailed, UserNotFound, MechanismUnavailable, AtlasError (how Atlas
    // proxies refuse users): checked before a statement runs.
    Misconfigured None [13, 18, 11, 334, 8000] =>
        "the user may not do this (13, 18, 11, 334, 8000); grant readWrite on the database";
    // IllegalOperation (as a standalone server answers), OperationNotSupportedInTransaction.
    Misconfigured None [20, 263] => NO_TRANSACTIONS.2;
    // NamespaceNotFound, IndexNotFound, NamespaceExists, IndexOptionsConflict,
    // IndexKeySpecsConflict, CommandNotSupportedOnView: checked before the server changes anything.
    Misconfigured None [26, 27, 48, 85, 86, 166] =>
        "the collection or an index is missing or not this crate's; run `migrate()` or the printed \
         commands";
    // CannotGrowDocumentInCappedNamespace: found by the write, which the server undoes.
    Misconfigured None [10003] =>
        "the collection is capped (10003); give the store one that is not";
    // CommandNotFound, FailedToParse, unknown pipeline stages and operators,
    // InvalidPipelineOperator, CommandNotSupported: the server does not understand the statement,
    // so it does not run it.
    Misconfigured None [59, 9, 40324, 31325, 168, 115] => NOT_KNOWN;
    // BSONObjectTooLarge, and the codes of updates for the same: the document is not written.
    InvalidInput None [10334, 17419, 17420] =>
        "the record would be larger than 16 MB; lower the limits";
    // KeyTooLong, of servers before 4.2 and some compatible ones: neither the index entry nor the
    // document is written.
    Misconfigured None [17280] =>
        "the server limits index entries to 1,024 bytes (17280); MongoDB 5.0 or later is needed \
         for long keys";
    // DocumentValidationFailure: the document is not written.
    Misconfigured None [121] => "a validator of the collection refuses the record (121); remove it";
};

/// Returns the meaning of a code. A statement with an unlisted code may have had an effect.
pub(crate) fn by_code(code: i32) -> Meaning {
    CODES.find(|&listed| listed == code).unwrap_or((
        ErrorKind::Other,
        Effect::Unknown,
        "the server refused the statement; see the source for its code",
    ))
}

/// Returns whether a server that is compatible with MongoDB may so refuse what it lacks: as MongoDB
/// does, or with a code of its own, such as 303 of Amazon DocumentDB.
pub(crate) fn is_not_known(code: i32) -> bool {
    matches!(by_code(code), (ErrorKind::Other, ..) | (.., NOT_KNOWN))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use Effect::{None, Unknown};
    use ErrorKind::{Contention, InvalidInput, Misconfigured, Other, Unavailable};

    #[test]
    fn codes_are_classified() {
        let expected: &[(&[i32], ErrorKind, Effect)] = &[
            (
                &[11000, 112, 24, 267, 246, 239, 244, 290, 283],
                Contention,
                None,
            ),
            (&[251, 225, 282, 256], Contention, Unknown),
            (&[50, 262, 11601, 64], Unavailable, Unknown),
            (
                &[91, 189, 10107, 10058, 11600, 11602, 13435, 13436],
                Unavailable,
                Unknown,
            ),
            (
                &[6, 7, 89, 9001, 202, 317, 384, 133, 134],
                Unavailable,
                Unknown,
            ),
            (&[63, 13388, 249, 46, 314, 237, 175], Unavailable, Unknown),
            (&[146, 292, 14031, 16500], Unavailable, Unknown),
            (&[43, 391, 462], Unavailable, None),
            (&[79, 100], Misconfigured, Unknown),
            (
                &[13, 18, 8000, 20, 263, 26, 48, 86, 59, 121, 10003, 17280],
                Misconfigured,
                None,
            ),
            (&[10334], InvalidInput, None),
            (&[1, -1, 0, 8, 96, i32::MAX], Other, Unknown),
        ];
        for (codes, kind, effect) in expected {
            for code in *codes {
                let (found, found_effect, message) = by_code(*code);
                assert_eq!((found, found_effect), (*kind, *effect), "{code}");
                assert!(!message.is_empty());
            }
        }
    }

    #[test]
    fn no_code_is_listed_twice() {
        let mut seen = HashSet::new();
        for code in CODES.all() {
            assert!(seen.insert(code), "{code}");
        }
    }
}
