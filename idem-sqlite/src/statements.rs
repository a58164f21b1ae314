//! The statements of one store.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::config::Config;
use crate::sql;

/// The statements with the tables' names put in, shared by all clones of a store.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) held: Statement,
    pub(crate) acquire: Statement,
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

/// One statement's text. Nothing but the validated names of the tables was put into it.
#[derive(Debug)]
pub(crate) struct Statement(Arc<str>);

impl Statement {
    pub(crate) fn text(&self) -> SqlStr {
        AssertSqlSafe(Arc::clone(&self.0)).into_sql_str()
    }
}
