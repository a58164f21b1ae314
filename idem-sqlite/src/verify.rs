//! Checks that tables and connections are as the statements need them.

use idem_core::{Error, Result};
use idem_sql::schema::misconfigured;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row};

use crate::config::Config;
use crate::error::decode;
use crate::schema::{KEY, MARKS, Needed, Null, RECORDS, SCHEMA_VERSION};
use crate::session::Session;
use crate::store::{BACKEND, SqliteStore};

/// A setting of a connection, the values with which the store does not keep its promises, and the
/// remedy.
const REFUSED: &[(&str, &[&str], &str)] = &[
    // First, because it keeps the others from being read.
    (
        "locking_mode",
        &["exclusive"],
        "other connections, the store's own too, would be locked out; set it to NORMAL",
    ),
    (
        "synchronous",
        &["0"],
        "a power failure would take acknowledged completions with it; set it to FULL",
    ),
    (
        "journal_mode",
        &["off", "memory"],
        "a crash in a write would damage the file; set it to WAL",
    ),
    (
        "query_only",
        &["1"],
        "nothing can be written on this connection; set it to OFF",
    ),
    (
        "read_uncommitted",
        &["1"],
        "what may be rolled back would be told as a result; set it to OFF",
    ),
    (
        "writable_schema",
        &["1"],
        "a slip would damage the file; set it to OFF",
    ),
];

impl SqliteStore {
    /// Checks the tables, and the settings of one connection of [`pool`](Self::pool). Of the tables
    /// it checks columns, their types, which may be NULL, collations, primary keys and indexes, and
    /// that they have no foreign trigger or constraint. Only reads.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy.
    pub async fn verify(&self) -> Result<()> {
        self.verified()
            .await
            .map_err(|error| error.at(BACKEND, "verify"))
    }

    async fn verified(&self) -> Result<()> {
        // First, because with some of them nothing can be read.
        self.check_settings().await?;
        let config = &self.operations.config;
        for (table, needed, indexes) in [
            (
                config.table().to_owned(),
                RECORDS,
                &["purge_at", "sweep_at"][..],
            ),
            (config.marks(), MARKS, &["expires_at"][..]),
        ] {
            if !self.has(table.clone(), needed).await? {
                return Err(misconfigured(format!(
                    "the table `{table}` is missing; run `migrate()` or the printed schema"
                )));
            }
            self.check_indexes(&table, indexes).await?;
            self.check_own(&table).await?;
        }
        Ok(())
    }

    /// Returns whether there is a table of this name; an error when it differs from the needed one.
    pub(crate) async fn has(&self, table: String, needed: &Needed) -> Result<bool> {
        // One statement, so that nobody creates the table between two reads.
        let query = "SELECT json_group_array(json_array(name, upper(type), \"notnull\", pk, dflt_value IS NOT NULL)),
            (SELECT count(*) FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE) FROM pragma_table_info(?1)";
        let Some(row) = self.look(query, &[&table]).await? else {
            return Ok(false);
        };
        let columns: Vec<(String, String, i64, i64, i64)> = serde_json::from_str(&text(&row, 0)?)
            .map_err(|error| {
            another(&table, "its columns cannot be read").with_source(error)
        })?;
        if number(&row, 1)? == 0 {
            return Ok(false);
        }
        for &(name, kind, null) in needed.columns {
            let (is_key, is_never) = (KEY.contains(&name), null == Null::Never);
            let Some(column) = columns.iter().find(|column| column.0 == name) else {
                return Err(another(&table, &format!("its column `{name}` is missing")));
            };
            let fits = column.1 == kind && (column.2 == 1) == is_never && (column.3 > 0) == is_key;
            if !fits {
                let key = if is_key {
                    ", part of the primary key"
                } else {
                    ""
                };
                let never = if is_never { " NOT NULL" } else { "" };
                let how = format!("its column `{name}` is not `{kind}{never}`{key}");
                return Err(another(&table, &how));
            }
        }
        let is_foreign = |column: &&(String, String, i64, i64, i64)| {
            !needed.columns.iter().any(|needed| needed.0 == column.0)
        };
        let mut foreign = columns.iter().filter(is_foreign);
        if foreign.any(|column| column.2 == 1 && column.4 == 0) {
            let how = "a column of somebody else's is NOT NULL and has no default";
            return Err(another(&table, how));
        }
        // Bytes are compared as they are: another collation would take different keys for one.
        let collated =
            "SELECT count(*) FROM pragma_index_list(?1) AS i, pragma_index_xinfo(i.name) AS c
            WHERE i.origin = 'pk' AND c.key AND c.coll <> 'BINARY' COLLATE NOCASE";
        if self.count(collated, &[&table]).await? > 0 {
            return Err(another(&table, "its key is not COLLATE BINARY"));
        }
        Ok(true)
    }

    /// Checks that `delete_expired` and `fail_abandoned` find their rows by an index.
    async fn check_indexes(&self, table: &str, columns: &[&str]) -> Result<()> {
        for column in columns {
            let query =
                "SELECT count(*) FROM pragma_index_list(?1) AS i, pragma_index_xinfo(i.name) AS c
                WHERE c.key AND c.seqno = 0 AND c.name = ?2";
            if self.count(query, &[table, column]).await? == 0 {
                return Err(misconfigured(format!(
                    "the index of `{table}` on `{column}` is missing, so that each purge or sweep would read the whole \
                     table; run the printed schema, `schema_sql`"
                )));
            }
        }
        Ok(())
    }

    /// Checks that no foreign trigger or unique index judges the store's rows.
    async fn check_own(&self, table: &str) -> Result<()> {
        let triggers = "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE";
        if self.count(triggers, &[table]).await? > 0 {
            return Err(misconfigured(format!(
                "the table `{table}` has a trigger, which may refuse or change what the store writes; drop it"
            )));
        }
        let unique =
            "SELECT count(*) FROM pragma_index_list(?1) WHERE \"unique\" AND origin <> 'pk'";
        if self.count(unique, &[table]).await? > 0 {
            return Err(misconfigured(format!(
                "the table `{table}` has a unique index beside its primary key, which may refuse what the store \
                 writes; drop it"
            )));
        }
        Ok(())
    }

    async fn check_settings(&self) -> Result<()> {
        let config = &self.operations.config;
        for &(name, refused, why) in REFUSED {
            let query = sqlx::query(AssertSqlSafe(format!("PRAGMA {name}")));
            let Some(row) = self.pools.read_shared(query, config).await? else {
                continue;
            };
            let value = text(&row, 0)?;
            let is_memory = name == "journal_mode" && !self.pools.file.is_watched();
            if refused.contains(&&*value.to_lowercase()) && !is_memory {
                return Err(misconfigured(format!(
                    "the pool's connections have `PRAGMA {name} = {value}`: {why}"
                )));
            }
        }
        Ok(())
    }

    async fn look(&self, query: &'static str, arguments: &[&str]) -> Result<Option<SqliteRow>> {
        let config: &Config = &self.operations.config;
        let mut query = sqlx::query(query);
        for &argument in arguments {
            query = query.bind(argument);
        }
        Session::Store(&self.pools, config).read(query).await
    }

    async fn count(&self, query: &'static str, arguments: &[&str]) -> Result<i64> {
        match self.look(query, arguments).await? {
            Some(row) => number(&row, 0),
            None => Ok(0),
        }
    }
}

fn text(row: &SqliteRow, index: usize) -> Result<String> {
    row.try_get_unchecked(index).map_err(decode)
}

fn number(row: &SqliteRow, index: usize) -> Result<i64> {
    row.try_get_unchecked(index).map_err(decode)
}

fn another(table: &str, how: &str) -> Error {
    misconfigured(format!(
        "the table `{table}` is not of schema version {SCHEMA_VERSION}: {how}; choose another name with \
         `Config::with_table`, compare it with `schema_sql`, or upgrade the crate"
    ))
}
