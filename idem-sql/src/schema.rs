//! The tables of a store: their migration and their verification.
//!
//! The DDL of a backend is the only list of what its statements need: a line for each column, the
//! primary key and each index. [`migrate`] and [`verify`] compare it with the server's catalogue,
//! which each backend reads in its own way ([`Schema`]).

mod difference;

use async_trait::async_trait;
use idem_core::{Effect, Error, ErrorKind, Result};

pub use difference::NeededColumn;

/// How often a migration tries to create the tables. Others that do not take the lock, such as a
/// migration tool, may create them at the same time.
const MAX_TRIES: u32 = 5;

/// One of the two tables of a store.
#[derive(Debug, Clone)]
pub struct Table {
    /// The name in the server's catalogue.
    pub name: String,
    /// The name in statements: quoted, and with its schema if one is configured.
    pub quoted: String,
    /// The statements that create the table and its indexes.
    pub ddl: String,
}

impl Table {
    /// Returns the table of records and the table of watermarks. `name` is the configured name,
    /// `quoted` are both names in statements. In the templates of the DDL, `{table}` is the quoted
    /// name of the template's own table, and `{prefix}` is the configured name, with which the
    /// names of the indexes begin.
    #[must_use]
    pub fn both(name: &str, quoted: [String; 2], templates: [&str; 2]) -> [Self; 2] {
        let table = |name_of_table: String, quoted: String, template: &str| {
            let ddl = template.replace("{table}", &quoted);
            Self {
                name: name_of_table,
                ddl: ddl.replace("{prefix}", name),
                quoted,
            }
        };
        let ([records, marks], suffixed) = (quoted, format!("{name}_watermarks"));
        [
            table(name.to_owned(), records, templates[0]),
            table(suffixed, marks, templates[1]),
        ]
    }

    /// Returns the version in the table's comment, if it has the form of the first line of the DDL:
    /// `idem records, schema version 1`.
    #[must_use]
    pub fn marked_version(&self, comment: &str) -> Option<u32> {
        let (content, _) = self.ddl.strip_prefix("-- ")?.split_once(',')?;
        let mark = comment.strip_prefix(content)?;
        mark.strip_prefix(", schema version ")?.parse().ok()
    }
}

/// A row of the server's catalogue: each value as text, NULL as an empty one, true as 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueRow(pub Vec<String>);

impl CatalogueRow {
    /// Reads a row with this many values.
    ///
    /// # Errors
    ///
    /// The error of `text`, which reads a value.
    pub fn read(values: usize, text: impl Fn(usize) -> Result<String>) -> Result<Self> {
        (0..values).map(text).collect::<Result<_>>().map(Self)
    }

    /// Returns a value as it is.
    #[must_use]
    pub fn text(&self, index: usize) -> &str {
        self.0.get(index).map_or("", String::as_str)
    }

    /// Returns a number; 0 where there is none.
    #[must_use]
    pub fn number(&self, index: usize) -> i64 {
        self.text(index).parse().unwrap_or(0)
    }
}

/// The tables of a store, as its server has them.
#[async_trait]
pub trait Schema: Sync {
    /// The version of the schema that the store works with.
    const VERSION: u32;

    /// Reads all columns of a table: name, type without a length, bytes that a value may have (any
    /// number for a type without a length), whether it takes NULL, whether the server fills it
    /// where an INSERT does not name it, whether its collation takes different values for equal.
    const COLUMNS: &'static str;

    /// Reads the columns of all indexes that the server uses: index, whether it is the first
    /// column, whether the index decides that rows conflict and compares the whole column for that,
    /// name.
    const INDEX_COLUMNS: &'static str;

    /// Returns the table of records and the table of watermarks.
    fn tables(&self) -> [Table; 2];

    /// Runs a query about a table.
    async fn rows(&self, query: &'static str, table: &Table) -> Result<Vec<CatalogueRow>>;

    /// Runs a query about a table that has exactly one row.
    async fn row(&self, query: &'static str, table: &Table) -> Result<CatalogueRow> {
        let row = self.rows(query, table).await?.into_iter().next();
        row.ok_or_else(|| Error::corrupt("the server's catalogue has no row"))
    }

    /// Returns the table's version; `None` where the table is missing, hidden from the user, or not
    /// marked as this crate's.
    ///
    /// # Errors
    ///
    /// `Misconfigured` for a table of a kind that loses committed records.
    async fn version(&self, table: &Table) -> Result<Option<u32>>;

    /// Returns how an operator gives a column the definition of the DDL.
    fn alter(table: &str, column: &NeededColumn<'_>) -> String;

    /// Checks that the user has the privileges for every statement, and that nothing else that the
    /// server may attach to a table (a trigger, row security) comes between statements and rows.
    ///
    /// # Errors
    ///
    /// `Misconfigured` with the remedy.
    async fn check_access(&self, table: &Table) -> Result<()>;

    /// Creates tables that were missing. Others may do the same at this moment, or have done it.
    async fn create(&self, missing: &[Table]) -> Result<()>;
}

/// Creates the tables that are missing, and checks that all are as the statements need them. Only
/// reads where there is nothing to do.
///
/// # Errors
///
/// `Misconfigured` for a table that differs, or is of a later version.
pub async fn migrate(schema: &impl Schema) -> Result<()> {
    let missing = missing(schema).await?;
    if missing.is_empty() {
        return Ok(());
    }
    schema.create(&missing).await?;
    // The DDL leaves another application's table with the same name alone.
    check_tables(schema).await
}

/// Checks that the tables exist and are as the statements need them, and that the user may read and
/// write them.
///
/// # Errors
///
/// `Misconfigured` with the remedy.
pub async fn verify(schema: &impl Schema) -> Result<()> {
    check_tables(schema).await?;
    for table in schema.tables() {
        schema.check_access(&table).await?;
    }
    Ok(())
}

async fn check_tables(schema: &impl Schema) -> Result<()> {
    match missing(schema).await?.first() {
        None => Ok(()),
        Some(table) => Err(misconfigured(format!(
            "a table is missing, not this crate's, or hidden from a user without privileges ({}); \
             run `migrate()` or the printed schema (`schema_sql`), or GRANT SELECT, INSERT, UPDATE, \
             DELETE on it TO the user, or name another table with `Config::with_table`",
            table.created()
        ))),
    }
}

/// Returns the tables that have to be created; an error where one exists and differs.
async fn missing<S: Schema>(schema: &S) -> Result<Vec<Table>> {
    let mut missing = Vec::new();
    for table in schema.tables() {
        match schema.version(&table).await? {
            Some(version) if version > S::VERSION => {
                return Err(misconfigured(format!(
                    "the table {} has schema version {version}, this crate knows up to {}; upgrade \
                     the crate",
                    table.quoted,
                    S::VERSION
                )));
            }
            Some(version) if version == S::VERSION => {
                let columns = schema.rows(S::COLUMNS, &table).await?;
                let index_columns = schema.rows(S::INDEX_COLUMNS, &table).await?;
                let compared = difference::compare(&table, &columns, &index_columns, S::alter);
                compared.map_err(|difference| differs(&table, &difference))?;
            }
            _ => missing.push(table),
        }
    }
    Ok(missing)
}

/// Runs `create` again where another session created the same object between its check and its
/// creation, which are not atomic by themselves.
///
/// # Errors
///
/// The last error of `create`.
pub async fn create_once_more<T, E, F: Future<Output = Result<T, E>>>(
    create: impl Fn() -> F,
    is_created_elsewhere: fn(&E) -> bool,
) -> Result<T, E> {
    for _ in 1..MAX_TRIES {
        match create().await {
            Err(error) if is_created_elsewhere(&error) => {}
            result => return result,
        }
    }
    create().await
}

/// Returns the error for a server, a table or a setting that does not suit. The message says what
/// to do.
pub fn misconfigured(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Misconfigured, Effect::None, message.into())
}

/// Returns the error for a table that differs from its DDL. `difference` ends with a remedy.
#[must_use]
pub fn differs(table: &Table, difference: &str) -> Error {
    misconfigured(format!(
        "the table {} is not as `migrate()` makes it: {difference}; or move the table away and run \
         `migrate()`; or name another one with `Config::with_table`",
        table.quoted
    ))
}

/// Returns the error for a user without these privileges on the table.
#[must_use]
pub fn lacks_privileges(table: &Table, user: &str, privileges: &str) -> Error {
    let table = &table.quoted;
    misconfigured(format!(
        "the user {user} may not {privileges} on {table}; GRANT {privileges} ON {table} TO {user}"
    ))
}

/// Hashes a name or a text with FNV-1a: the same number in every process.
#[must_use]
pub fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_this_crates_mark_alone() {
        let ddl = "-- idem records, schema version 1. A comment.";
        let [table, _] = Table::both("a", ["b", "c"].map(str::to_owned), [ddl, ""]);
        let mark = "idem records, schema version 12";
        assert_eq!(table.marked_version(mark), Some(12));
        for comment in [
            "",
            "records 1",
            "idem watermarks, schema version 1",
            "idem records",
        ] {
            assert_eq!(table.marked_version(comment), None, "{comment}");
        }
    }
}
