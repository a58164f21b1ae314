//! The statements of one store.

use std::fmt;
use std::sync::OnceLock;

use idem_core::Key;
use idem_sql::executor::Statement;
use idem_sql::parameters::{Parameter, Placeholder, Value, compile};

use crate::config::Config;
use crate::sql::{self, List};

const PLACEHOLDER: Placeholder = Placeholder::Repeated("?");

/// The server's way to fail a statement that meets a lock: see [`sql`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    MariaDb,
    MySql,
}

/// For each placeholder in the statements' texts, the text of MariaDB and that of MySQL. MySQL's
/// texts name the key once more.
const PLACES: [(&str, &str, &str); 6] = [
    (
        "{brief}",
        "SET STATEMENT innodb_lock_wait_timeout = 0 FOR ",
        "",
    ),
    (
        "{free}",
        "",
        "\n    AND (SELECT free FROM (SELECT 1 AS free FROM {table} \
         WHERE scope = {scope} AND operation = {operation} AND id = {id} FOR UPDATE NOWAIT) AS probe)",
    ),
    (
        "{free_mark}",
        "",
        "\n    AND (SELECT free FROM (SELECT 1 AS free FROM {marks} \
         WHERE scope = {scope} AND operation = {operation} AND id = {id} FOR UPDATE NOWAIT) AS probe)",
    ),
    (
        "{probe_mark}",
        "",
        " + (SELECT 0 * COUNT(*) FROM (SELECT 1 FROM {marks} \
         WHERE scope = {scope} AND operation = {operation} AND id = {id} FOR UPDATE NOWAIT) AS probe)",
    ),
    (
        "{free_keys}",
        "",
        "\n    AND (SELECT free FROM (SELECT 1 + COUNT(*) AS free FROM {table} \
         WHERE {keys} FOR UPDATE NOWAIT) AS probe)",
    ),
    // NULL, which the column refuses (1048), where the probe would lock a gap: at every level
    // except READ-COMMITTED and READ-UNCOMMITTED. They are compared as bytes, because a text has
    // the character set of the session.
    (
        "{probe_in}",
        "",
        " + IF(CAST(@@transaction_isolation AS BINARY) IN (\
         x'524541442D434F4D4D4954544544', x'524541442D554E434F4D4D4954544544'), \
         (SELECT 0 * COUNT(*) FROM (SELECT 1 FROM {table} \
         WHERE scope = {scope} AND operation = {operation} AND id = {id} FOR UPDATE NOWAIT) AS probe), NULL)",
    ),
];

/// In the first row of an INSERT: a probe for all of its [`sql::KEYS`].
const PROBE: (&str, &str, &str) = (
    "{probe}",
    "",
    " + (SELECT 0 * COUNT(*) FROM (SELECT 1 FROM {table} WHERE {keys} FOR UPDATE NOWAIT) AS probe)",
);

fn spelled(dialect: Dialect, text: &str, placeholders: &[(&str, &str, &str)]) -> String {
    placeholders
        .iter()
        .fold(text.to_owned(), |text, (placeholder, maria, my)| {
            let words = match dialect {
                Dialect::MariaDb => maria,
                Dialect::MySql => my,
            };
            text.replace(placeholder, words)
        })
}

idem_sql::statements! {
    single: Statement, of &str {
        lookup: sql::LOOKUP,
        lookup_in: sql::LOOKUP_IN,
        insert: sql::INSERT,
        insert_plain: sql::INSERT_PLAIN,
        insert_returning: sql::INSERT_RETURNING,
        take: sql::TAKE,
        abandon: sql::ABANDON,
        seal: sql::SEAL,
        owned: sql::OWNED,
        release: sql::RELEASE,
        renew: sql::RENEW,
        lease: sql::LEASE,
        get: sql::GET,
        expired: sql::EXPIRED,
        abandoned: sql::ABANDONED,
        summary: sql::SUMMARY,
        list: sql::LIST,
        force: sql::FORCE,
        rewrite: sql::REWRITE,
        checkpoint: sql::CHECKPOINT,
        last_checkpoint: sql::LAST_CHECKPOINT,
        watermark: sql::WATERMARK,
        first_mark: sql::FIRST_MARK,
        first_mark_plain: sql::FIRST_MARK_PLAIN,
        raise: sql::RAISE,
        expired_watermarks: sql::EXPIRED_WATERMARKS,
    }
    latest: Statement, of &str {
        lookup_latest: sql::LOOKUP,
        owned_latest: sql::OWNED,
        last_checkpoint_latest: sql::LAST_CHECKPOINT,
        watermark_latest: sql::WATERMARK,
    }
    keyed: Repeated, of &str {
        lookup_many: sql::LOOKUP_MANY,
        delete_expired: sql::DELETE_EXPIRED,
        fail_abandoned: sql::FAIL_ABANDONED,
        delete_expired_watermarks: sql::DELETE_EXPIRED_WATERMARKS,
    }
    repeated: Repeated, of (&str, &'static [List]) {
        insert_new: (sql::INSERT_NEW, &[sql::INSERT_ROWS, sql::KEYS]),
        finish_many: (sql::FINISH_MANY, &[sql::FINISHES, sql::RESULTS, sql::KEYS]),
    }
    + {
        dialect: Dialect,
    }
}

idem_sql::statements_by_kind!(Statement);

impl Statements {
    pub(crate) fn new(config: &Config, dialect: Dialect) -> Self {
        let [table, marks] = [config.qualified_table(), config.qualified_marks()];
        let text = |template: &str| {
            let spelled = spelled(dialect, template, &[PROBE]);
            let spelled = self::spelled(dialect, &spelled, &PLACES);
            let named = spelled.replace("{table}", &table);
            named.replace("{marks}", &marks)
        };
        let probe = text(PROBE.0);
        let repeated = |(template, lists): (&str, _)| Repeated::new(&text(template), lists, &probe);
        Self::of(
            |template| Statement::new(&text(template), PLACEHOLDER),
            // In a caller's transaction, whose snapshot may be older than what a write has met.
            // That write has locked the row already.
            |template| {
                let read = text(template);
                let read = read
                    .strip_prefix('(')
                    .and_then(|read| read.strip_suffix(')'));
                let latest = format!("{} FOR UPDATE NOWAIT", read.unwrap_or_default());
                Statement::new(&latest, PLACEHOLDER)
            },
            |template| repeated((template, &[sql::KEYS])),
            repeated,
            dialect,
        )
    }

    /// Adds the key of one item to the values of a batch's probe, where the server needs one.
    pub(crate) fn add_probe<'v>(&self, values: &mut Vec<Value<'v>>, key: &'v Key) {
        if self.dialect == Dialect::MySql {
            add_key(values, key);
        }
    }
}

/// The numbers of items for which there is a statement: few enough texts for the driver's cache,
/// and a list is filled up by a third at most.
const SIZES: [usize; 18] = [
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512,
];

/// The most items of one statement.
pub(crate) const MAX_ITEMS: usize = SIZES[SIZES.len() - 1];

/// A statement for several items, in a few sizes, so that few texts are prepared. A list is filled
/// up by repeating its last item, which changes nothing.
pub(crate) struct Repeated {
    template: String,
    lists: Vec<(&'static List, Item)>,
    /// The part that only the first item has.
    probe: String,
    made: [OnceLock<Statement>; SIZES.len()],
}

/// The text of a list's item, and its parameters.
struct Item {
    text: String,
    parameters: Vec<Parameter>,
}

impl Repeated {
    fn new(template: &str, lists: &'static [List], probe: &str) -> Self {
        let item = |list: &'static List| {
            let (text, parameters) = compile(list.item, PLACEHOLDER);
            (list, Item { text, parameters })
        };
        Self {
            template: compile(template, PLACEHOLDER).0,
            lists: lists.iter().map(item).collect(),
            probe: compile(probe, PLACEHOLDER).0,
            made: [const { OnceLock::new() }; SIZES.len()],
        }
    }

    /// Returns the statement for at least `items` items, at most [`MAX_ITEMS`], and its size.
    pub(crate) fn at_least(&self, items: usize) -> (&Statement, usize) {
        let index = SIZES.partition_point(|&size| size < items);
        let index = index.min(SIZES.len() - 1);
        let size = SIZES[index];
        let statement = self.made[index].get_or_init(|| {
            let fill = |text: String, (list, item): &(&List, Item)| {
                let items = vec![&*item.text; size].join(list.separator);
                let items = items.replacen(PROBE.0, &self.probe, 1);
                text.replace(list.placeholder, &items.replace(PROBE.0, ""))
            };
            let text = self.lists.iter().fold(self.template.clone(), fill);
            Statement::new(&text, PLACEHOLDER)
        });
        (statement, size)
    }

    /// Returns the parameters of one item of the first list.
    pub(crate) fn item(&self) -> &[Parameter] {
        let first = self.lists.first();
        first.map_or(&[], |(_, item)| &item.parameters)
    }
}

impl fmt::Debug for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Repeated").field(&self.template).finish()
    }
}

/// Returns the items, then the last one again up to this size.
pub(crate) fn filled_up<T>(items: &[T], size: usize) -> impl Iterator<Item = &T> {
    let last = items.last();
    items
        .iter()
        .chain(std::iter::repeat_with(move || last).flatten())
        .take(if items.is_empty() { 0 } else { size })
}

/// Adds scope, operation and id.
pub(crate) fn add_key<'v>(values: &mut Vec<Value<'v>>, key: &'v Key) {
    values.extend([key.scope(), key.operation(), key.id()].map(Value::Text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_at_most_a_third_too_large() {
        let statements = Statements::new(&Config::new(), Dialect::MySql);
        for (items, size) in [
            (0, 1),
            (1, 1),
            (2, 2),
            (5, 6),
            (500, 512),
            (512, 512),
            (9_999, 512),
        ] {
            let (statement, found) = statements.delete_expired.at_least(items);
            assert_eq!(found, size);
            assert_eq!(statement.text().matches("scope = ?").count(), size);
            assert!(!statement.text().contains('{'));
        }
        for items in 1..=512 {
            let (_, size) = statements.delete_expired.at_least(items);
            assert!(size >= items && 3 * (size - items) <= size, "{items}");
        }
    }

    /// A pooler may send the next statement to the server on another session.
    #[test]
    fn no_statement_leaves_anything_to_the_session() {
        let texts = [Dialect::MariaDb, Dialect::MySql]
            .map(|dialect| format!("{:?}", Statements::new(&Config::new(), dialect)))
            .join("\n")
            .to_uppercase()
            // The statement reads it; only the caller sets it.
            .replace("@@TRANSACTION_ISOLATION", "");
        for session in [
            "@",
            // With an argument nothing is read: the value comes back in the statement's own answer.
            "LAST_INSERT_ID()",
            "GET_LOCK",
            "TEMPORARY",
            "FOUND_ROWS",
            "ROW_COUNT",
            "NOW()",
            "NOW(6)",
            "||",
        ] {
            assert!(!texts.contains(session), "{session}");
        }
        assert!(texts.contains("UTC_TIMESTAMP(6)"));
    }

    /// MariaDB's text begins with it; on MySQL a probe takes the lock before the statement.
    #[test]
    fn no_statement_that_changes_a_row_waits_for_its_lock() {
        for dialect in [Dialect::MariaDb, Dialect::MySql] {
            let all = Statements::new(&Config::new(), dialect);
            for many in [&all.insert_new, &all.finish_many] {
                let (statement, _) = many.at_least(3);
                assert!(
                    does_not_wait(statement.text(), dialect),
                    "{}",
                    statement.text()
                );
                assert_eq!(
                    statement.text().matches("AS probe").count(),
                    usize::from(dialect == Dialect::MySql)
                );
                assert!(!statement.text().contains('{'), "{}", statement.text());
            }
            for one in [
                &all.insert,
                &all.take,
                &all.abandon,
                &all.seal,
                &all.release,
                &all.renew,
                &all.checkpoint,
                &all.first_mark,
                &all.raise,
                &all.owned_latest,
                &all.lookup_latest,
                &all.watermark_latest,
                &all.last_checkpoint_latest,
            ] {
                assert!(does_not_wait(one.text(), dialect), "{}", one.text());
                assert!(!one.text().contains('{'), "{}", one.text());
            }
        }
    }

    fn does_not_wait(text: &str, dialect: Dialect) -> bool {
        let brief = text.starts_with("SET STATEMENT innodb_lock_wait_timeout = 0 FOR ");
        text.contains("FOR UPDATE NOWAIT") || brief && dialect == Dialect::MariaDb
    }

    #[test]
    fn a_list_is_filled_up_with_its_last_item() {
        let filled: Vec<_> = filled_up(&[1, 2, 3], 4).copied().collect();
        assert_eq!(filled, [1, 2, 3, 3]);
        assert_eq!(filled_up::<u8>(&[], 4).count(), 0);
    }
}
