//! SeaORM, which has sqlx underneath.
//!
//! It prepares every statement with values, and sqlx keeps it prepared.

use idem_core::Result;
pub(super) use idem_sql::sea_orm::driver_error;
use idem_sql::sea_orm::{Dialect, SeaOrm};
use sea_orm::{DatabaseTransaction, DbBackend, QueryResult};
use sqlx::postgres::PgRow;

use super::BoxExecutor;
use super::connected::Connected;
use crate::error::meaning_of;

static DIALECT: Dialect<PgRow> = Dialect {
    backend: DbBackend::Postgres,
    name: "PostgreSQL",
    texts_are_bytes: false,
    returns_rows: |_, is_text| !is_text,
    row: QueryResult::try_as_pg_row,
    meaning: |error| meaning_of(error).0,
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
