//! The statements of one store.

use std::fmt;
use std::sync::{Arc, OnceLock};

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::config::Config;
use crate::sql;

/// The statements with the tables' names put in, shared by all clones of a store.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) look: Statement,
    pub(crate) look_latest: Statement,
    pub(crate) look_many: Repeated,
    pub(crate) insert_new: Repeated,
    pub(crate) insert: Statement,
    pub(crate) insert_returning: Statement,
    pub(crate) take: Statement,
    pub(crate) abandon: Statement,
    pub(crate) seal: Statement,
    pub(crate) complete_many: Repeated,
    pub(crate) owned: Statement,
    pub(crate) owned_latest: Statement,
    pub(crate) release: Statement,
    pub(crate) renew: Statement,
    pub(crate) lease: Statement,
    pub(crate) get: Statement,
    pub(crate) purgeable: Statement,
    pub(crate) purge: Repeated,
    pub(crate) sweepable: Statement,
    pub(crate) sweep: Repeated,
    pub(crate) checkpoint: Statement,
    pub(crate) last_checkpoint: Statement,
    pub(crate) last_checkpoint_latest: Statement,
    pub(crate) mark: Statement,
    pub(crate) mark_latest: Statement,
    pub(crate) first_mark: Statement,
    pub(crate) raise: Statement,
    pub(crate) purgeable_watermarks: Statement,
    pub(crate) purge_watermarks: Repeated,
}

impl Statements {
    pub(crate) fn new(config: &Config) -> Self {
        let [table, marks] = [config.qualified_table(), config.qualified_marks()];
        let text = |template: &str| {
            let named = template.replace("{table}", &table);
            named.replace("{marks}", &marks)
        };
        let statement = |template: &str| Statement(text(template).into());
        let repeated = |template: &str, lists| Repeated::new(text(template), lists);
        let keys = |template| repeated(template, &[sql::KEYS]);
        Self {
            look: statement(sql::LOOK),
            look_latest: statement(sql::LOOK_LATEST),
            look_many: keys(sql::LOOK_MANY),
            insert_new: repeated(sql::INSERT_NEW, &[sql::INSERT_ROWS]),
            insert: statement(sql::INSERT),
            insert_returning: statement(sql::INSERT_RETURNING),
            take: statement(sql::TAKE),
            abandon: statement(sql::ABANDON),
            seal: statement(sql::SEAL),
            complete_many: repeated(sql::COMPLETE_MANY, &[sql::COMPLETIONS, sql::RESULTS]),
            owned: statement(sql::OWNED),
            owned_latest: statement(sql::OWNED_LATEST),
            release: statement(sql::RELEASE),
            renew: statement(sql::RENEW),
            lease: statement(sql::LEASE),
            get: statement(sql::GET),
            purgeable: statement(sql::PURGEABLE),
            purge: keys(sql::PURGE),
            sweepable: statement(sql::SWEEPABLE),
            sweep: keys(sql::SWEEP),
            checkpoint: statement(sql::CHECKPOINT),
            last_checkpoint: statement(sql::LAST_CHECKPOINT),
            last_checkpoint_latest: statement(sql::LAST_CHECKPOINT_LATEST),
            mark: statement(sql::MARK),
            mark_latest: statement(sql::MARK_LATEST),
            first_mark: statement(sql::FIRST_MARK),
            raise: statement(sql::RAISE),
            purgeable_watermarks: statement(sql::PURGEABLE_WATERMARKS),
            purge_watermarks: keys(sql::PURGE_WATERMARKS),
        }
    }
}

/// One statement's text. Nothing but the validated names of the tables was put into it.
#[derive(Debug, Clone)]
pub(crate) struct Statement(Arc<str>);

impl Statement {
    pub(crate) fn text(&self) -> SqlStr {
        AssertSqlSafe(Arc::clone(&self.0)).into_sql_str()
    }
}

/// For how many items there is a statement: few enough texts for the driver's cache, and a list is filled up by a third
/// at most.
const SIZES: [usize; 18] = [
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512,
];

/// Most items of one statement.
pub(crate) const MAX_ITEMS: usize = SIZES[SIZES.len() - 1];

/// What is repeated in a statement's text: once for each item, at this place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) place: &'static str,
    pub(crate) item: &'static str,
    pub(crate) separator: &'static str,
}

/// A statement for several items, in a few sizes, so that few texts are prepared; a list is filled up by repeating its
/// last item, which changes nothing.
pub(crate) struct Repeated {
    template: String,
    lists: &'static [List],
    made: [OnceLock<Statement>; SIZES.len()],
}

impl Repeated {
    fn new(template: String, lists: &'static [List]) -> Self {
        Self {
            template,
            lists,
            made: [const { OnceLock::new() }; SIZES.len()],
        }
    }

    /// The statement for at least so many items, at most [`MAX_ITEMS`], and for how many it is.
    pub(crate) fn at_least(&self, items: usize) -> (&Statement, usize) {
        let place = SIZES.partition_point(|&size| size < items);
        let place = place.min(SIZES.len() - 1);
        let size = SIZES[place];
        let statement = self.made[place].get_or_init(|| {
            let fill = |text: String, list: &List| {
                text.replace(list.place, &vec![list.item; size].join(list.separator))
            };
            Statement(self.lists.iter().fold(self.template.clone(), fill).into())
        });
        (statement, size)
    }
}

impl fmt::Debug for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Repeated").field(&self.template).finish()
    }
}

/// The items, and the last one again until there are so many.
pub(crate) fn filled_up<T>(items: &[T], size: usize) -> impl Iterator<Item = &T> {
    let last = items.last();
    items
        .iter()
        .chain(std::iter::repeat_with(move || last).flatten())
        .take(if items.is_empty() { 0 } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_at_most_a_third_too_large() {
        let statements = Statements::new(&Config::new());
        for (items, size) in [
            (0, 1),
            (1, 1),
            (2, 2),
            (5, 6),
            (500, 512),
            (512, 512),
            (9_999, 512),
        ] {
            let (statement, found) = statements.purge.at_least(items);
            assert_eq!(found, size);
            assert_eq!(statement.0.matches("scope = ?").count(), size);
            assert!(!statement.0.contains('{'));
        }
        for items in 1..=512 {
            let (_, size) = statements.purge.at_least(items);
            assert!(size >= items && 3 * (size - items) <= size, "{items}");
        }
    }

    /// A pooler may send the next statement to the server on another session.
    #[test]
    fn no_statement_leaves_anything_to_the_session() {
        let texts = format!("{:?}", Statements::new(&Config::new())).to_uppercase();
        for session in [
            "@",
            // With a value in it nothing is read: the value comes back in the statement's own answer.
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

    #[test]
    fn a_list_is_filled_up_with_its_last_item() {
        let filled: Vec<_> = filled_up(&[1, 2, 3], 4).copied().collect();
        assert_eq!(filled, [1, 2, 3, 3]);
        assert_eq!(filled_up::<u8>(&[], 4).count(), 0);
    }
}
