//! Checks that tables and privileges are as the statements need them.

use std::collections::HashMap;

use idem_core::{Effect, Error, ErrorKind, Result};
use idem_sql::schema::misconfigured;
use sqlx::Row;

use crate::error::{Access, decode};
use crate::store::MySqlStore;

/// A column: its name, type, the bytes that it has to take, and whether it may be NULL.
type Column = (&'static str, &'static str, i64, bool);

const RECORDS: &[Column] = &[
    ("token", "bigint", 0, false),
    ("created_at", "bigint", 0, false),
    ("lease_ends_at", "bigint", 0, false),
    ("expires_at", "bigint", 0, false),
    ("purge_at", "bigint", 0, false),
    ("sealed_at", "bigint", 0, true),
    ("sweep_at", "bigint", 0, true),
    ("attempts", "int", 0, false),
    ("state", "tinyint", 0, false),
    ("scope", "varbinary", 255, false),
    ("operation", "varbinary", 128, false),
    ("id", "varbinary", 255, false),
    ("fingerprint", "varbinary", 33, false),
    ("attempt_id", "binary", 16, false),
    ("metadata", "mediumblob", 0, true),
    ("result", "longblob", 0, true),
];

const MARKS: &[Column] = &[
    ("version", "bigint", 0, false),
    ("expires_at", "bigint", 0, false),
    ("scope", "varbinary", 255, false),
    ("operation", "varbinary", 128, false),
    ("id", "varbinary", 255, false),
];

/// The bytes of these columns distinguish a record from every other.
const KEY: [&str; 3] = ["scope", "operation", "id"];

/// A column, as the server describes it.
#[derive(Debug, Clone)]
struct Found {
    data_type: String,
    column_type: String,
    bytes: i64,
    is_nullable: bool,
    has_default: bool,
}

impl MySqlStore {
    /// Compares engine, columns, primary key and index of both tables with what the statements
    /// need.
    pub(crate) async fn check_tables(&self) -> Result<()> {
        let config = self.config();
        let tables = [
            (config.table().to_owned(), RECORDS, "purge_at"),
            (config.marks(), MARKS, "expires_at"),
        ];
        for (table, columns, indexed) in tables {
            let wrong = self.wrong(&table, columns, indexed).await?;
            if let Some(wrong) = wrong {
                return Err(misconfigured(format!(
                    "the table {table} is not as `migrate()` makes it: {wrong}; correct it by the printed schema, or \
                     move it away and run `migrate()`"
                )));
            }
        }
        Ok(())
    }

    /// Returns the difference of a table from what the statements need.
    async fn wrong(
        &self,
        table: &str,
        columns: &[Column],
        indexed: &str,
    ) -> Result<Option<String>> {
        let engine = self
            .described(
                "SELECT CAST(engine AS BINARY), CAST(table_type AS BINARY) FROM information_schema.tables
                WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?",
                table,
                |row| Ok((text(row, 0)?, text(row, 1)?)),
            )
            .await?;
        if !engine.iter().any(|(engine, _)| engine == "InnoDB") {
            return Ok(Some(
                "it is no table of InnoDB, which keeps what was committed".to_owned(),
            ));
        }
        let found = self
            .described(
                "SELECT CAST(column_name AS BINARY), CAST(data_type AS BINARY), CAST(column_type AS BINARY),
                    CAST(COALESCE(character_octet_length, 0) AS SIGNED), CAST(is_nullable AS BINARY),
                    column_default IS NOT NULL OR LENGTH(extra) > 0
                FROM information_schema.columns
                WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?",
                table,
                |row| {
                    let found = Found {
                        data_type: text(row, 1)?,
                        column_type: text(row, 2)?,
                        bytes: number(row, 3)?,
                        is_nullable: text(row, 4)? == "YES",
                        has_default: number(row, 5)? != 0,
                    };
                    Ok((text(row, 0)?, found))
                },
            )
            .await?;
        if let Some(wrong) = wrong_columns(columns, found.into_iter().collect()) {
            return Ok(Some(wrong));
        }
        let parts = self
            .described(
                "SELECT CAST(index_name AS BINARY), CAST(column_name AS BINARY), sub_part IS NULL
                FROM information_schema.statistics
                WHERE table_schema = COALESCE(?, DATABASE()) AND table_name = ?
                ORDER BY index_name, seq_in_index",
                table,
                |row| Ok((text(row, 0)?, text(row, 1)?, number(row, 2)? != 0)),
            )
            .await?;
        Ok(wrong_indexes(&parts, indexed))
    }

    async fn described<T>(
        &self,
        sql: &'static str,
        table: &str,
        read: impl Fn(&sqlx::mysql::MySqlRow) -> Result<T>,
    ) -> Result<Vec<T>> {
        let query = || sqlx::query(sql).bind(self.config().database()).bind(table);
        let rows = self.session().rows(query, Access::Read).await?;
        rows.iter().map(read).collect()
    }

    /// Sends a statement of each kind that meets no row, so that the server reports missing
    /// privileges.
    pub(crate) async fn check_privileges(&self) -> Result<()> {
        let config = self.config();
        let tables = [
            (config.qualified_table(), "token", RECORDS),
            (config.qualified_marks(), "version", MARKS),
        ];
        for (table, column, columns) in tables {
            let names: Vec<_> = columns.iter().map(|(name, ..)| *name).collect();
            let names = names.join(", ");
            for sql in [
                format!("SELECT {names} FROM {table} WHERE 0 = 1 FOR UPDATE"),
                format!("INSERT INTO {table} ({names}) SELECT {names} FROM {table} WHERE 0 = 1"),
                format!("UPDATE {table} SET {column} = {column} WHERE 0 = 1"),
                format!("DELETE FROM {table} WHERE 0 = 1"),
            ] {
                let query = || sqlx::query(sqlx::AssertSqlSafe(sql.clone())).persistent(false);
                let kind = sql.split(' ').next().unwrap_or_default();
                self.session()
                    .rows(query, Access::Read)
                    .await
                    .map_err(|error| refused(error, kind, &table))?;
            }
        }
        Ok(())
    }
}

/// Says which statement was refused.
fn refused(error: Error, kind: &str, table: &str) -> Error {
    if error.kind() != ErrorKind::Misconfigured {
        return error;
    }
    let message = format!(
        "the user may not {kind} on {table}: {error}; GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO this user"
    );
    Error::new(ErrorKind::Misconfigured, Effect::None, message).with_source(error)
}

fn text(row: &sqlx::mysql::MySqlRow, index: usize) -> Result<String> {
    let bytes: Option<&[u8]> = row.try_get_unchecked(index).map_err(decode)?;
    Ok(String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned())
}

fn number(row: &sqlx::mysql::MySqlRow, index: usize) -> Result<i64> {
    row.try_get_unchecked(index).map_err(decode)
}

fn wrong_columns(needed: &[Column], mut found: HashMap<String, Found>) -> Option<String> {
    for (name, data_type, bytes, is_nullable) in needed {
        let Some(column) = found.remove(*name) else {
            return Some(format!("the column {name} is missing"));
        };
        // The server fills up values of a fixed length, and a longer column takes shorter values.
        let fits = match *data_type {
            "binary" => column.bytes == *bytes,
            _ => column.bytes >= *bytes,
        };
        let is_signed = !column.column_type.contains("unsigned");
        if column.data_type != *data_type || !fits || !is_signed {
            return Some(format!(
                "the column {name} is {}, and {data_type} of at least {bytes} bytes is needed",
                column.column_type
            ));
        }
        if *is_nullable && !column.is_nullable {
            return Some(format!("the column {name} has to take NULL"));
        }
    }
    // An INSERT knows nothing of columns that others have added.
    let unknown = |(_, column): &(&String, &Found)| !column.is_nullable && !column.has_default;
    let (name, _) = found.iter().find(unknown)?;
    Some(format!(
        "the column {name} is not this crate's, and takes no row without a value"
    ))
}

/// Compares index, column, and whether it is the whole column, in the order of each index.
fn wrong_indexes(parts: &[(String, String, bool)], indexed: &str) -> Option<String> {
    let primary: Vec<_> = parts
        .iter()
        .filter(|(index, ..)| index == "PRIMARY")
        .collect();
    let is_key = primary.len() == KEY.len()
        && primary
            .iter()
            .zip(KEY)
            .all(|((_, column, whole), key)| column == key && *whole);
    if !is_key {
        return Some(format!(
            "its primary key is not ({}), so a key could be won twice",
            KEY.join(", ")
        ));
    }
    let mut before = "";
    for (index, column, _) in parts {
        if index != before && index != "PRIMARY" && column == indexed {
            return None;
        }
        before = index;
    }
    Some(format!(
        "no index begins with {indexed}, so every purge reads the whole table"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_needed() -> HashMap<String, Found> {
        let found = |(name, data_type, bytes, is_nullable): &Column| {
            let found = Found {
                data_type: (*data_type).to_owned(),
                column_type: format!("{data_type}({bytes})"),
                bytes: *bytes,
                is_nullable: *is_nullable,
                has_default: false,
            };
            ((*name).to_owned(), found)
        };
        RECORDS.iter().map(found).collect()
    }

    #[test]
    fn each_column_is_compared() {
        assert_eq!(wrong_columns(RECORDS, as_needed()), None);
        for (name, ..) in RECORDS {
            let mut found = as_needed();
            found.remove(*name);
            let wrong = wrong_columns(RECORDS, found).unwrap();
            assert!(wrong.contains(name) && wrong.contains("missing"), "{wrong}");
        }
        let with = |name: &str, change: fn(&mut Found)| {
            let mut found = as_needed();
            change(found.get_mut(name).unwrap());
            wrong_columns(RECORDS, found)
        };
        assert!(with("token", |column| column.data_type = "int".into()).is_some());
        assert!(
            with("token", |column| column.column_type =
                "bigint unsigned".into())
            .is_some()
        );
        assert!(with("id", |column| column.data_type = "varchar".into()).is_some());
        assert!(with("id", |column| column.bytes = 100).is_some());
        assert!(with("id", |column| column.bytes = 300).is_none());
        assert!(with("attempt_id", |column| column.bytes = 20).is_some());
        assert!(with("result", |column| column.is_nullable = false).is_some());
    }

    #[test]
    fn columns_of_somebody_else_must_fill_themselves() {
        let added = |is_nullable, has_default| {
            let mut found = as_needed();
            let column = Found {
                data_type: "int".into(),
                column_type: "int".into(),
                bytes: 0,
                is_nullable,
                has_default,
            };
            found.insert("added".into(), column);
            wrong_columns(RECORDS, found)
        };
        assert_eq!(added(true, false), None);
        assert_eq!(added(false, true), None);
        assert!(added(false, false).unwrap().contains("added"));
    }

    #[test]
    fn the_key_and_the_index_are_compared() {
        let part = |index: &str, column: &str| (index.to_owned(), column.to_owned(), true);
        let mut parts: Vec<_> = KEY.iter().map(|key| part("PRIMARY", key)).collect();
        parts.push(part("by_purge", "purge_at"));
        assert_eq!(wrong_indexes(&parts, "purge_at"), None);
        assert!(wrong_indexes(&parts[..3], "purge_at").is_some());
        assert!(wrong_indexes(&parts[1..], "purge_at").is_some());
        parts[2].2 = false;
        assert!(wrong_indexes(&parts, "purge_at").is_some());
        parts[2].2 = true;
        parts.swap(0, 1);
        assert!(wrong_indexes(&parts, "purge_at").is_some());
    }
}
