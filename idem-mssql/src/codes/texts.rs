//! Texts of PostgreSQL, which Babelfish passes on where SQL Server has no number for an error.
//!
//! From <https://www.postgresql.org/docs/current/errcodes-appendix.html> and PostgreSQL's sources.
//! The argument for each effect is that of the SQLSTATE behind it.

use idem_core::ErrorKind::{Contention, Corrupt, Misconfigured, Other, Unavailable};
use idem_core::{Effect, ErrorKind};

use super::Meaning;

/// In the order of the search; the first match counts.
const TEXTS: &[(ErrorKind, Effect, &str, &[&str])] = &[
    (
        Contention,
        Effect::None,
        "a concurrent transaction got in the way; repeat the whole transaction",
        SERIALIZATION_FAILURE,
    ),
    (
        Contention,
        Effect::None,
        "a lock was not free in time",
        &["due to lock timeout", "could not obtain lock"],
    ),
    (
        Misconfigured,
        Effect::None,
        "the server does not know the statement; see `ClaimMethod`",
        UNKNOWN,
    ),
    (
        Misconfigured,
        Effect::None,
        "the server refused the user, the password or the database",
        &[
            "authentication failed",
            "no pg_hba.conf entry",
            "not permitted to log in",
        ],
    ),
    (
        Misconfigured,
        Effect::None,
        "the table is missing or of another version; run `migrate()` or the printed schema, and check schema and \
         table names",
        &[
            "does not exist",
            "violates not-null",
            "violates check",
            "violates foreign key",
        ],
    ),
    (
        Misconfigured,
        Effect::None,
        "the user lacks a permission; grant SELECT, INSERT, UPDATE and DELETE on the table",
        &["permission denied", "must be owner"],
    ),
    (
        Unavailable,
        Effect::None,
        "the server only reads; connect to the primary",
        &["read-only transaction", "during recovery"],
    ),
    // These come at the login, before any statement.
    (
        Unavailable,
        Effect::None,
        "the server takes no connections for now: it starts, recovers or is full",
        &[
            "system is starting up",
            "in recovery mode",
            "not yet accepting connections",
            "not accepting connections",
            "too many clients",
            "too many connections",
            "connection slots are reserved",
        ],
    ),
    // The statement was cancelled, and with it what it had done.
    (
        Unavailable,
        Effect::None,
        "the server cancelled the statement: a time-out of its own, a person, or a standby's recovery",
        &["canceling statement"],
    ),
    (
        Unavailable,
        Effect::None,
        "the server is out of a resource: disk, memory or locks",
        &[
            "No space left",
            "disk full",
            "out of memory",
            "out of shared memory",
            "could not extend file",
        ],
    ),
    (
        Unavailable,
        Effect::None,
        "the table was changed while the statement was kept; try again",
        &["cached plan must not change"],
    ),
    // The session was ended, perhaps after its commit.
    (
        Unavailable,
        Effect::Unknown,
        "the server is shutting down or has crashed",
        &["terminating connection", "shutting down"],
    ),
    (
        Corrupt,
        Effect::None,
        "a record's fencing token cannot grow any more; somebody wrote a token from outside, or a server's clock was \
         wrong by far: delete the record, or set its token to one of now, when no holder of the key is left",
        &["out of range"],
    ),
    (
        Corrupt,
        Effect::Unknown,
        "the server reports corruption",
        &["invalid page in block", "could not read block"],
    ),
    (
        Other,
        Effect::None,
        "the transaction has failed before; repeat it as a whole",
        &["current transaction is aborted"],
    ),
];

const SERIALIZATION_FAILURE: &[&str] = &["could not serialize access", "deadlock detected"];

const UNKNOWN: &[&str] = &[
    "not currently supported",
    "syntax error",
    "missing FROM-clause entry",
];

/// Returns the meaning of a text; `None` for a text that is not in the table.
pub(super) fn meaning(message: &str) -> Option<Meaning> {
    let mut texts = TEXTS.iter();
    let &(kind, effect, meaning, _) = texts.find(|(.., texts)| has(message, texts))?;
    Some((kind, effect, meaning))
}

pub(super) fn is_serialization_failure(message: &str) -> bool {
    has(message, SERIALIZATION_FAILURE)
}

pub(super) fn is_unknown(message: &str) -> bool {
    has(message, UNKNOWN)
}

fn has(message: &str, texts: &[&str]) -> bool {
    texts.iter().any(|text| message.contains(text))
}
