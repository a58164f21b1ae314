//! DuckDB's errors: what a caller does next, and whether a statement with this error may have had
//! an effect.
//!
//! The driver has no codes. Each text begins with the type of the error,
//! <https://duckdb.org/docs/stable/clients/c/api#duckdb_error_type>.
//!
//! A statement that fails is rolled back. So is a transaction whose commit finds a conflict, before
//! anything is written to the log. After any other error of a commit the log may be written or not,
//! so the effect is unknown then, as it is for every text that is not listed.

use idem_core::backend::{Codes, Meaning, error_codes};
use idem_core::{Effect, ErrorKind};

/// The beginnings of texts. The first row that has one counts.
const TEXTS: Codes<&str> = error_codes! {
    // Two transactions have written a row or created a table; or a statement follows one of these
    // errors in its transaction.
    Contention None [
        "TransactionContext Error: Conflict",
        "TransactionContext Error: Catalog write-write conflict",
        "TransactionContext Error: Transaction conflict",
        "TransactionContext Error: Current transaction is aborted",
        "TransactionContext Error: Failed to commit: PRIMARY KEY or UNIQUE constraint violation",
        "TransactionContext Error: Failed to commit: write-write conflict",
        "TransactionContext Error: write-write conflict"] =>
        "a concurrent transaction has written the same row (DuckDB's transactions are optimistic); \
         ask again, in a transaction all of it";
    // The store's inserts resolve conflicts with the rows that they see. So the row was committed
    // after the beginning of this transaction.
    Contention None ["Constraint Error: Duplicate key"] =>
        "a concurrent transaction has inserted the same key; ask again, in a transaction all of it";
    Unavailable Unknown ["TransactionContext Error: Failed to commit"] =>
        "DuckDB could not write the commit; see the source";
    Misconfigured None ["Catalog Error", "Binder Error"] =>
        "the table is missing or of another version; run `migrate()` or the printed schema";
    Misconfigured None ["Constraint Error", "Conversion Error", "Mismatch Type Error"] =>
        "the table refuses the store's rows: it has a constraint or a column type that is not the \
         store's; `verify()` compares";
    // Another process has the file open.
    Contention None ["IO Error: Could not set lock on file"] =>
        "another process has the database file open, and DuckDB lets one process write; ask again \
         when it has ended";
    Misconfigured None ["IO Error: Cannot open file", "IO Error: Cannot open database",
        "IO Error: The file", "Permission Error",
        "Invalid Input Error: Cannot execute statement"] =>
        "the file cannot be opened or written, or is no database of DuckDB; check the path and the \
         permissions, and that its folder exists";
    Unavailable None ["INTERRUPT Error", "Interrupt Error"] =>
        "the statement was interrupted; ask again";
    Unavailable Unknown ["Out of Memory Error"] => "no memory is left for DuckDB (`memory_limit`)";
    Unavailable Unknown ["IO Error"] => "the disk failed or is full";
    // The instance takes no statements any more.
    Unavailable Unknown ["FATAL Error", "INTERNAL Error"] =>
        "DuckDB has stopped after an error that it cannot repair; restart the process";
    Corrupt Unknown ["Serialization Error"] => "the file is damaged or of a later DuckDB";
    InvalidInput None ["Out of Range Error"] => "a value is larger than DuckDB holds";
};

/// Returns the meaning of an error's text.
pub(crate) fn by_text(text: &str) -> Meaning {
    let found = TEXTS.find(|beginning| text.starts_with(beginning));
    found.unwrap_or((
        ErrorKind::Other,
        Effect::Unknown,
        "DuckDB refused the statement; see the source for its text",
    ))
}

/// Returns whether the text says that the whole transaction has to be repeated. A duplicate key is
/// no such text: in a caller's own table it may be there for good.
pub(crate) fn is_conflict(text: &str) -> bool {
    text.starts_with("TransactionContext Error") && by_text(text).0 == ErrorKind::Contention
}
