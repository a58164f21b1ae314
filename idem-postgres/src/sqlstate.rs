//! The meaning of the codes of a server, and of a pooler in front of it, for the caller.
//!
//! Codes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>. PgBouncer sends errors
//! of its own, nearly all of them 08P01 (`disconnect_client` in
//! <https://github.com/pgbouncer/pgbouncer/blob/master/src/objects.c>); pgcat sends 58000,
//! Supavisor XX000. Such an answer says nothing about the server, which may have done what it was
//! sent before.

use idem_core::backend::{Codes, Meaning, error_codes};
use idem_core::{Effect, ErrorKind};
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// The text that the server quotes when it got the values of another statement.
pub(crate) const MIXED_UP: &str = "idem: these are the values of another statement";

/// The text that the server quotes when a transaction is no longer the one that was begun.
pub(crate) const ENDED: &str = "idem: the work has ended its transaction";

/// The text that a standby quotes when it gets a read that decides.
pub(crate) const STANDBY: &str = "idem: a standby answers";

/// How the store repairs an error that proves that its own statement had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cure {
    /// No repair: the caller gets the error.
    Tell,
    /// The statement lost to a committed transaction: send it again.
    Repeat,
    /// The connection's prepared statements are useless: forget them, and send the statement again.
    Prepare,
    /// The server closed the connection while nothing was under way: send the statement on another
    /// one.
    Reconnect,
}

/// The parts of an answer that count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer<'a> {
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
    /// The function that reports it. PostgreSQL always names it, in English whatever the language
    /// of its messages; poolers do not.
    pub(crate) routine: Option<&'a str>,
    /// Whether the connection stays open. After FATAL and PANIC the server closes it.
    pub(crate) goes_on: bool,
}

impl<'a> From<&'a PgDatabaseError> for Answer<'a> {
    fn from(error: &'a PgDatabaseError) -> Self {
        Self {
            code: error.code(),
            message: error.message(),
            routine: error.routine(),
            goes_on: error.severity() == PgSeverity::Error,
        }
    }
}

/// The code of a lock that was not free within `lock_timeout`.
pub(crate) const LOCK_NOT_AVAILABLE: &str = "55P03";

/// Codes of answers that come before the server begins with a statement, even where it closes the
/// connection with them. The server does not start, refuses the log-in, or has closed a connection
/// on which nothing was under way (it sends 57P05 and 25P03 while it waits for its client; the
/// transaction is rolled back).
const BEFORE_ANYTHING: &[&str] = &[
    "57P03", "57P05", "25P03", "53300", "28000", "28P01", "3D000",
];

/// Returns the meaning of an answer to a statement that writes.
///
/// An error of severity ERROR rolls its statement back, and with it the transaction that a
/// statement of this crate is: no effect. With FATAL the connection ends, and the commit may have
/// come first: the effect is unknown, except for [`BEFORE_ANYTHING`]. So it is for a code that is
/// not in the table.
pub(crate) fn meaning(answer: Answer<'_>) -> (Meaning, Cure) {
    let judged = special(answer);
    let (mut meaning, mut cure) =
        judged.unwrap_or_else(|| (by_code(answer.code), cure(answer.code)));
    if !answer.goes_on && !BEFORE_ANYTHING.contains(&answer.code) {
        (meaning.1, cure) = (Effect::Unknown, Cure::Tell);
    }
    (meaning, cure)
}

/// Judges answers whose code does not say enough.
fn special(answer: Answer<'_>) -> Option<(Meaning, Cure)> {
    let says = |text| answer.message.contains(text);
    let is_of = |routine| answer.routine == Some(routine);
    match answer.code {
        // The answer of `Text::new`.
        "22P02" if says(MIXED_UP) => Some((mixed_up(Effect::None), Cure::Tell)),
        "22P02" if says(ENDED) => {
            let message = "the work has ended its transaction itself, by COMMIT or ROLLBACK as text; \
                           nothing is sealed, and what it wrote since then may be committed";
            Some((
                (ErrorKind::Misconfigured, Effect::Unknown, message),
                Cure::Tell,
            ))
        }
        "22P02" if says(STANDBY) => {
            let message = "a standby answered, which may lag; connect to the primary, and have a \
                           proxy that splits reads from writes send it all statements of this role";
            Some(((ErrorKind::Unavailable, Effect::None, message), Cure::Tell))
        }
        // "bind message supplies N parameters, but prepared statement "…" requires M"
        "08P01" if is_of("exec_bind_message") || says("bind message supplies") => {
            Some((mixed_up(Effect::Unknown), Cure::Tell))
        }
        "0A000" if is_of("RevalidateCachedQuery") || says("cached plan must not change") => {
            let message = "the table was changed since the statement was prepared (0A000); a \
                           transaction is to be repeated as a whole";
            Some((
                (ErrorKind::Contention, Effect::None, message),
                Cure::Prepare,
            ))
        }
        "XX000" if answer.routine.is_none() => {
            let message = "the pooler failed, or has no connection to the server (XX000)";
            let meaning = (ErrorKind::Unavailable, Effect::Unknown, message);
            Some((meaning, Cure::Tell))
        }
        _ => None,
    }
}

fn mixed_up(effect: Effect) -> Meaning {
    let message = "a pooler in transaction mode mixes prepared statements up; use \
                   `StatementMode::Unprepared`, or PgBouncer 1.21 with max_prepared_statements";
    (ErrorKind::Misconfigured, effect, message)
}

/// Codes, for an answer after which the connection stays open.
const CODES: Codes<&str> = error_codes! {
    // Transactions that conflicted with each other: the server has rolled this one back.
    Contention None ["40001"] =>
        "a concurrent transaction got in the way (40001); repeat the whole transaction";
    Contention None ["40P01"] =>
        "the server broke a deadlock (40P01); repeat the whole transaction";
    Contention None ["40000", "40002"] =>
        "the server rolled the transaction back (40000, 40002); repeat it as a whole";
    Unavailable Unknown ["40003"] =>
        "the server does not know whether the statement completed (40003)";
    Contention None [LOCK_NOT_AVAILABLE] => "a lock was not free in time (55P03, lock_timeout)";
    Contention None ["72000"] =>
        "the statement's snapshot was too old (72000); repeat the whole transaction";
    // Statements that the server, its operator or a time-out has ended.
    Unavailable None ["57014"] =>
        "the server cancelled the statement (57014, statement_timeout or a person)";
    Unavailable Unknown ["57000"] => "somebody intervened on the server (57000)";
    Unavailable Unknown ["57P01", "57P02"] =>
        "the server is shutting down or has crashed, or somebody ended the connection (57P01, \
         57P02)";
    Unavailable None ["57P03"] => "the server is starting up, shutting down or recovering (57P03)";
    Misconfigured Unknown ["57P04"] => "the database was dropped (57P04)";
    Unavailable None ["57P05"] =>
        "the server closed the connection because it was idle (57P05, idle_session_timeout)";
    Unavailable None ["25P03"] =>
        "the server ended the transaction because it was idle (25P03, \
         idle_in_transaction_session_timeout)";
    // Its clock also runs while the transaction commits, until the server turns it off.
    Unavailable Unknown ["25P04"] => "the transaction took too long (25P04, transaction_timeout)";
    // A standby: after a failover, the former primary.
    Unavailable None ["25006"] =>
        "the server only reads (25006): a standby, or default_transaction_read_only is on; connect \
         to the primary, or have the setting turned off for this role and database";
    Other None ["25P02"] =>
        "the transaction has failed before (25P02); roll it back and repeat it as a whole";
    Unavailable None ["55006"] =>
        "the database or the table is in use by something that excludes others (55006)";
    Misconfigured None ["55000"] =>
        "the database or the table is not in a state to be written to (55000); see the source";
    Unavailable None ["53000", "53100", "53200", "53300", "53400"] =>
        "the server is out of a resource (class 53): connections, memory or disk";
    // Refused before the statement runs: the server resolves names, types and privileges first.
    Misconfigured None ["42P01", "3F000", "42703", "42P10"] =>
        "the table is missing or of another version; run `migrate()` or the printed schema, and \
         check schema and table names";
    Misconfigured None [
        "42804", "42846", "42883", "42725", "42704", "42P18", "42809", "42601", "42P08", "42P22",
        "42P21",
    ] =>
        "the table's columns are not this crate's, or `search_path` hides the server's own \
         functions and operators; `verify()` says what is wrong";
    Misconfigured None ["42501"] =>
        "the role lacks a privilege (42501); grant USAGE on the schema, and SELECT, INSERT, UPDATE \
         and DELETE on the tables";
    Misconfigured None ["0A000"] =>
        "the server does not have a feature that the statement uses (0A000)";
    Misconfigured None ["55P02"] => "the role may not set lock_timeout (55P02)";
    Misconfigured None ["23502", "23503", "23505", "23514", "23P01"] =>
        "the table has a constraint that is not this crate's (class 23); `verify()` says what is \
         wrong";
    Misconfigured None ["28000", "28P01"] =>
        "the server refused the user or the password (28000, 28P01); correct the URL, or let them in \
         by pg_hba.conf";
    Misconfigured None ["3D000"] =>
        "the database does not exist (3D000); create it, or correct its name in the URL";
    // The values are refused before the statement runs.
    Misconfigured None ["22021", "22P05"] =>
        "the database cannot hold these characters (22021, 22P05); its encoding has to be UTF8. Or \
         a pooler mixes prepared statements up: use `StatementMode::Unprepared`";
    Misconfigured None ["22P03"] =>
        "the server cannot read a value (22P03): a column has another type, or a pooler mixes \
         prepared statements up; use `StatementMode::Unprepared` there";
    // No prepared statement, or portal, of this name; one of this name is there.
    Misconfigured None ["26000"] =>
        "the prepared statement is not there (26000): a pooler in transaction mode; use \
         `StatementMode::Unprepared`, or PgBouncer 1.21 with max_prepared_statements";
    Misconfigured None ["34000", "42P05"] =>
        "prepared statements are mixed up (34000, 42P05): a pooler in transaction mode; use \
         `StatementMode::Unprepared`, or PgBouncer 1.21 with max_prepared_statements";
    Corrupt None ["22003"] =>
        "a number of the record is at the end of its range (22003): somebody has written its \
         token, or the server's clock was far ahead; delete that row, and no claim of it is valid \
         any more";
};

/// Classes, the first two characters of a code, for codes that are not listed.
const CLASSES: Codes<&str> = error_codes! {
    // 08P01 too: "server conn crashed?" or "query_wait_timeout" of PgBouncer.
    Unavailable Unknown ["08"] =>
        "the connection to the server was lost, or the pooler has none (class 08)";
    Unavailable Unknown ["53"] => "the server is out of a resource (class 53)";
    Unavailable Unknown ["57"] => "the server or its operator ended the statement (class 57)";
    Unavailable Unknown ["58"] =>
        "the operating system of the server, or the pooler, failed (class 58)";
    Misconfigured Unknown ["28", "3D"] =>
        "the server refused the user, the password or the database (class 28, 3D); correct the URL";
    Misconfigured Unknown ["42"] =>
        "the server cannot run the statement on this table (class 42); `verify()` says what is \
         wrong";
    Corrupt Unknown ["XX"] => "the server reports an internal error or corruption (class XX)";
};

/// Returns the meaning of a code, for an answer after which the connection stays open.
pub(crate) fn by_code(code: &str) -> Meaning {
    let class = code.get(..2).unwrap_or_default();
    let listed = CODES.find(|&listed| listed == code);
    listed
        .or_else(|| CLASSES.find(|&listed| listed == class))
        .unwrap_or((
            ErrorKind::Other,
            Effect::Unknown,
            "the server refused the statement; see the source for its code",
        ))
}

fn cure(code: &str) -> Cure {
    match code {
        "40001" | "40P01" | "72000" => Cure::Repeat,
        "57P05" | "25P02" => Cure::Reconnect,
        "26000" => Cure::Prepare,
        _ => Cure::Tell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Effect::{None as Nothing, Unknown};
    use ErrorKind::{Contention, Corrupt, Misconfigured, Other, Unavailable};

    const ERROR: Answer<'static> = Answer {
        code: "",
        message: "",
        routine: Some("errfinish"),
        goes_on: true,
    };

    #[test]
    fn codes_are_classified() {
        for (codes, kind, effect) in [
            ("40001 40P01 40000 40002 55P03 72000", Contention, Nothing),
            ("40003 57P01 57P02 57000 57P99 25P04", Unavailable, Unknown),
            ("57014 57P03 57P05 25P03 25006 55006", Unavailable, Nothing),
            ("53000 53100 53200 53300 53400", Unavailable, Nothing),
            (
                "08000 08001 08003 08004 08006 08007 08P01",
                Unavailable,
                Unknown,
            ),
            ("58000 58030 58P01 53999", Unavailable, Unknown),
            (
                "42P01 3F000 42703 42P10 42804 42883 42725",
                Misconfigured,
                Nothing,
            ),
            (
                "42P18 42501 0A000 55P02 55000 23502 23505 23514",
                Misconfigured,
                Nothing,
            ),
            (
                "28000 28P01 3D000 22021 22P05 22P03",
                Misconfigured,
                Nothing,
            ),
            ("26000 34000 42P05", Misconfigured, Nothing),
            ("57P04 42999 28999", Misconfigured, Unknown),
            ("22003", Corrupt, Nothing),
            ("XX000 XX001 XX002", Corrupt, Unknown),
            ("25P02", Other, Nothing),
            // Unknown codes: the statement may have had an effect.
            (
                "22P02 22012 P0001 21000 54000 25001 F0000 HV000 99999 é",
                Other,
                Unknown,
            ),
        ] {
            for code in codes.split(' ') {
                let ((found, found_effect, message), _) = meaning(Answer { code, ..ERROR });
                assert_eq!((found, found_effect), (kind, effect), "{code}");
                assert!(!message.is_empty());
            }
        }
        assert_eq!(meaning(ERROR).0.1, Unknown, "no code");
    }

    /// A lost connection may have taken the answer to a commit with it.
    #[test]
    fn the_end_of_a_connection_leaves_the_effect_unknown() {
        for (code, effect) in [
            ("57P01", Unknown),
            ("57014", Unknown),
            ("40001", Unknown),
            ("53200", Unknown),
            ("57P05", Nothing),
            ("25P03", Nothing),
            ("57P03", Nothing),
            ("28P01", Nothing),
        ] {
            let fatal = Answer {
                code,
                goes_on: false,
                ..ERROR
            };
            assert_eq!(meaning(fatal).0.1, effect, "{code}");
        }
        let fatal = |code| {
            let fatal = Answer {
                code,
                goes_on: false,
                ..ERROR
            };
            meaning(fatal).1
        };
        assert_eq!(
            [fatal("57P05"), fatal("40001")],
            [Cure::Reconnect, Cure::Tell]
        );
    }

    #[test]
    fn a_poolers_error_is_not_taken_for_mixed_up_statements() {
        for message in [
            "server conn crashed?",
            "no more connections allowed (max_client_conn)",
            "query_wait_timeout",
            "client_login_timeout (server down)",
            "server_login_retry has no connection",
            "pgbouncer cannot connect to server",
            "query_timeout",
            "database removed",
        ] {
            let ((kind, effect, _), _) = meaning(Answer {
                code: "08P01",
                message,
                routine: None,
                goes_on: true,
            });
            assert_eq!((kind, effect), (Unavailable, Unknown), "{message}");
        }
        let bound =
            "bind message supplies 6 parameters, but prepared statement \"sqlx_s_3\" requires 7";
        for (message, routine) in [
            (bound, None),
            ("in another language", Some("exec_bind_message")),
        ] {
            let ((kind, effect, text), _) = meaning(Answer {
                code: "08P01",
                message,
                routine,
                goes_on: true,
            });
            assert_eq!((kind, effect), (Misconfigured, Unknown));
            assert!(text.contains("StatementMode::Unprepared"));
        }
        let pooler = Answer {
            code: "XX000",
            message: "Max client connections reached",
            routine: None,
            goes_on: false,
        };
        assert_eq!(meaning(pooler).0.0, Unavailable);
    }

    #[test]
    fn the_values_of_another_statement_are_known() {
        let message = format!("invalid input syntax for type bigint: \"{MIXED_UP}\"");
        let ((kind, effect, _), _) = meaning(Answer {
            code: "22P02",
            message: &message,
            ..ERROR
        });
        assert_eq!((kind, effect), (Misconfigured, Nothing));
    }

    #[test]
    fn a_stale_plan_is_prepared_anew() {
        for (message, routine) in [
            ("cached plan must not change result type", None),
            ("in another language", Some("RevalidateCachedQuery")),
        ] {
            let ((kind, _, _), cure) = meaning(Answer {
                code: "0A000",
                message,
                routine,
                goes_on: true,
            });
            assert_eq!((kind, cure), (Contention, Cure::Prepare));
        }
    }
}
