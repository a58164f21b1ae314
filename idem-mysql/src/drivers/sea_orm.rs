//! SeaORM, which has sqlx underneath.

use idem_core::Result;
pub(super) use idem_sql::sea_orm::driver_error;
use idem_sql::sea_orm::{Dialect, SeaOrm};
use sea_orm::{DatabaseTransaction, DbBackend, QueryResult};
use sqlx::mysql::MySqlRow;

use super::connected::Connected;
use super::{BoxExecutor, returns_rows};
use crate::error::meaning_of;

static DIALECT: Dialect<MySqlRow> = Dialect {
    backend: DbBackend::MySql,
    name: "MySQL or MariaDB",
    texts_are_bytes: true,
    returns_rows: |text, _| returns_rows(text),
    row: QueryResult::try_as_mysql_row,
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
