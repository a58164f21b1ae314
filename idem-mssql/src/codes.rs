//! The server's errors: the meaning of each number, and of each text of Babelfish, for the caller.

mod numbers;
mod texts;

use idem_core::backend::Meaning;
use idem_core::{Effect, ErrorKind};

/// Babelfish's number for an error of PostgreSQL that it has no number for:
/// <https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/babelfish-strict.html>.
const UNMAPPED: u32 = 33_557_097;

/// Returns the meaning of an error: kind, effect, and remedy. An unknown number or text never
/// counts as success, nor as certainty that nothing was done.
pub(crate) fn meaning(code: u32, message: &str) -> Meaning {
    let known = match code {
        UNMAPPED => texts::TEXTS.find(|&text| message.contains(text)),
        _ => numbers::NUMBERS.find(|&listed| listed == code),
    };
    known.unwrap_or((
        ErrorKind::Other,
        Effect::Unknown,
        "the server refused the statement; see the source for its number",
    ))
}

/// Returns whether the server has rolled the whole transaction back because of another one:
/// <https://learn.microsoft.com/sql/relational-databases/sql-server-deadlocks-guide>,
/// <https://learn.microsoft.com/sql/relational-databases/in-memory-oltp/transactions-with-memory-optimized-tables>.
pub(crate) fn rolls_back(code: u32, message: &str) -> bool {
    match code {
        1205 | 3960 | 3961 | 3966 | 41301 | 41302 | 41305 | 41325 | 41839 => true,
        UNMAPPED => texts::is_serialization_failure(message),
        _ => false,
    }
}

/// Returns whether another transaction's lock was not free within LOCK_TIMEOUT.
pub(crate) fn is_lock_timeout(code: u32, message: &str) -> bool {
    match code {
        1222 => true,
        UNMAPPED => message.contains("due to lock timeout"),
        _ => false,
    }
}

/// Returns whether the database only reads: after a failover the old primary is a secondary, whose
/// connections stay.
pub(crate) fn only_reads(code: u32, message: &str) -> bool {
    match code {
        978 | 979 | 982 | 3906 => true,
        UNMAPPED => texts::READ_ONLY.iter().any(|text| message.contains(text)),
        _ => false,
    }
}

/// Returns whether a number would have grown beyond its type. Of the store's numbers, only tokens
/// grow by themselves.
pub(crate) fn is_overflow(code: u32, message: &str) -> bool {
    match code {
        220 | 8115 => true,
        UNMAPPED => message.contains("out of range"),
        _ => false,
    }
}

/// Returns whether the server does not know a statement. Babelfish has one number both for
/// PostgreSQL's errors without a number of SQL Server's, and for unsupported statements.
pub(crate) fn is_unknown(code: u32, message: &str) -> bool {
    match code {
        102 | 156 | 195 | 319 => true,
        UNMAPPED => texts::is_unknown(message),
        _ => false,
    }
}

/// Returns whether the text of such an error shows a value of the row, and so perhaps a key or a
/// payload: duplicates, failed conversions, values that are too long.
pub(crate) fn may_show_values(code: u32, message: &str) -> bool {
    match code {
        245 | 248 | 2601 | 2627 | 2628 => true,
        UNMAPPED => message.contains("invalid input"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Effect::{None, Unknown};
    use ErrorKind::{Contention, Corrupt, Misconfigured, Other, Unavailable};

    #[test]
    fn numbers_are_classified() {
        for (kind, effect, codes) in [
            (
                Contention,
                None,
                &[
                    1205, 1222, 2601, 2627, 3960, 3961, 3966, 41302, 41305, 41325,
                ][..],
            ),
            (
                Misconfigured,
                None,
                &[207, 208, 229, 230, 262, 911, 18456, 18488],
            ),
            (
                Misconfigured,
                None,
                &[102, 156, 334, 515, 547, 1934, 2628, 40615],
            ),
            (
                Unavailable,
                None,
                &[921, 922, 952, 954, 955, 17142, 17187, 18401, 18451],
            ),
            (Unavailable, None, &[4060, 40914, 47073]),
            (Unavailable, None, &[3906, 978, 1105, 9002, 701, 926, 4221]),
            (
                Unavailable,
                None,
                &[40501, 40613, 49918, 49919, 49920, 10928, 10929],
            ),
            (Unavailable, Unknown, &[40197, 40540, 40143, 40166, 615]),
            (Unavailable, Unknown, &[40549, 40550, 40553, 1219, 9001]),
            (Unavailable, Unknown, &[10053, 10054, 10060, 233, 64, 596]),
            (Corrupt, Unknown, &[823, 824, 825, 605]),
            (Corrupt, None, &[8115, 220]),
            (Other, None, &[3902, 3903, 3930]),
            (Other, Unknown, &[0, 12345, 50000, u32::MAX]),
        ] {
            for &code in codes {
                let (found, found_effect, message) = meaning(code, "");
                assert_eq!((found, found_effect), (kind, effect), "{code}");
                assert!(!message.is_empty());
            }
        }
    }

    /// The lists of transient errors that Microsoft's own clients retry:
    /// <https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues>,
    /// and those that `Microsoft.Data.SqlClient` retries by default.
    #[test]
    fn an_error_that_microsoft_calls_transient_is_retried() {
        for code in [
            64, 233, 926, 4060, 4221, 10053, 10054, 10060, 10928, 10929, 10936, 40143, 40197,
            40501, 40540, 40613, 42108, 42109, 49918, 49919, 49920, 1204, 1205, 1222, 997, 669,
        ] {
            let (kind, effect, _) = meaning(code, "");
            let retried = matches!(kind, Unavailable | Contention);
            assert!(retried, "{code}: {kind:?}, {effect:?}");
        }
    }

    #[test]
    fn no_number_is_in_two_rows() {
        let mut seen = std::collections::BTreeSet::new();
        for code in numbers::NUMBERS.all() {
            assert!(seen.insert(code), "{code}");
        }
        assert!(seen.len() > 100);
    }

    #[test]
    fn an_unknown_statement_is_distinguished_from_a_failed_one() {
        assert!(is_unknown(102, "Incorrect syntax near 'MERGE'."));
        for message in [
            "'MERGE' is not currently supported in Babelfish",
            "syntax error near 'OUTPUT' at line 4",
            "missing FROM-clause entry for table \"inserted\"",
        ] {
            assert!(is_unknown(UNMAPPED, message), "{message}");
            let (kind, effect, _) = meaning(UNMAPPED, message);
            assert_eq!((kind, effect), (Misconfigured, None), "{message}");
        }
        assert!(!is_unknown(UNMAPPED, "deadlock detected"));
        assert!(!is_unknown(2627, "syntax error"));
    }

    #[test]
    fn an_error_without_a_number_on_babelfish_is_read() {
        for (kind, effect, messages) in [
            (
                Contention,
                None,
                &[
                    "could not serialize access due to concurrent update",
                    "deadlock detected",
                    "canceling statement due to lock timeout",
                ][..],
            ),
            (
                Misconfigured,
                None,
                &[
                    "'MERGE' is not currently supported in Babelfish",
                    "relation \"dbo.idem_records\" does not exist",
                    "permission denied for table idem_records",
                    "password authentication failed for user \"app\"",
                ],
            ),
            (
                Unavailable,
                None,
                &[
                    "cannot execute INSERT in a read-only transaction",
                    "cannot execute nextval() during recovery",
                    "the database system is starting up",
                    "the database system is in recovery mode",
                    "sorry, too many clients already",
                    "remaining connection slots are reserved for roles with the SUPERUSER attribute",
                    "canceling statement due to statement timeout",
                    "could not extend file \"base/1/2\": No space left on device",
                ],
            ),
            (
                Unavailable,
                Unknown,
                &[
                    "the database system is shutting down",
                    "terminating connection due to administrator command",
                    "terminating connection because of crash of another server process",
                ],
            ),
            (Corrupt, None, &["bigint out of range"]),
            (Corrupt, Unknown, &["invalid page in block 7 of relation x"]),
            (Other, Unknown, &["something else", ""]),
        ] {
            for message in messages {
                let (found, found_effect, _) = meaning(UNMAPPED, message);
                assert_eq!((found, found_effect), (kind, effect), "{message}");
            }
        }
    }

    #[test]
    fn only_an_error_that_rolled_everything_back_repeats_the_whole() {
        for code in [1205, 3960, 3966, 41301, 41302, 41305, 41325] {
            assert!(rolls_back(code, ""), "{code}");
        }
        for code in [1222, 2601, 2627, 40197, 0] {
            assert!(!rolls_back(code, "deadlock detected"), "{code}");
        }
        assert!(rolls_back(UNMAPPED, "deadlock detected"));
    }
}
