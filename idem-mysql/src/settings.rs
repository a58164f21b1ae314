//! The settings of a session: what `connect` sets on its own connections, and what the store
//! refuses on a caller's pool.

use std::sync::Arc;

use idem_core::Result;
use idem_sql::schema::misconfigured;
use idem_sql::sqlx::Ready;
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::config::Config;
use crate::error::{Access, classify, decode};

/// Modes of MariaDB under which an empty text is NULL, or a statement changes its meaning.
const UNSUITABLE_MODES: [&str; 2] = ["EMPTY_STRING_IS_NULL", "ORACLE"];

/// A session that cuts answers off below this many rows may hide a record from the store.
const FEWEST_ROWS: u64 = 10_000;

/// Returns the settings of every session of `connect`, including the pool for callers'
/// transactions, as one text, so that they cost a new connection one round trip. They exclude
/// sessions that undo a commit, refuse writes, or cut off an answer.
///
/// The comments are executed by one of the servers: `/*!80000 … */` by MySQL, `/*M! … */` by
/// MariaDB (<https://mariadb.com/kb/en/comment-syntax/>).
pub(crate) fn for_pool(config: &Config) -> String {
    let seconds = (config.timeout().as_secs() / 2).clamp(1, 1 << 20);
    let mut settings = format!(
        "SET SESSION autocommit = 1, SESSION completion_type = 0, SESSION innodb_lock_wait_timeout = 1, \
         SESSION lock_wait_timeout = {seconds}, SESSION sql_select_limit = 18446744073709551615, \
         SESSION sql_mode = REPLACE(REPLACE(CAST(@@sql_mode AS CHAR), 'EMPTY_STRING_IS_NULL', ''), \
         'ORACLE', ''); \
         SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"
    );
    if let Some(bits) = config.wsrep_sync_wait() {
        settings += &format!("; SET SESSION wsrep_sync_wait = {bits}");
    }
    settings
}

/// Returns the further settings of connections that only the store's statements use: everything as
/// these statements were tested.
pub(crate) fn for_own(config: &Config) -> String {
    for_pool(config)
        + "; SET SESSION sql_mode = 'STRICT_ALL_TABLES', NAMES utf8mb4, SESSION optimizer_switch = 'default', \
           SESSION sql_safe_updates = 0, SESSION sql_big_selects = 1, SESSION sql_auto_is_null = 0, \
           SESSION unique_checks = 1, SESSION foreign_key_checks = 1, SESSION wait_timeout = 28800 \
           /*!80000 , SESSION max_execution_time = 0 */ /*M! , SESSION max_statement_time = 0 */"
}

/// Sets these settings on a new connection.
pub(crate) fn set<'c>(connection: &'c mut MySqlConnection, settings: &Arc<str>) -> Ready<'c> {
    let settings = AssertSqlSafe(Arc::clone(settings));
    Box::pin(async move { connection.execute(settings).await.map(drop) })
}

/// Reads the session's settings that [`refusal`] judges.
const READ: &str = "SELECT CAST(@@autocommit AS SIGNED), CAST(@@completion_type AS BINARY), \
                    CAST(@@sql_select_limit AS BINARY), CAST(@@sql_mode AS BINARY)";

/// Refuses a session of a caller's pool under which the store's answers would be untrue. The caller
/// may use the session for other work too, so the store sets nothing in it.
pub(crate) async fn check(connection: &mut MySqlConnection) -> Result<()> {
    let row = connection.fetch_one(READ).await;
    let row = row.map_err(|error| classify(error, Access::Read))?;
    match refusal(&Session::of(&row)?) {
        Some(message) => Err(misconfigured(message)),
        None => Ok(()),
    }
}

#[derive(Debug, Clone)]
struct Session {
    autocommit: i64,
    completion_type: String,
    select_limit: u64,
    sql_mode: String,
}

impl Session {
    fn of(row: &MySqlRow) -> Result<Self> {
        let number = |index| row.try_get_unchecked::<i64, usize>(index).map_err(decode);
        let text = |index: usize| -> Result<String> {
            let bytes: &[u8] = row.try_get_unchecked(index).map_err(decode)?;
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        Ok(Self {
            autocommit: number(0)?,
            completion_type: text(1)?,
            // A limit that cannot be read is not a small one.
            select_limit: text(2)?.parse().unwrap_or(u64::MAX),
            sql_mode: text(3)?,
        })
    }
}

fn refusal(session: &Session) -> Option<String> {
    if session.autocommit == 0 {
        return Some(
            "autocommit is off, so nothing would be kept; set autocommit = 1 on the server or in the pool's \
             `after_connect`"
                .to_owned(),
        );
    }
    if !["NO_CHAIN", "0"].contains(&session.completion_type.as_str()) {
        return Some(format!(
            "completion_type is {}, so statements after a commit would not be kept; set completion_type = \
             'NO_CHAIN' on the server or in the pool's `after_connect`",
            session.completion_type
        ));
    }
    if session.select_limit < FEWEST_ROWS {
        return Some(format!(
            "sql_select_limit is {}, so records would not be found; set sql_select_limit = DEFAULT in the pool's \
             `after_connect`",
            session.select_limit
        ));
    }
    let mut modes = session.sql_mode.split(',');
    let mode = modes.find(|mode| UNSUITABLE_MODES.contains(mode))?;
    Some(format!(
        "sql_mode has {mode}, under which statements mean something else; take it out for this user or pool"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_changes_the_meaning_of_statements_is_named() {
        let plain = Session {
            autocommit: 1,
            completion_type: "NO_CHAIN".to_owned(),
            select_limit: 1_000_000,
            sql_mode: "STRICT_TRANS_TABLES,ANSI_QUOTES".to_owned(),
        };
        assert_eq!(refusal(&plain), None);
        let refused = |change: fn(&mut Session)| {
            let mut session = plain.clone();
            change(&mut session);
            refusal(&session).unwrap_or_default()
        };
        assert!(refused(|session| session.autocommit = 0).contains("autocommit"));
        assert!(refused(|session| session.completion_type = "CHAIN".into()).contains("CHAIN"));
        assert!(refused(|session| session.select_limit = 1).contains("sql_select_limit"));
        assert!(refused(|session| session.sql_mode = "ANSI,ORACLE".into()).contains("ORACLE"));
    }
}
