//! The meaning of the error numbers of a server, a cluster or a proxy: kind, effect, and remedy.
//!
//! An error in a statement rolls the statement back ("InnoDB Error Handling",
//! <https://dev.mysql.com/doc/refman/8.4/en/innodb-error-handling.html>), so an error while the
//! statement is checked or runs means no effect. The effect is unknown where the error may follow
//! the commit: the server goes down, the commit itself fails, an operator ends the connection, or a
//! proxy lost its server. So it is for every number that is not listed.
//!
//! Numbers: <https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html>,
//! <https://mariadb.com/kb/en/mariadb-error-code-reference/>, and the client's, which proxies hand
//! on, <https://dev.mysql.com/doc/mysql-errors/8.4/en/client-error-reference.html>.

use idem_core::backend::{Codes, Meaning, error_codes};
use idem_core::{Effect, ErrorKind};

/// `ER_CHECKREAD`.
pub(crate) const RECORD_CHANGED: u16 = 1020;
/// `ER_BAD_NULL_ERROR`.
pub(crate) const NOT_NULL: u16 = 1048;
/// `ER_LOCK_WAIT_TIMEOUT`.
pub(crate) const LOCK_WAIT: u16 = 1205;
/// `ER_LOCK_DEADLOCK`.
pub(crate) const DEADLOCK: u16 = 1213;
/// `ER_TRANSACTION_ROLLBACK_DURING_COMMIT`.
pub(crate) const REFUSED: u16 = 3101;
/// `ER_LOCK_NOWAIT`.
pub(crate) const NO_WAIT: u16 = 3572;

/// Returns the meaning of a number.
pub(crate) fn meaning(number: u16) -> Meaning {
    CODES.find(|&listed| listed == number).unwrap_or((
        ErrorKind::Other,
        Effect::Unknown,
        "the server refused the statement; see the source for its number",
    ))
}

const CODES: Codes<u16> = error_codes! {
    // The server rolls the transaction back before it sends the error; a Galera node does so at the
    // commit.
    Contention None [DEADLOCK] =>
        "the server broke a deadlock, or a Galera node refused to certify (1213); repeat the whole \
         transaction";
    // The statement is undone, and the transaction with it where `innodb_rollback_on_timeout` is
    // on.
    Contention None [LOCK_WAIT, NO_WAIT] =>
        "another transaction that is still open holds a lock (1205, 3572); ask again when it has \
         ended, in a transaction with the whole of it";
    Contention None [RECORD_CHANGED] =>
        "a row changed after the transaction's snapshot (1020, innodb_snapshot_isolation); repeat \
         the whole transaction";
    // 3101: group replication refused to certify, before the commit. 3058: a deadlock of user
    // locks.
    Contention None [1062, 1412, 1614, 1615, 3058, REFUSED] =>
        "a concurrent change got in the way (1062, 1412, 1614, 1615, 3058, 3101); ask again";
    // At the greeting or before the statement runs.
    Unavailable None [1040, 1041, 1135, 1203, 1226, 1461, 1637] =>
        "the server takes no more connections or statements (1040, 1041, 1135, 1203, 1226, 1461, \
         1637); raise its limit or make pools smaller";
    // Answered instead of the statement.
    Unavailable None [1047] =>
        "the Galera node is not part of the primary component (1047); another node, or wait until \
         it has joined";
    // Checked before the statement changes anything. 1874: InnoDB itself is read-only.
    Unavailable None [1223, 1290, 1792, 1836, 1874] =>
        "the server only reads (1223, 1290, 1792, 1836, 1874): a replica, a backup, or the \
         transaction is READ ONLY; connect to the primary";
    // MySQL limits SELECT only.
    Unavailable None [3024] =>
        "the server ended the read for its time limit (3024 max_execution_time)";
    // MariaDB limits every statement, and the time may end during the commit.
    Unavailable Unknown [1969] =>
        "the server ended the statement for its time limit (1969 max_statement_time); raise it for \
         this user";
    // The server stops waiting for a command, so it does not read the one that arrives.
    Unavailable None [4031] =>
        "the server had closed the connection because it was idle for longer than wait_timeout \
         (4031); ask again";
    // While a statement runs, or while its answer is sent.
    Unavailable Unknown [
        1053, 1077, 1078, 1079, 1080, 1152, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184,
        1189, 1190, 1317, 1927, 3032, 3169,
    ] =>
        "the server shuts down, or it, a proxy or a person ended the connection or the statement \
         (1053, 1152, 1158 to 1161, 1317, 1927, 3032, 3169)";
    // 1598: the binary log cannot be written. The server stops, and recovery commits what the log
    // has, or goes on without the log. 3100: a hook of group replication failed around the commit.
    Unavailable Unknown [1180, 1181, 1598, 3100] =>
        "the server failed to commit or to roll back (1180, 1181, 3100), or to write its binary log \
         (1598)";
    // The engine may have met the error anywhere, a commit included.
    Unavailable Unknown [
        3, 5, 1015, 1016, 1021, 1023, 1026, 1030, 1037, 1038, 1114, 1197, 1206, 1878, 3170,
    ] =>
        "the server is out of a resource: disk, memory or locks (3, 1015, 1021, 1030, 1037, 1038, \
         1114, 1206)";
    // A proxy has no server connection to send the statement on.
    Unavailable None [2002, 2003, 2004, 2005] =>
        "the proxy cannot connect to the server (2002, 2003, 2005)";
    // A proxy lost its server, or gave up on it. ProxySQL does not document which of its own
    // numbers come before a statement is sent; proxies and clusters send 1105 when they have no
    // number.
    Unavailable Unknown [
        1105, 2006, 2008, 2013, 2014, 2027, 2055, 9000, 9001, 9002, 9003, 9004, 9005, 9006, 9007,
        9008, 9099,
    ] =>
        "the proxy lost the server or waited too long for it (1105, 2006, 2013, 9001 and others)";
    Misconfigured None [1049] =>
        "the database does not exist (1049); create it, or correct its name in the URL or in \
         `Config::with_database`";
    Misconfigured None [1051, 1054, 1146] =>
        "the table is missing or of another version (1054, 1146); run `migrate()` or the printed \
         schema, and check database and table names";
    Misconfigured None [1046] =>
        "no database is chosen (1046); name one in the URL or with `Config::with_database`";
    Misconfigured None [1044, 1142, 1143, 1227, 1370] =>
        "the user lacks a privilege (1044, 1142, 1143, 1227); grant SELECT, INSERT, UPDATE and \
         DELETE on the table";
    // At the greeting.
    Misconfigured None [
        1042, 1043, 1045, 1129, 1130, 1251, 1698, 1820, 1862, 2059, 2061, 3118, 3159, 3955, 4151,
    ] =>
        "the server refused the user, the password, the host or the connection without TLS (1045, \
         1129, 1130, 1251, 1698, 1820, 3118, 3159); correct the URL; MySQL 8 and later need the \
         feature `tls`";
    // Refused as a whole, before it is read.
    Misconfigured None [1153, 1301] =>
        "the statement is larger than max_allowed_packet (1153, 1301); raise it, or lower \
         `Limits::max_result_bytes`";
    Misconfigured None [1193, 1229, 1231, 1232, 1238] =>
        "the server does not know a setting or its value (1193, 1231); `wsrep_sync_wait` is for \
         Galera nodes";
    Misconfigured None [1210, 1243] =>
        "a prepared statement is gone or another one (1210, 1243): a pooler changed the server \
         under the connection and does not follow prepared statements";
    Misconfigured None [1286, 1662, 1663, 1665, 1666, 3098] =>
        "the server cannot write to InnoDB as it is set up (1286, 1665, 3098); READ COMMITTED needs \
         binlog_format ROW or MIXED";
    Misconfigured None [1064, 1149, 1235, 1295] =>
        "the server does not know a statement (1064, 1149, 1235, 1295); MySQL 8.0 or MariaDB 10.6 \
         and later is needed";
    Misconfigured None [1099, 1100, 1104, 1175, 1390, 1436] =>
        "a setting or a lock of the session forbids the statement (1099, 1100 LOCK TABLES, 1104 \
         max_join_size, 1175 sql_safe_updates, 1390, 1436); take it out of the pool's sessions";
    // Values are measured before they are sent, so the table is a different one.
    Misconfigured None [NOT_NULL, 1136, 1264, 1364, 1366, 1406, 1451, 1452, 1644, 3819, 4025] =>
        "the table does not take what fits into its schema (1048, 1264, 1364, 1366, 1406), or a \
         constraint or trigger of somebody else's refuses it (1451, 1452, 1644, 3819, 4025); \
         `verify()` compares its columns";
    Corrupt None [1690] =>
        "a number of the record is too large to count on (1690), such as a fencing token at the \
         end of its range; correct or delete the row";
    Corrupt Unknown [126, 127, 145, 1033, 1034, 1035, 1194, 1195, 1712, 1877, 1932] =>
        "the server reports a corrupt table or index (126, 145, 1034, 1194, 1712, 1932)";
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_are_classified() {
        use Effect::{None, Unknown};
        use ErrorKind::{Contention, Corrupt, Misconfigured, Unavailable};
        for (numbers, kind, effect) in [
            (
                &[1213, 1205, 3572, 1020, 1062, 3101, 3058][..],
                Contention,
                None,
            ),
            (&[1040, 1041, 1203, 1226, 1047, 4031], Unavailable, None),
            (&[1290, 1792, 1836, 3024, 2003], Unavailable, None),
            (
                &[1053, 1077, 1078, 1079, 1080, 1152, 1154],
                Unavailable,
                Unknown,
            ),
            (&[1156, 1158, 1159, 1160, 1161, 1184], Unavailable, Unknown),
            (
                &[1189, 1190, 1317, 1927, 1969, 3032, 3169],
                Unavailable,
                Unknown,
            ),
            (&[1180, 1181, 1598, 3100], Unavailable, Unknown),
            (
                &[1015, 1021, 1030, 1037, 1038, 1114, 1206],
                Unavailable,
                Unknown,
            ),
            (&[1105, 2006, 2013, 9001], Unavailable, Unknown),
            (&[1042, 1043, 1044, 1045, 1129, 1130], Misconfigured, None),
            (
                &[1046, 1054, 1142, 1146, 1153, 1193, 1243],
                Misconfigured,
                None,
            ),
            (&[1064, 1175, 1264, 1406, 1665], Misconfigured, None),
            (&[1690], Corrupt, None),
            (&[145, 1194], Corrupt, Unknown),
        ] {
            for &number in numbers {
                let (found, found_effect, message) = meaning(number);
                assert_eq!((found, found_effect), (kind, effect), "{number}");
                assert!(!message.is_empty());
            }
        }
    }

    #[test]
    fn a_number_that_is_not_listed_has_an_unknown_effect() {
        let listed: HashSet<_> = CODES.all().collect();
        for number in 0..=u16::MAX {
            let (kind, effect, _) = meaning(number);
            if !listed.contains(&number) {
                assert_eq!(
                    (kind, effect),
                    (ErrorKind::Other, Effect::Unknown),
                    "{number}"
                );
            }
        }
    }

    #[test]
    fn no_number_is_listed_twice() {
        let mut seen = HashSet::new();
        for number in CODES.all() {
            assert!(seen.insert(number), "{number}");
        }
    }
}
