//! The statements of one store.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::config::Config;
use crate::sql;

/// How many claims one statement inserts at most.
pub(crate) const INSERTED_AT_MOST: usize = 256;

/// The statements with the tables' names put in, shared by all clones of a store.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) held: Statement,
    pub(crate) acquire: Statement,
    pub(crate) exhausted: Statement,
    /// For 1 claim, 2, 4 and so on, up to [`INSERTED_AT_MOST`]: so few texts stay prepared.
    insert_many: Vec<Statement>,
    pub(crate) abandon: Statement,
    pub(crate) seal: Statement,
    pub(crate) owned: Statement,
    pub(crate) release: Statement,
    pub(crate) renew: Statement,
    pub(crate) get: Statement,
    pub(crate) purge: Statement,
    pub(crate) sweep: Statement,
    pub(crate) checkpoint: Statement,
    pub(crate) last_checkpoint: Statement,
    pub(crate) raised: Statement,
    pub(crate) raise: Statement,
    pub(crate) watermark: Statement,
    pub(crate) purge_watermarks: Statement,
}

impl Statements {
    pub(crate) fn new(config: &Config) -> Self {
        let [table, marks] = [config.quoted_table(), config.quoted_marks()];
        let named = |template: &str| {
            let named = template.replace("{table}", &table);
            named.replace("{marks}", &marks)
        };
        let statement = |template: &str| Statement(named(template).into());
        Self {
            held: statement(sql::HELD),
            acquire: statement(sql::ACQUIRE),
            exhausted: statement(sql::EXHAUSTED),
            insert_many: (0..=INSERTED_AT_MOST.ilog2())
                .map(|power| statement(&sql::insert_many(1 << power)))
                .collect(),
            abandon: statement(sql::ABANDON),
            seal: statement(sql::SEAL),
            owned: statement(sql::OWNED),
            release: statement(sql::RELEASE),
            renew: statement(sql::RENEW),
            get: statement(sql::GET),
            purge: statement(sql::PURGE),
            sweep: statement(sql::SWEEP),
            checkpoint: statement(sql::CHECKPOINT),
            last_checkpoint: statement(sql::LAST_CHECKPOINT),
            raised: statement(sql::RAISED),
            raise: statement(sql::RAISE),
            watermark: statement(sql::WATERMARK),
            purge_watermarks: statement(sql::PURGE_WATERMARKS),
        }
    }
}

impl Statements {
    /// The statement that inserts so many claims, at most [`INSERTED_AT_MOST`], and how many it has room for.
    pub(crate) fn insert_many(&self, claims: usize) -> (&Statement, usize) {
        let room = claims.next_power_of_two().min(INSERTED_AT_MOST);
        (&self.insert_many[room.ilog2() as usize], room)
    }
}

/// One statement's text. Nothing but the validated names of the tables was put into it.
#[derive(Debug)]
pub(crate) struct Statement(Arc<str>);

impl Statement {
    pub(crate) fn text(&self) -> SqlStr {
        AssertSqlSafe(Arc::clone(&self.0)).into_sql_str()
    }
}
