//! The server's error numbers.

use idem_core::{Effect, ErrorKind};

type Meaning = (ErrorKind, Effect, &'static str);

/// What Babelfish answers for an error of PostgreSQL that it has no number for:
/// <https://docs.aws.amazon.com/AmazonRDS/latest/AuroraUserGuide/babelfish-strict.html>.
const UNMAPPED: u32 = 33_557_097;

/// What an error means: kind, effect, and what to do. An error in a statement rolls it back, so most have no effect;
/// where the server goes down, the commit may have come first. An unknown one is never taken for success, nor for the
/// certainty that nothing was done.
///
/// Numbers: <https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors>;
/// passing ones of Azure SQL: <https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues>.
pub(crate) fn meaning(code: u32, message: &str) -> Meaning {
    if code == UNMAPPED {
        return of_postgres(message);
    }
    contention(code)
        .or_else(|| set_up(code))
        .or_else(|| unavailable(code))
        .or_else(|| broken(code))
        .unwrap_or((
            ErrorKind::Other,
            Effect::Unknown,
            "the server refused the statement; see the source for its number",
        ))
}

/// Whether the server has rolled the whole transaction back because of another one:
/// <https://learn.microsoft.com/sql/relational-databases/sql-server-deadlocks-guide>,
/// <https://learn.microsoft.com/sql/relational-databases/in-memory-oltp/transactions-with-memory-optimized-tables>.
pub(crate) fn rolls_back(code: u32, message: &str) -> bool {
    match code {
        1205 | 3960 | 41301 | 41302 | 41305 | 41325 => true,
        UNMAPPED => is_serialization_failure(message),
        _ => false,
    }
}

/// Whether the server does not know a statement. Babelfish has one number for what PostgreSQL says and SQL Server has no
/// number for, and for what it does not support.
pub(crate) fn is_unknown(code: u32, message: &str) -> bool {
    match code {
        102 | 156 | 195 | 319 => true,
        UNMAPPED => message.contains("not currently supported") || message.contains("syntax error"),
        _ => false,
    }
}

fn is_serialization_failure(message: &str) -> bool {
    message.contains("could not serialize access") || message.contains("deadlock detected")
}

fn contention(code: u32) -> Option<Meaning> {
    let message = match code {
        1205 => "the server broke a deadlock (1205); repeat the whole transaction",
        1222 => "a lock was not free in time (1222, LOCK_TIMEOUT)",
        3960 | 41301 | 41302 | 41305 | 41325 => {
            "a concurrent transaction got in the way (3960, 41301 to 41325); repeat the whole transaction"
        }
        2601 | 2627 => "another claim of the key came first (2601, 2627); ask again",
        _ => return None,
    };
    Some((ErrorKind::Contention, Effect::None, message))
}

fn set_up(code: u32) -> Option<Meaning> {
    let message = match code {
        207 | 208 | 213 => {
            "the table is missing or of another version; run `migrate()` or the printed schema, and check schema and \
             table names"
        }
        229 | 230 | 262 | 297 | 300 | 2760 | 15247 => {
            "the user lacks a permission (229, 230, 262); grant SELECT, INSERT, UPDATE and DELETE on the table"
        }
        916 | 4060 | 4064 | 18450 | 18452 | 18456 | 18470 | 18486 | 18487 | 18488 | 40531
        | 40532 => "the server refused the user, the password or the database (18456, 4060)",
        40615 => "the server's firewall keeps this address out (40615)",
        334 => {
            "the table has a trigger (334), and a statement with OUTPUT cannot run beside one; drop it"
        }
        3952 => {
            "snapshot isolation is not allowed in this database (3952); set ALLOW_SNAPSHOT_ISOLATION ON"
        }
        1934 => {
            "the session's SET options do not suit a filtered index (1934); leave QUOTED_IDENTIFIER and the ANSI \
             options on"
        }
        102 | 156 | 195 | 319 | 2812 | 40517 | 40518 => {
            "the server does not know the statement (102, 156, 195); it may not be SQL Server: see `ClaimMethod`"
        }
        _ => return None,
    };
    Some((ErrorKind::Misconfigured, Effect::None, message))
}

fn unavailable(code: u32) -> Option<Meaning> {
    let (effect, message) = match code {
        978 | 3906 => (
            Effect::None,
            "the database only reads (3906, 978): a secondary, or set so; connect to the primary",
        ),
        926
        | 927
        | 942
        | 945
        | 976
        | 983
        | 988
        | 9001
        | 40501
        | 40544
        | 40545
        | 40549..=40553
        | 40613
        | 40197
        | 40540
        | 40143
        | 40166
        | 49918..=49920
        | 10928
        | 10929
        | 10936
        | 4221
        | 615
        | 18401
        | 40648
        | 40671
        | 40675
        | 42108
        | 42109
        | 42119 => azure(code),
        701 | 802 | 1101 | 1105 | 1204 | 3967 | 8645 | 8651 | 9002 | 17809 | 17889 => (
            Effect::None,
            "the server is out of a resource (1105, 9002, 701): disk, log, memory, locks or sessions",
        ),
        596 | 6002 | 6005 | 17830 | 17147 | 64 | 121 | 233 | 258 | 10053 | 10054 | 10060
        | 10061 | 11001 | 20 => (
            Effect::Unknown,
            "the connection to the server was lost, or the server ended it",
        ),
        3617 | 3204 => (
            Effect::None,
            "the server cancelled the statement (3617); a person or the client did",
        ),
        _ => return None,
    };
    Some((ErrorKind::Unavailable, effect, message))
}

/// What passes by itself: fail-over, throttling, a database that wakes up. Those that end a connection may do so
/// between the commit and its answer.
fn azure(code: u32) -> (Effect, &'static str) {
    match code {
        40197 | 40540 | 40143 | 40166 | 9001 | 615 => (
            Effect::Unknown,
            "the database moves or restarts (40197, 40540, 40143, 40166); try again",
        ),
        _ => (
            Effect::None,
            "the database is not available for now (40501, 40613, 4992x, 1092x, 926); try again",
        ),
    }
}

fn broken(code: u32) -> Option<Meaning> {
    Some(match code {
        823..=825 | 605 | 8646 | 3624 => (
            ErrorKind::Corrupt,
            Effect::Unknown,
            "the server reports corruption (823, 824, 605)",
        ),
        2628 | 8152 => (
            ErrorKind::Misconfigured,
            Effect::None,
            "a column is shorter than this crate makes it (2628, 8152); compare the table with the printed schema",
        ),
        3902 | 3903 | 3930 | 3998 => (
            ErrorKind::Other,
            Effect::None,
            "the transaction is gone or has failed before (3902, 3903, 3930); repeat it as a whole",
        ),
        8003 | 8010 | 8016 | 8023 => (
            ErrorKind::Other,
            Effect::None,
            "the server does not take the request's parameters (8003 to 8023)",
        ),
        _ => return None,
    })
}

/// Babelfish passes PostgreSQL's text on.
fn of_postgres(message: &str) -> Meaning {
    use ErrorKind::{Contention, Misconfigured, Other, Unavailable};
    let has = |text: &str| message.contains(text);
    match () {
        () if is_serialization_failure(message) => (
            Contention,
            Effect::None,
            "a concurrent transaction got in the way; repeat the whole transaction",
        ),
        () if has("due to lock timeout") => {
            (Contention, Effect::None, "a lock was not free in time")
        }
        () if has("is not currently supported") || has("syntax error") => (
            Misconfigured,
            Effect::None,
            "the server does not know the statement; see `ClaimMethod`",
        ),
        () if has("does not exist") => (
            Misconfigured,
            Effect::None,
            "the table is missing or of another version; run `migrate()` or the printed schema, and check schema and \
             table names",
        ),
        () if has("permission denied") => (
            Misconfigured,
            Effect::None,
            "the user lacks a permission; grant SELECT, INSERT, UPDATE and DELETE on the table",
        ),
        () if has("read-only transaction") => (
            Unavailable,
            Effect::None,
            "the server only reads; connect to the primary",
        ),
        () if has("terminating connection") => (
            Unavailable,
            Effect::Unknown,
            "the server is shutting down or has crashed",
        ),
        () => (
            Other,
            Effect::Unknown,
            "the server refused the statement; see the source for its text",
        ),
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
                &[1205, 1222, 2601, 2627, 3960, 41302, 41305, 41325][..],
            ),
            (
                Misconfigured,
                None,
                &[207, 208, 229, 230, 262, 18456, 4060, 18488],
            ),
            (Misconfigured, None, &[102, 156, 334, 1934, 2628, 40615]),
            (Unavailable, None, &[3906, 978, 1105, 9002, 701, 926, 4221]),
            (
                Unavailable,
                None,
                &[40501, 40613, 49918, 49919, 49920, 10928, 10929],
            ),
            (Unavailable, Unknown, &[40197, 40540, 40143, 40166, 615]),
            (Unavailable, Unknown, &[10053, 10054, 10060, 233, 64, 596]),
            (Corrupt, Unknown, &[823, 824, 825, 605]),
            (Other, None, &[3902, 3903, 3930]),
            (Other, Unknown, &[0, 515, 547, 50000, u32::MAX]),
        ] {
            for &code in codes {
                let (found, found_effect, message) = meaning(code, "");
                assert_eq!((found, found_effect), (kind, effect), "{code}");
                assert!(!message.is_empty());
            }
        }
    }

    #[test]
    fn a_statement_that_is_not_known_is_told_from_one_that_failed() {
        assert!(is_unknown(102, "Incorrect syntax near 'MERGE'."));
        assert!(is_unknown(
            UNMAPPED,
            "'MERGE' is not currently supported in Babelfish"
        ));
        assert!(is_unknown(UNMAPPED, "syntax error near 'OUTPUT' at line 4"));
        assert!(!is_unknown(UNMAPPED, "deadlock detected"));
        assert!(!is_unknown(2627, "syntax error"));
    }

    #[test]
    fn what_babelfish_has_no_number_for_is_read() {
        for (message, kind, effect) in [
            (
                "could not serialize access due to concurrent update",
                Contention,
                None,
            ),
            ("deadlock detected", Contention, None),
            ("canceling statement due to lock timeout", Contention, None),
            (
                "'MERGE' is not currently supported in Babelfish",
                Misconfigured,
                None,
            ),
            (
                "relation \"dbo.idem_records\" does not exist",
                Misconfigured,
                None,
            ),
            (
                "permission denied for table idem_records",
                Misconfigured,
                None,
            ),
            (
                "cannot execute INSERT in a read-only transaction",
                Unavailable,
                None,
            ),
            (
                "terminating connection due to administrator command",
                Unavailable,
                Unknown,
            ),
            ("something else", Other, Unknown),
        ] {
            let (found, found_effect, _) = meaning(UNMAPPED, message);
            assert_eq!((found, found_effect), (kind, effect), "{message}");
        }
    }

    #[test]
    fn only_what_rolled_everything_back_is_repeated_as_a_whole() {
        for code in [1205, 3960, 41301, 41302, 41305, 41325] {
            assert!(rolls_back(code, ""), "{code}");
        }
        for code in [1222, 2601, 2627, 40197, 0] {
            assert!(!rolls_back(code, "deadlock detected"), "{code}");
        }
        assert!(rolls_back(UNMAPPED, "deadlock detected"));
    }
}
