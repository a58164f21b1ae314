//! The statements of one store.

use std::sync::Arc;

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::sql;

/// The statements with the table's name put in, shared by all clones of a store.
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
}

impl Statements {
    /// `table` is the quoted name.
    pub(crate) fn new(table: &str) -> Self {
        let statement = |template: &str| Statement(template.replace("{table}", table).into());
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
        }
    }
}

/// One statement's text. Nothing but the validated name of the table was put into it.
#[derive(Debug)]
pub(crate) struct Statement(Arc<str>);

impl Statement {
    pub(crate) fn text(&self) -> SqlStr {
        AssertSqlSafe(Arc::clone(&self.0)).into_sql_str()
    }
}
