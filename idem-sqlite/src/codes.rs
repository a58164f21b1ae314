//! SQLite's result codes, <https://www.sqlite.org/rescode.html>: what a caller does next, and
//! whether a statement with this answer may have had an effect.
//!
//! A statement that fails is rolled back, and a commit with the answer BUSY has not happened. After
//! an error of the disk or of memory in a commit, the last frame of the write-ahead log may be
//! written or not. The next reader of the log may find the transaction in it. So the effect is
//! unknown then, as it is for every code that is not listed.

use idem_core::backend::{Codes, Meaning, error_codes};
use idem_core::{Effect, ErrorKind};

/// A code with a low byte alone stands for all extended codes of that byte that are not listed
/// themselves.
const CODES: Codes<i32> = error_codes! {
    // ERROR: the statements are correct, so a table or column is missing. Found while the statement
    // is prepared.
    Misconfigured None [1] =>
        "the table is missing or of another version; run `migrate()` or the printed schema";
    // ERROR_MISSING_COLLSEQ; MISMATCH; CONSTRAINT, which is none of the store's: the statements
    // resolve conflicts of its own keys.
    Misconfigured None [257, 20, 19] =>
        "the table refuses the store's rows: it has a constraint, a trigger or a column type that \
         is not the store's; `verify()` compares";
    // BUSY, also RECOVERY, SNAPSHOT (a reader that became a writer too late) and TIMEOUT; LOCKED,
    // only where connections share a cache.
    Contention None [5, 6] =>
        "the database is locked (SQLITE_BUSY, SQLITE_LOCKED); ask again, begin writing \
         transactions with BEGIN IMMEDIATE, or raise the busy time-out";
    // ERROR_RETRY; ERROR_SNAPSHOT; ABORT: the transaction was rolled back under the statement;
    // PROTOCOL: other connections interfered with the beginning of a read, again and again; SCHEMA:
    // another connection changes the schema faster than the statement can be prepared.
    Contention None [513, 769, 4, 15, 17] =>
        "SQLite could not run the statement in the state that it found (SQLITE_ABORT, \
         SQLITE_PROTOCOL, SQLITE_SCHEMA); ask again, in a transaction all of it";
    // PERM; READONLY, found before anything is written; CANTOPEN: the file, its log or a temporary
    // file, before anything is written; NOLFS; AUTH.
    Misconfigured None [3, 8, 14, 22, 23] =>
        "the file cannot be opened or written (SQLITE_PERM, SQLITE_READONLY, SQLITE_CANTOPEN); \
         check the path, the folder's permissions and that its folder exists, and that the \
         connection is not read-only (`mode=ro`, `query_only`)";
    Misconfigured None [1032] =>
        "the database file was renamed or deleted while it was open (SQLITE_READONLY_DBMOVED); \
         put the right file in its place and open the store anew";
    // Raised between two steps of a statement, which is rolled back; never in a commit.
    Unavailable None [9] => "the statement was interrupted (SQLITE_INTERRUPT); ask again";
    Unavailable Unknown [7, 13] =>
        "no memory or no space on the disk is left (SQLITE_NOMEM, SQLITE_FULL)";
    Unavailable Unknown [10] => "the disk failed (SQLITE_IOERR)";
    // IOERR_DATA, a page's checksum is wrong; IOERR_CORRUPTFS; CORRUPT; FORMAT; NOTADB.
    Corrupt Unknown [8202, 8458, 11, 24, 26] =>
        "the file is damaged or no SQLite database (SQLITE_CORRUPT, SQLITE_NOTADB)";
    InvalidInput None [18] => "a value is larger than SQLite holds (SQLITE_TOOBIG)";
};

/// Returns the meaning of a result code.
pub(crate) fn by_code(code: i32) -> Meaning {
    let find = |code: i32| CODES.find(|&listed| listed == code);
    find(code).or_else(|| find(code & 0xff)).unwrap_or((
        ErrorKind::Other,
        Effect::Unknown,
        "SQLite refused the statement; see the source for its code",
    ))
}

/// Returns whether the code says that another connection held a lock: the whole transaction is then
/// repeated.
pub(crate) fn is_lock(code: i32) -> bool {
    matches!(code & 0xff, 5 | 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Effect::{None, Unknown};
    use ErrorKind::{Contention, Corrupt, Misconfigured, Other, Unavailable};

    /// All codes of SQLite 3.51: primary codes and the extended codes of each.
    const PRIMARY: std::ops::RangeInclusive<i32> = 1..=28;
    const EXTENDED: &[(i32, std::ops::RangeInclusive<i32>)] = &[
        (1, 1..=6),
        (4, 2..=2),
        (5, 1..=3),
        (6, 1..=2),
        (8, 1..=6),
        (10, 1..=36),
        (11, 1..=3),
        (14, 1..=6),
        (19, 1..=12),
        (23, 1..=1),
        (27, 1..=3),
        (28, 1..=1),
    ];

    #[test]
    fn every_code_of_a_lock_is_contention_and_no_other_is() {
        for primary in PRIMARY {
            for extended in 0..40 {
                let code = primary | extended << 8;
                let (kind, effect, message) = by_code(code);
                assert!(!message.is_empty());
                if is_lock(code) {
                    assert_eq!((kind, effect), (Contention, None), "{code}");
                }
                let again = matches!(primary, 4 | 15 | 17) || [513, 769].contains(&code);
                assert_eq!(kind == Contention, is_lock(code) || again, "{code}");
            }
        }
    }

    #[test]
    fn a_possibly_committed_write_has_an_unknown_effect() {
        for primary in [7, 10, 11, 13, 26] {
            let extended = EXTENDED.iter().filter(|row| row.0 == primary);
            let codes = extended.flat_map(|(_, numbers)| numbers.clone());
            for number in codes.chain([0]) {
                assert_eq!(
                    by_code(primary | number << 8).1,
                    Unknown,
                    "{primary} {number}"
                );
            }
        }
    }

    #[test]
    fn an_unlisted_code_has_an_unknown_effect() {
        for code in [
            16,
            27,
            28,
            29,
            99,
            100,
            101,
            255,
            284,
            283,
            -1,
            i32::MAX,
            i32::MIN,
        ] {
            let (kind, effect, _) = by_code(code);
            assert_eq!((kind, effect), (Other, Unknown), "{code}");
        }
    }

    #[test]
    fn codes_are_classified() {
        for (code, kind, effect) in [
            (261, Contention, None),
            (517, Contention, None),
            (773, Contention, None),
            (262, Contention, None),
            (516, Contention, None),
            (264, Misconfigured, None),
            (1032, Misconfigured, None),
            (1034, Unavailable, Unknown),
            (3082, Unavailable, Unknown),
            (5386, Unavailable, Unknown),
            (8202, Corrupt, Unknown),
            (779, Corrupt, Unknown),
            (526, Misconfigured, None),
            (1299, Misconfigured, None),
            (2067, Misconfigured, None),
            (279, Misconfigured, None),
            (1025, Misconfigured, None),
        ] {
            let (found, found_effect, _) = by_code(code);
            assert_eq!((found, found_effect), (kind, effect), "{code}");
        }
        let listed: std::collections::HashSet<_> = CODES.all().collect();
        assert_eq!(listed.len(), CODES.all().count(), "a code is listed once");
    }
}
