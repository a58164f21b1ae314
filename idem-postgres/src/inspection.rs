//! The properties of a table that [`verify`](crate::PostgresStore::verify) compares.

use idem_core::{Error, Result};
use idem_sql::schema::misconfigured;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::decode;
use crate::store::PostgresStore;

pub(crate) fn no_row(what: &str) -> Error {
    Error::corrupt(format!("the server says nothing of {what}"))
}

/// A column, as in the DDL.
#[derive(Debug, PartialEq, Eq)]
struct Column<'t> {
    name: &'t str,
    kind: &'t str,
    may_be_null: bool,
}

/// Returns the columns of the DDL: a line each, with name, type, and the rest.
fn columns(template: &str) -> Vec<Column<'_>> {
    let lines = template
        .lines()
        .skip_while(|line| !line.starts_with("CREATE TABLE"))
        .skip(1)
        .take_while(|line| !line.trim_start().starts_with("PRIMARY KEY"));
    lines
        .filter_map(|line| {
            let line = line.split("--").next().unwrap_or_default();
            let mut words = line.split_whitespace();
            Some(Column {
                name: words.next()?,
                kind: words.next()?.trim_end_matches(','),
                may_be_null: !line.contains("NOT NULL"),
            })
        })
        .collect()
}

/// Returns the first columns of the indexes, beside the key's, that the statements need, so that
/// nothing scans the table.
fn indexed(template: &str) -> Vec<&str> {
    let indexes = template
        .lines()
        .filter(|line| line.starts_with("CREATE INDEX"));
    indexes
        .filter_map(|line| Some(line.split_once(" (")?.1.split_once(')')?.0))
        .collect()
}

/// Returns the query for the kind of the table and the role's privileges.
fn state_of(table: &str) -> String {
    format!(
        "SELECT CAST(c.relkind AS pg_catalog.text), CAST(c.relpersistence AS pg_catalog.text),
        pg_catalog.row_security_active(c.oid),
        pg_catalog.concat_ws(', ',
            CASE WHEN NOT pg_catalog.has_table_privilege(c.oid, 'SELECT') THEN 'SELECT' END,
            CASE WHEN NOT pg_catalog.has_table_privilege(c.oid, 'INSERT') THEN 'INSERT' END,
            CASE WHEN NOT pg_catalog.has_table_privilege(c.oid, 'UPDATE') THEN 'UPDATE' END,
            CASE WHEN NOT pg_catalog.has_table_privilege(c.oid, 'DELETE') THEN 'DELETE' END),
        CAST(current_user AS pg_catalog.text)
        FROM pg_catalog.pg_class AS c WHERE c.oid = pg_catalog.to_regclass('{table}')"
    )
}

fn columns_of(table: &str) -> String {
    format!(
        "SELECT CAST(a.attname AS pg_catalog.text), pg_catalog.format_type(a.atttypid, NULL),
        a.attnotnull, a.atthasdef OR a.attidentity <> '',
        COALESCE((SELECT l.collisdeterministic FROM pg_catalog.pg_collation AS l
            WHERE l.oid = a.attcollation), true)
        FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = pg_catalog.to_regclass('{table}') AND a.attnum > 0 AND NOT a.attisdropped"
    )
}

/// Returns the query for the columns of each usable index, in order, and whether the index decides
/// a conflict.
fn indexes_of(table: &str) -> String {
    format!(
        "SELECT i.indisunique AND i.indimmediate AND i.indpred IS NULL,
        (SELECT pg_catalog.string_agg(pg_catalog.pg_get_indexdef(i.indexrelid, k, true), ',' ORDER BY k)
            FROM pg_catalog.generate_series(1, i.indnkeyatts) AS k)
        FROM pg_catalog.pg_index AS i
        WHERE i.indrelid = pg_catalog.to_regclass('{table}') AND i.indisvalid"
    )
}

impl PostgresStore {
    pub(crate) async fn verify_table(&self, table: &str, template: &str) -> Result<()> {
        let state = self.read(state_of(table)).await?;
        let state = state.first().ok_or_else(|| no_row("the table"))?;
        check_state(table, state)?;
        check_columns(table, template, &self.read(columns_of(table)).await?)?;
        check_indexes(table, template, &self.read(indexes_of(table)).await?)
    }
}

fn text(row: &PgRow, index: usize) -> Result<String> {
    row.try_get(index).map_err(decode)
}

/// Removes quotes: with `quote_all_identifiers` the server quotes names of types and columns, too.
fn unquoted(name: &str) -> String {
    name.trim_matches('"').to_owned()
}

fn flag(row: &PgRow, index: usize) -> Result<bool> {
    row.try_get(index).map_err(decode)
}

fn check_state(table: &str, row: &PgRow) -> Result<()> {
    let (kind, persistence, lacks, role) =
        (text(row, 0)?, text(row, 1)?, text(row, 3)?, text(row, 4)?);
    if kind != "r" {
        return Err(misconfigured(format!(
            "{table} is no plain table (relkind {kind}); the statements need one"
        )));
    }
    match persistence.as_str() {
        "p" => {}
        "u" => {
            return Err(misconfigured(format!(
                "{table} is UNLOGGED: a crash of the server empties it; ALTER TABLE {table} SET LOGGED"
            )));
        }
        _ => {
            return Err(misconfigured(format!(
                "{table} is a temporary table, which nobody else sees; name the schema of the right one"
            )));
        }
    }
    if !lacks.is_empty() {
        return Err(misconfigured(format!(
            "the role {role} lacks privileges; GRANT {lacks} ON {table} TO \"{role}\""
        )));
    }
    if flag(row, 2)? {
        return Err(misconfigured(format!(
            "row security is active on {table} for the role {role}: it may not see every record; \
             ALTER TABLE {table} DISABLE ROW LEVEL SECURITY"
        )));
    }
    Ok(())
}

fn check_columns(table: &str, template: &str, found: &[PgRow]) -> Result<()> {
    let wanted = columns(template);
    for column in &wanted {
        let mut row = None;
        for found in found {
            if text(found, 0)? == column.name {
                row = Some(found);
            }
        }
        let Some(row) = row else {
            return Err(misconfigured(format!(
                "{table} has no column {} ({}): add it, or move the table away and run `migrate()`",
                column.name, column.kind
            )));
        };
        let kind = unquoted(&text(row, 1)?);
        if kind != column.kind {
            return Err(misconfigured(format!(
                "the column {} of {table} is {kind} and has to be {}; ALTER TABLE {table} ALTER COLUMN \
                 {0} TYPE {2}",
                column.name, column.kind, column.kind
            )));
        }
        if column.may_be_null && flag(row, 2)? {
            return Err(misconfigured(format!(
                "the column {} of {table} is NOT NULL; ALTER TABLE {table} ALTER COLUMN {0} DROP NOT \
                 NULL",
                column.name
            )));
        }
        if !flag(row, 4)? {
            return Err(misconfigured(format!(
                "the column {} of {table} takes different texts for equal; it has to have COLLATE \"C\"",
                column.name
            )));
        }
    }
    for row in found {
        let name = text(row, 0)?;
        let is_ours = wanted.iter().any(|column| column.name == name);
        if !is_ours && flag(row, 2)? && !flag(row, 3)? {
            return Err(misconfigured(format!(
                "{table} has a column {name} that is NOT NULL without a default, and no statement gives \
                 it a value"
            )));
        }
    }
    Ok(())
}

fn check_indexes(table: &str, template: &str, found: &[PgRow]) -> Result<()> {
    let mut has_key = false;
    let mut firsts = Vec::new();
    for row in found {
        let columns = text(row, 1)?;
        let mut columns: Vec<_> = columns.split(',').map(unquoted).collect();
        firsts.extend(columns.first().cloned());
        columns.sort();
        has_key |= flag(row, 0)? && columns == ["id", "operation", "scope"];
    }
    if !has_key {
        return Err(misconfigured(format!(
            "{table} has no valid unique index on (id, operation, scope), so nothing decides who wins; \
             ALTER TABLE {table} ADD PRIMARY KEY (id, operation, scope)"
        )));
    }
    for column in indexed(template) {
        if !firsts.iter().any(|first| first == column) {
            return Err(misconfigured(format!(
                "{table} has no index on {column}; run the CREATE INDEX of the printed schema"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_indexes_are_read_from_the_ddl() {
        let records = include_str!("schema.sql");
        let found = columns(records);
        let column = |name, kind, may_be_null| Column {
            name,
            kind,
            may_be_null,
        };
        assert_eq!(found.len(), 16);
        assert!(found.contains(&column("token", "bigint", false)));
        assert!(found.contains(&column("scope", "text", false)));
        assert!(found.contains(&column("sweep_at", "bigint", true)));
        assert!(found.contains(&column("result", "bytea", true)));
        assert_eq!(indexed(records), ["purge_at", "sweep_at"]);
        let marks = include_str!("schema_marks.sql");
        assert_eq!(columns(marks).len(), 5);
        assert_eq!(indexed(marks), ["expires_at"]);
    }
}
