//! The tables and their indexes as text.

use std::time::Duration;

use idem_sql::schema::Table;

use crate::config::Config;
use crate::statements::{END_AT_AN_ERROR, SETTINGS};

/// The version of the schema that this crate works with.
pub const SCHEMA_VERSION: u32 = 1;

const RECORDS: &str = include_str!("schema.sql");
const MARKS: &str = include_str!("schema_marks.sql");

/// Returns the DDL as text, for applications that run their own migrations;
/// [`MssqlStore::migrate`](crate::MssqlStore::migrate) runs the same.
///
/// The text may run any number of times. The statements belong into one transaction.
///
/// There are three indexes: the clustered key, `purge_at`, and `sweep_at` for records that are in
/// flight and must not be taken over. The last one is filtered, so other writers to the table need
/// QUOTED_IDENTIFIER and the ANSI settings on, as they are by default. `purge_at` stays as the
/// claim set it while it is late by at most an eighth of the retention, so that a completion writes
/// no index except the clustered one. The key has at most 638 of the 900 bytes that it may have.
#[must_use]
pub fn schema_sql(config: &Config) -> String {
    let schema = config
        .schema()
        .map(|schema| {
            format!("IF SCHEMA_ID(N'{schema}') IS NULL\nBEGIN\n    EXEC sp_executesql N'CREATE SCHEMA [{schema}]';\nEND;\n")
        })
        .unwrap_or_default();
    schema + &tables(config).map(|table| table.ddl).concat()
}

pub(crate) fn tables(config: &Config) -> [Table; 2] {
    let quoted = [config.qualified_table(), config.qualified_marks()];
    let records = RECORDS.replace("{version_table}", &config.qualified_version_table());
    Table::both(config.table(), quoted, [&records, MARKS])
}

/// Returns how long the server waits for the lock of a migration: nine tenths of the client's time.
/// So the server gives up first, and reports that nothing was done.
fn wait(config: &Config) -> Duration {
    config.timeout() / 10 * 9
}

/// Returns the script that creates the schema under its own table's lock, which ends with the
/// transaction.
pub(crate) fn create_script(config: &Config) -> String {
    format!(
        "{END_AT_AN_ERROR}{SETTINGS}BEGIN TRANSACTION;
DECLARE @locked int;
EXEC @locked = sp_getapplock @Resource = N'idem {}', @LockMode = N'Exclusive', @LockOwner = N'Transaction', \
         @LockTimeout = {};
IF @locked >= 0
BEGIN
{}END;
COMMIT TRANSACTION;
SELECT @locked;
",
        config.qualified_table(),
        wait(config).as_millis().clamp(1, 0x7fff_ffff),
        schema_sql(config)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_migration_waits_less_for_its_lock_than_the_client_for_the_server() {
        let config = Config::new().with_timeout(Duration::from_secs(2));
        assert!(create_script(&config).contains("@LockTimeout = 1800;"));
        let longest = Config::new().with_timeout(Duration::MAX);
        assert!(create_script(&longest).contains("@LockTimeout = 2147483647;"));
    }

    #[test]
    fn printed_schema_names_the_configured_table() {
        let config = Config::new()
            .with_schema("billing")
            .and_then(|config| config.with_table("dedup"))
            .unwrap();
        let sql = schema_sql(&config);
        assert!(sql.starts_with("IF SCHEMA_ID(N'billing') IS NULL\n"));
        assert!(sql.contains("CREATE TABLE [billing].[dedup] ("));
        assert!(sql.contains("IF OBJECT_ID(N'[billing].[dedup_watermarks]', N'U') IS NULL"));
        assert!(sql.contains("CREATE TABLE [billing].[dedup_watermarks] ("));
        assert!(sql.contains("[dedup_marks_at] ON [billing].[dedup_watermarks]"));
        assert!(sql.contains("[dedup_purge_at] ON [billing].[dedup]"));
        assert!(sql.contains("INSERT INTO [billing].[dedup_version]"));
        assert!(sql.contains(&format!("VALUES ({SCHEMA_VERSION})")));
        assert!(!sql.contains('{'));
        assert!(!schema_sql(&Config::new()).contains("SCHEMA_ID"));
    }

    #[test]
    fn the_needed_columns_are_read_from_the_ddl() {
        let [records, marks] = tables(&Config::new());
        assert_eq!((records.columns().len(), marks.columns().len()), (16, 5));
        let (first, last) = (&records.columns()[0], &records.columns()[15]);
        assert_eq!(first.definition, "varbinary(255) NOT NULL");
        assert_eq!((last.name, last.is_nullable), ("result", true));
    }
}
