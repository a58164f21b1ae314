//! Checks that the tables are as the statements need them: columns, types, keys, indexes, triggers,
//! privileges.

use std::collections::BTreeMap;

use idem_core::{Effect, Error, ErrorKind, Result};

use crate::error::Access;
use crate::row::Columns;
use crate::session::Query;
use crate::store::MssqlStore;

/// A column, as the printed schema makes it. A wider one is accepted; `LONGEST` is `max`.
struct Column {
    name: &'static str,
    kind: &'static str,
    bytes: i64,
    is_nullable: bool,
}

/// The server's value for the length of `varbinary(max)`.
const LONGEST: i64 = -1;

const fn needed(name: &'static str, kind: &'static str, bytes: i64) -> Column {
    Column {
        name,
        kind,
        bytes,
        is_nullable: false,
    }
}

const fn optional(name: &'static str, kind: &'static str, bytes: i64) -> Column {
    Column {
        name,
        kind,
        bytes,
        is_nullable: true,
    }
}

/// A table, and the columns that an index of it has to begin with.
struct Table {
    columns: &'static [Column],
    indexes: &'static [&'static str],
}

/// In the order of the statements' first column.
const TABLES: [Table; 2] = [
    Table {
        columns: &[
            needed("scope", "varbinary", 255),
            needed("operation", "varbinary", 128),
            needed("id", "varbinary", 255),
            needed("token", "bigint", 8),
            needed("created_at", "bigint", 8),
            needed("lease_ends_at", "bigint", 8),
            needed("expires_at", "bigint", 8),
            needed("purge_at", "bigint", 8),
            optional("sealed_at", "bigint", 8),
            optional("sweep_at", "bigint", 8),
            needed("attempts", "int", 4),
            needed("state", "smallint", 2),
            needed("fingerprint", "varbinary", 33),
            needed("attempt_id", "varbinary", 16),
            optional("metadata", "nvarchar", LONGEST),
            optional("result", "varbinary", LONGEST),
        ],
        indexes: &["purge_at", "sweep_at"],
    },
    Table {
        columns: &[
            needed("scope", "varbinary", 255),
            needed("operation", "varbinary", 128),
            needed("id", "varbinary", 255),
            needed("version", "bigint", 8),
            needed("expires_at", "bigint", 8),
        ],
        indexes: &["expires_at"],
    },
];

const KEY: [&str; 3] = ["scope", "operation", "id"];

/// In the order of the server's answer.
const PRIVILEGES: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

impl MssqlStore {
    /// Compares the tables with the printed schema, and names the first difference with its remedy.
    pub(crate) async fn verify_shape(&self) -> Result<()> {
        let config = &self.operations.config;
        let names = [config.qualified_table(), config.qualified_marks()];
        let columns = self.found_columns().await?;
        let indexes = self.found_indexes().await?;
        for ((name, table), place) in names.iter().zip(&TABLES).zip(0..) {
            let found = columns.get(&place);
            compare_columns(name, table, found.map_or(&[][..], Vec::as_slice))?;
            let found = indexes.get(&place);
            compare_indexes(name, table, found.map_or(&[][..], Vec::as_slice))?;
        }
        self.compare_rights(&names).await
    }

    async fn found_columns(&self) -> Result<BTreeMap<i64, Vec<Found>>> {
        let query = Query::new(&self.operations.sql.columns);
        let mut tables: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for row in self.session().rows(query, Access::Read).await? {
            let row = Columns(&row);
            tables.entry(row.number(0)?).or_default().push(Found {
                name: text(&row, 1)?,
                kind: text(&row, 2)?,
                bytes: row.number(3)?,
                is_nullable: row.number(4)? == 1,
                is_filled: row.number(5)? == 1,
            });
        }
        Ok(tables)
    }

    /// Returns the columns of each index, and whether it is the primary key.
    async fn found_indexes(&self) -> Result<BTreeMap<i64, Vec<Index>>> {
        let query = Query::new(&self.operations.sql.indexes);
        let mut tables: BTreeMap<i64, Vec<Index>> = BTreeMap::new();
        let mut last = None;
        // In the order of table, index and position in the index.
        for row in self.session().rows(query, Access::Read).await? {
            let row = Columns(&row);
            let (table, index) = (row.number(0)?, row.number(1)?);
            let indexes = tables.entry(table).or_default();
            if last.replace((table, index)) != Some((table, index)) {
                indexes.push(Index {
                    is_key: row.number(2)? == 1,
                    columns: Vec::new(),
                });
            }
            if let Some(index) = indexes.last_mut() {
                index.columns.push(text(&row, 3)?);
            }
        }
        Ok(tables)
    }

    async fn compare_rights(&self, names: &[String; 2]) -> Result<()> {
        let query = Query::new(&self.operations.sql.rights);
        let rows = self.session().rows(query, Access::Read).await?;
        let row = Columns(rows.first().ok_or_else(|| Error::corrupt("no rights"))?);
        if row.optional_text(0)? == Some("READ_ONLY") {
            return Err(differs(
                "the database only reads; connect to the primary, without read-only intent".into(),
            ));
        }
        if row.number(1)? > 0 {
            return Err(differs(format!(
                "{} or {} has a trigger, and the statements cannot run beside one (334); drop or disable it",
                names[0], names[1]
            )));
        }
        let asked = names
            .iter()
            .flat_map(|name| PRIVILEGES.map(|right| (name, right)));
        for ((name, right), column) in asked.zip(2..) {
            if row.optional_number(column)? != Some(1) {
                return Err(differs(format!(
                    "this user may not {right} on {name}; run GRANT {right} ON {name} TO the user"
                )));
            }
        }
        Ok(())
    }
}

/// A column, as it is.
#[derive(Debug)]
struct Found {
    name: String,
    kind: String,
    bytes: i64,
    is_nullable: bool,
    /// Whether the column has a default, or the server fills it.
    is_filled: bool,
}

#[derive(Debug)]
struct Index {
    is_key: bool,
    columns: Vec<String>,
}

fn text(row: &Columns<'_>, index: usize) -> Result<String> {
    Ok(row.optional_text(index)?.unwrap_or_default().to_owned())
}

fn compare_columns(name: &str, table: &Table, found: &[Found]) -> Result<()> {
    // Babelfish shows a table only to a user who may SELECT from it.
    if found.is_empty() {
        return Err(differs(format!(
            "{name} is missing, or this user may not SELECT from it; run the printed schema, or \
             GRANT SELECT ON {name} TO the user"
        )));
    }
    for column in table.columns {
        let shape = shape(column);
        let Some(found) = found
            .iter()
            .find(|found| found.name.eq_ignore_ascii_case(column.name))
        else {
            return Err(differs(format!(
                "{name} has no column {} {shape}; add it, as the printed schema has it",
                column.name
            )));
        };
        let is_long =
            found.bytes == LONGEST || column.bytes != LONGEST && found.bytes >= column.bytes;
        let nulls = found.is_nullable || !column.is_nullable;
        if !found.kind.eq_ignore_ascii_case(column.kind) || !is_long || !nulls {
            return Err(differs(format!(
                "the column {} of {name} is no {shape}; alter it, as the printed schema has it",
                column.name
            )));
        }
    }
    let is_known = |found: &Found| {
        let mut columns = table.columns.iter();
        columns.any(|column| column.name.eq_ignore_ascii_case(&found.name))
    };
    match found
        .iter()
        .find(|found| !is_known(found) && !found.is_nullable && !found.is_filled)
    {
        Some(found) => Err(differs(format!(
            "the column {} of {name} is not this crate's, takes no NULL and has no default, so no record can be \
             inserted; give it a default",
            found.name
        ))),
        None => Ok(()),
    }
}

fn shape(column: &Column) -> String {
    let Column { kind, bytes, .. } = column;
    let length = match (*kind, *bytes) {
        ("varbinary" | "nvarchar", LONGEST) => "(max)".to_owned(),
        ("varbinary", bytes) => format!("({bytes})"),
        _ => String::new(),
    };
    let null = if column.is_nullable {
        "NULL"
    } else {
        "NOT NULL"
    };
    format!("{kind}{length} {null}")
}

fn compare_indexes(name: &str, table: &Table, found: &[Index]) -> Result<()> {
    let has_key = found.iter().any(|index| {
        let mut columns: Vec<_> = index.columns.iter().map(String::as_str).collect();
        columns.sort_unstable();
        let mut key = KEY;
        key.sort_unstable();
        index.is_key && columns == key
    });
    if !has_key {
        return Err(differs(format!(
            "{name} has no primary key (scope, operation, id), without which two claims may win; add it, as the printed \
             schema has it"
        )));
    }
    for column in table.indexes {
        let begins = |index: &Index| index.columns.first().is_some_and(|first| first == column);
        if !found.iter().any(begins) {
            return Err(differs(format!(
                "{name} has no index on {column}; create it, as the printed schema has it"
            )));
        }
    }
    Ok(())
}

fn differs(message: String) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn as_made(table: &Table) -> Vec<Found> {
        let found = |column: &Column| Found {
            name: column.name.to_owned(),
            kind: column.kind.to_owned(),
            bytes: column.bytes,
            is_nullable: column.is_nullable,
            is_filled: false,
        };
        table.columns.iter().map(found).collect()
    }

    fn refusal(found: &[Found]) -> String {
        compare_columns("[t]", &TABLES[0], found)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn the_tables_as_they_are_made_will_do_and_so_will_wider_columns() {
        let mut found = as_made(&TABLES[0]);
        assert!(compare_columns("[t]", &TABLES[0], &found).is_ok());
        found[0].bytes = 400;
        found[12].bytes = LONGEST;
        assert!(compare_columns("[t]", &TABLES[0], &found).is_ok());
        assert!(compare_columns("[t]", &TABLES[1], &as_made(&TABLES[1])).is_ok());
    }

    #[test]
    fn each_difference_of_a_column_is_named() {
        let mut found = as_made(&TABLES[0]);
        found.remove(14);
        assert!(refusal(&found).contains("no column metadata nvarchar(max) NULL"));
        let mut found = as_made(&TABLES[0]);
        found[0].bytes = 100;
        assert!(refusal(&found).contains("scope of [t] is no varbinary(255) NOT NULL"));
        let mut found = as_made(&TABLES[0]);
        found[15].bytes = 8000;
        assert!(refusal(&found).contains("result of [t] is no varbinary(max) NULL"));
        let mut found = as_made(&TABLES[0]);
        found[9].is_nullable = false;
        assert!(refusal(&found).contains("sweep_at"));
        let mut found = as_made(&TABLES[0]);
        found[3].kind = "int".to_owned();
        assert!(refusal(&found).contains("token of [t] is no bigint NOT NULL"));
        let mut found = as_made(&TABLES[0]);
        found.push(Found {
            name: "extra".to_owned(),
            kind: "int".to_owned(),
            bytes: 4,
            is_nullable: false,
            is_filled: false,
        });
        assert!(refusal(&found).contains("give it a default"));
    }

    #[test]
    fn a_missing_key_or_index_is_named() {
        let index = |is_key, columns: &[&str]| Index {
            is_key,
            columns: columns.iter().map(ToString::to_string).collect(),
        };
        let all = || {
            vec![
                index(true, &KEY),
                index(false, &["purge_at"]),
                index(false, &["sweep_at", "id"]),
            ]
        };
        let compared = |indexes: &[Index]| compare_indexes("[t]", &TABLES[0], indexes);
        assert!(compared(&all()).is_ok());
        let mut indexes = all();
        indexes[0].is_key = false;
        let error = compared(&indexes).unwrap_err().to_string();
        assert!(error.contains("no primary key"), "{error}");
        let error = compared(&all()[..2]).unwrap_err().to_string();
        assert!(error.contains("no index on sweep_at"), "{error}");
    }
}
