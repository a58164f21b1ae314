//! SeaORM, which has sqlx underneath.

use idem_core::Result;
pub(super) use idem_sql::sea_orm::driver_error;
use idem_sql::sea_orm::{Dialect, SeaOrm};
use sea_orm::{DatabaseTransaction, DbBackend, QueryResult};
use sqlx::sqlite::SqliteRow;

use super::BoxExecutor;
use super::connected::Connected;
use crate::error::meaning_of;

static DIALECT: Dialect<SqliteRow> = Dialect {
    backend: DbBackend::Sqlite,
    name: "SQLite",
    texts_are_bytes: false,
    returns_rows: |_, _| true,
    row: QueryResult::try_as_sqlite_row,
    meaning: meaning_of,
};

impl Connected for DatabaseTransaction {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(Box::new(SeaOrm::new(self, &DIALECT)?))
    }
}

impl Connected for &DatabaseTransaction {
    fn executor(&mut self) -> Result<BoxExecutor<'_>> {
        Ok(Box::new(SeaOrm::new(self, &DIALECT)?))
    }
}
