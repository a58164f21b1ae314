//! The statements of one store.

use std::fmt::Write;
use std::sync::Arc;

use idem_core::backend::MAX_LOCK_WAIT;
use idem_sql::parameters::{Parameter, Placeholder, compile};
use idem_sql::schema::fnv_1a;

use crate::config::Config;
use crate::sql;
use crate::sqlstate::{ENDED, MIXED_UP, STANDBY};

idem_sql::statements! {
    listed;
    single: Statement, of &str {
        insert: sql::INSERT,
        probe: sql::PROBE,
        lookup: sql::LOOKUP,
        lookup_many: sql::LOOKUP_MANY,
        claim: sql::CLAIM,
        finished: sql::FINISHED,
        insert_many: sql::INSERT_MANY,
        claim_many: sql::CLAIM_MANY,
        abandon: sql::ABANDON,
        seal: sql::SEAL,
        seal_begun: sql::SEAL_BEGUN,
        finish_many: sql::FINISH_MANY,
        owned: sql::OWNED,
        release: sql::RELEASE,
        renew: sql::RENEW,
        free: sql::FREE,
        get: sql::GET,
        get_many: sql::GET_MANY,
        replicated: sql::REPLICATED,
        replicated_mark: sql::REPLICATED_MARK,
        delete_expired: sql::DELETE_EXPIRED,
        fail_abandoned: sql::FAIL_ABANDONED,
        summary: sql::SUMMARY,
        list: sql::LIST,
        force: sql::FORCE,
        rewrite: sql::REWRITE,
        checkpoint: sql::CHECKPOINT,
        last_checkpoint: sql::LAST_CHECKPOINT,
        advance: sql::ADVANCE,
        watermark: sql::WATERMARK,
        delete_expired_watermarks: sql::DELETE_EXPIRED_WATERMARKS,
    }
}

idem_sql::statements_by_kind!(Statement);

impl Statements {
    pub(crate) fn new(config: &Config) -> Self {
        let [table, marks] = [config.qualified_table(), config.qualified_marks()];
        // Only letters, digits and an underscore.
        let channel = config.channel();
        let named = |template: &str| {
            let named = template.replace("{table}", &table);
            let named = named.replace("{marks}", &marks).replace("{ended}", ENDED);
            notified(&named.replace("{channel}", &channel), config.notifies())
        };
        Self::of(|template| Statement::new(&named(template)))
    }
}

/// Fills in `{notified:…:}` where changes are notified, and removes it where they are not.
fn notified(template: &str, notifies: bool) -> String {
    let mut parts = template.split("{notified:");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (notified, rest) = part.split_once(":}").unwrap_or((part, ""));
        if notifies {
            text.push_str(notified);
        }
        text.push_str(rest);
    }
    text
}

/// One statement. Only the validated names of the tables, and numbers, were put into it.
#[derive(Debug, Clone)]
pub(crate) struct Statement(Arc<Texts>);

impl Statement {
    fn new(template: &str) -> Self {
        let (template, parameters) = compile(template, Placeholder::Numbered("$"));
        Self(Arc::new(Texts::new(&template, parameters)))
    }

    /// Returns the parameters in the order of their numbers. The arrays of a batch are none.
    pub(crate) fn parameters(&self) -> &[Parameter] {
        &self.0.parameters
    }

    /// Returns the text for a statement that commits by itself.
    pub(crate) fn alone(&self) -> &Text {
        &self.0.alone
    }

    /// Returns the text for a caller's transaction: after the mark it takes how long it waits for a
    /// lock.
    pub(crate) fn within(&self) -> &Text {
        &self.0.within
    }
}

#[derive(Debug)]
struct Texts {
    parameters: Vec<Parameter>,
    alone: Text,
    within: Text,
}

/// A text, and the mark that is its last value, or its last but one.
///
/// A pooler that mixes prepared statements up sends the values of one statement to another, which a
/// driver on the other side has prepared under the same name. So each statement compares its mark
/// with the one that it was made with, before anything else, and fails where they differ: `{mine}`
/// is then a number that cannot be read.
///
/// A mark is a hash of the text, tables included, so the same statement of another process counts
/// as this one. The mark is no UTF-8, and of a length that no number, date or UUID has. So a
/// foreign statement refuses it, unless it takes just as many values and a `bytea` there.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) sql: Arc<str>,
    pub(crate) mark: [u8; 9],
    /// Whether the wait for locks is its last value.
    pub(crate) takes_wait: bool,
}

impl Text {
    fn new(text: &str, takes_wait: bool) -> Self {
        let number = values(text) + 1;
        let mark = mark(text);
        let digits = mark.iter().fold(String::new(), |mut digits, byte| {
            // Writing into a string never fails.
            let _ = write!(digits, "{byte:02x}");
            digits
        });
        let mine = format!(
            "CAST(CASE WHEN ${number} = pg_catalog.decode('{digits}', 'hex') THEN '0' \
             ELSE '{MIXED_UP}' END AS bigint)"
        );
        // Not a CASE of numbers: the server would compute each of them when it plans the statement.
        let primary = mine.replace(
            "THEN '0' ELSE",
            &format!(
                "THEN CASE WHEN pg_catalog.pg_is_in_recovery() THEN '{STANDBY}' ELSE '0' END ELSE"
            ),
        );
        let text = text.replace("{mine}", &mine);
        let text = text.replace("{primary}", &primary);
        let text = text.replace("{wait}", &format!("${}", number + 1));
        Self {
            sql: text.into(),
            mark,
            takes_wait,
        }
    }
}

/// Returns the greatest number of a value in the text.
fn values(text: &str) -> usize {
    let numbers = text.split('$').skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    });
    numbers.max().unwrap_or(0)
}

/// Returns a hash of the text, after a byte that no UTF-8 contains.
fn mark(text: &str) -> [u8; 9] {
    let mut mark = [0xff; 9];
    mark[1..].copy_from_slice(&fnv_1a(text).to_be_bytes());
    mark
}

impl Texts {
    fn new(template: &str, parameters: Vec<Parameter>) -> Self {
        let longest = format!("{}ms", MAX_LOCK_WAIT.as_millis());
        let bound = format!("pg_catalog.set_config('lock_timeout', '{longest}', true)");
        let alone = restoring(&template.replace("{bound}", &bound), "");
        // The caller's own bound is kept where it is shorter; 0 means no bound.
        let before = "pg_catalog.current_setting('lock_timeout')";
        let wait = "CAST({wait} AS pg_catalog.text)";
        let shorter = format!(
            "{before} AS before, pg_catalog.set_config('lock_timeout', CASE
        WHEN CAST({before} AS interval) BETWEEN interval '1 ms' AND CAST({wait} AS interval)
        THEN {before} ELSE {wait} END, true)"
        );
        let within = template.replace("{bound}", &shorter);
        let restores =
            "\nFROM clock WHERE pg_catalog.set_config('lock_timeout', before, true) IS NULL";
        Self {
            parameters,
            alone: Text::new(&alone, false),
            within: Text::new(&restoring(&within, restores), template.contains("{bound}")),
        }
    }
}

/// Puts the earlier setting back, where `{restore:columns}` stands: as the last branch of the
/// statement, which runs when the others were read to their end, and has no row.
///
/// "Append" nodes run their children in order:
/// <https://github.com/postgres/postgres/blob/master/src/backend/executor/nodeAppend.c>.
fn restoring(template: &str, restores: &str) -> String {
    let Some((before, rest)) = template.split_once("{restore:") else {
        return template.to_owned();
    };
    let (columns, after) = rest.split_once('}').unwrap_or((rest, ""));
    if restores.is_empty() {
        return format!("{before}{after}");
    }
    let columns = vec!["NULL"; columns.parse().unwrap_or(1)].join(", ");
    format!("{before}\nUNION ALL\nSELECT {columns}{restores}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Notifications;

    #[test]
    fn changes_are_notified_where_configured() {
        let plain = Config::new();
        let notifying = plain.clone().with_notifications(Notifications::Changes);
        for (config, notifies) in [(plain, false), (notifying, true)] {
            let sql = Statements::new(&config);
            for statement in [&sql.seal, &sql.finish_many, &sql.release] {
                assert_eq!(statement.alone().sql.contains("pg_notify('idem_"), notifies);
            }
            assert!(!sql.claim.alone().sql.contains("pg_notify"));
        }
    }

    #[test]
    fn nothing_is_left_to_be_put_in_and_each_statement_has_a_mark_of_its_own() {
        let mut marks = std::collections::HashSet::new();
        let other = Config::new().with_table("other").unwrap();
        for config in [Config::new(), other] {
            let sql = Statements::new(&config);
            for statement in sql.single() {
                let alone = statement.alone();
                assert!(!alone.sql.contains(['{', '}']), "{}", alone.sql);
                assert!(alone.sql.contains(MIXED_UP), "{}", alone.sql);
                assert!(marks.insert(alone.mark), "{}", alone.sql);
                let within = statement.within();
                assert!(!within.sql.contains(['{', '}']), "{}", within.sql);
                assert_eq!(within.takes_wait, alone.mark != within.mark);
            }
        }
    }

    /// No string has a backslash, so it means the same with `standard_conforming_strings` off.
    #[test]
    fn no_text_depends_on_how_strings_are_escaped() {
        for statement in Statements::new(&Config::new()).single() {
            assert!(!statement.alone().sql.contains('\\'));
            assert!(!statement.within().sql.contains('\\'));
        }
    }
}
