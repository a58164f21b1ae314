//! Texts of PostgreSQL, which Babelfish passes on where SQL Server has no number for an error.
//!
//! From <https://www.postgresql.org/docs/current/errcodes-appendix.html> and PostgreSQL's sources.
//! The argument for each effect is that of the SQLSTATE behind it.

use idem_core::backend::{Codes, error_codes};

/// In the order of the search; the first match counts.
pub(super) const TEXTS: Codes<&str> = error_codes! {
    Contention None SERIALIZATION_FAILURE =>
        "a concurrent transaction got in the way; repeat the whole transaction";
    Contention None ["due to lock timeout", "could not obtain lock"] =>
        "a lock was not free in time";
    Misconfigured None UNKNOWN => "the server does not know the statement; see `ClaimMethod`";
    Misconfigured None [
        "authentication failed", "no pg_hba.conf entry", "not permitted to log in",
    ] =>
        "the server refused the user, the password or the database";
    Misconfigured None [
        "does not exist", "violates not-null", "violates check", "violates foreign key",
    ] =>
        "the table is missing or of another version; run `migrate()` or the printed schema, and \
         check schema and table names";
    Misconfigured None ["permission denied", "must be owner"] =>
        "the user lacks a permission; grant SELECT, INSERT, UPDATE and DELETE on the table";
    Unavailable None READ_ONLY =>
        "the server only reads; connect to the primary";
    // These come at the login, before any statement.
    Unavailable None [
        "system is starting up", "in recovery mode", "not yet accepting connections",
        "not accepting connections", "too many clients", "too many connections",
        "connection slots are reserved",
    ] =>
        "the server takes no connections for now: it starts, recovers or is full";
    // The statement was cancelled, and with it what it had done.
    Unavailable None ["canceling statement"] =>
        "the server cancelled the statement: a time-out of its own, a person, or a standby's \
         recovery";
    Unavailable None [
        "No space left", "disk full", "out of memory", "out of shared memory",
        "could not extend file",
    ] =>
        "the server is out of a resource: disk, memory or locks";
    Unavailable None ["cached plan must not change"] =>
        "the table was changed while the statement was kept; try again";
    // The session was ended, perhaps after its commit.
    Unavailable Unknown ["terminating connection", "shutting down"] =>
        "the server is shutting down or has crashed";
    Corrupt None ["out of range"] =>
        "a record's fencing token cannot grow any more; somebody wrote a token from outside, or a \
         server's clock was wrong by far: delete the record, or set its token to one of now, when \
         no holder of the key is left";
    Corrupt Unknown ["invalid page in block", "could not read block"] =>
        "the server reports corruption";
    Other None ["current transaction is aborted"] =>
        "the transaction has failed before; repeat it as a whole";
};

const SERIALIZATION_FAILURE: [&str; 2] = ["could not serialize access", "deadlock detected"];

pub(super) const READ_ONLY: [&str; 2] = ["read-only transaction", "during recovery"];

const UNKNOWN: [&str; 3] = [
    "not currently supported",
    "syntax error",
    "missing FROM-clause entry",
];

pub(super) fn is_serialization_failure(message: &str) -> bool {
    SERIALIZATION_FAILURE
        .iter()
        .any(|text| message.contains(text))
}

pub(super) fn is_unknown(message: &str) -> bool {
    UNKNOWN.iter().any(|text| message.contains(text))
}
