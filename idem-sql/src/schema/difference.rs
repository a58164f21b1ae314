//! The difference between a table and its DDL.

use super::{CatalogueRow, Table};

/// A column that the statements need, as its line of the DDL defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededColumn<'d> {
    /// The name.
    pub name: &'d str,
    /// The type, and what follows it: a collation, NULL or NOT NULL.
    pub definition: String,
    /// Whether it takes NULL.
    pub is_nullable: bool,
    /// The type without a length, in lower case.
    kind: String,
    /// The length of the type; 0 for a type without one.
    bytes: i64,
}

/// The length of `varbinary(max)`.
const MAX_BYTES: i64 = (1 << 31) - 1;

impl Table {
    /// Returns the columns of the DDL: a line each, with name, type, and the rest.
    #[must_use]
    pub fn columns(&self) -> Vec<NeededColumn<'_>> {
        self.lines()
            .skip_while(|line| !line.starts_with("CREATE TABLE"))
            .skip(1)
            .take_while(|line| !line.contains("PRIMARY KEY"))
            .filter_map(NeededColumn::of)
            .collect()
    }

    /// Returns the names of the tables that the DDL creates.
    pub(super) fn created(&self) -> String {
        let create = self.lines().filter(|line| line.starts_with("CREATE TABLE"));
        let names = create.filter_map(|line| line.split_once(" (")?.0.rsplit(' ').next());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Returns the columns of the primary key.
    fn key(&self) -> &str {
        let line = self.lines().find(|line| line.contains("PRIMARY KEY"));
        line.and_then(in_parentheses).unwrap_or_default()
    }

    /// Returns the first column of each other index, with the statement that creates the index.
    fn indexes(&self) -> impl Iterator<Item = (&str, String)> {
        self.lines().filter_map(|line| {
            let create = match line.trim_end_matches([',', ';']) {
                line if line.starts_with("CREATE INDEX") => line.to_owned(),
                line if line.starts_with("KEY") => {
                    format!("ALTER TABLE {} ADD {line}", self.quoted)
                }
                _ => return None,
            };
            Some((in_parentheses(line)?, create))
        })
    }

    /// Returns the lines of the DDL without comments.
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.ddl.lines().map(|line| {
            let line = line.split("--").next().unwrap_or_default();
            line.split(" COMMENT ").next().unwrap_or_default().trim()
        })
    }
}

/// Returns the list of columns in a line.
fn in_parentheses(line: &str) -> Option<&str> {
    Some(line.split_once(" (")?.1.split_once(')')?.0)
}

impl<'d> NeededColumn<'d> {
    fn of(line: &'d str) -> Option<Self> {
        let (name, definition) = line.trim_end_matches(',').split_once(' ')?;
        let words: Vec<_> = definition.split_whitespace().collect();
        let (kind, length) = words.first()?.split_once('(').unwrap_or((words[0], ""));
        let bytes = match length.trim_end_matches(')') {
            "max" => MAX_BYTES,
            length => length.parse().unwrap_or(0),
        };
        Some(Self {
            name,
            definition: words.join(" "),
            is_nullable: !definition.contains("NOT NULL"),
            kind: kind.to_ascii_lowercase(),
            bytes,
        })
    }

    /// Describes the column of a table if it does not take and keep every value that the statements
    /// write, or takes NULL where they never write it.
    fn mismatch(&self, found: &CatalogueRow) -> Option<String> {
        let (kind, bytes) = (found.text(1), found.number(2));
        let (is_nullable, is_folding) = (found.number(3) == 1, found.number(5) == 1);
        let fits = match kind {
            // The server fills up values of a fixed length.
            "binary" => bytes == self.bytes,
            _ => bytes >= self.bytes,
        };
        if kind == self.kind && fits && is_nullable == self.is_nullable && !is_folding {
            return None;
        }
        let length = match (self.bytes, bytes) {
            (0, _) => String::new(),
            (_, MAX_BYTES) => "(max)".to_owned(),
            (_, bytes) => format!("({bytes})"),
        };
        let null = if is_nullable { "NULL" } else { "NOT NULL" };
        let folding = match is_folding {
            true => " with a collation that takes different values for equal",
            false => "",
        };
        Some(format!("{kind}{length} {null}{folding}"))
    }
}

/// Compares a table with its DDL. The error is the first difference, with the remedy.
pub(super) fn compare(
    table: &Table,
    columns: &[CatalogueRow],
    index_columns: &[CatalogueRow],
    alter: fn(&str, &NeededColumn<'_>) -> String,
) -> Result<(), String> {
    let all_needed = table.columns();
    for needed in &all_needed {
        let (name, definition) = (needed.name, &needed.definition);
        let Some(found) = columns.iter().find(|found| found.text(0) == name) else {
            return Err(format!("it has no column {name} {definition}; add it"));
        };
        if let Some(found) = needed.mismatch(found) {
            let remedy = alter(&table.quoted, needed);
            return Err(format!(
                "its column {name} is {found} and has to be {definition}; {remedy}"
            ));
        }
    }
    for found in columns {
        let name = found.text(0);
        let is_needed = all_needed.iter().any(|needed| needed.name == name);
        let takes_nothing = found.number(3) == 0 && found.number(4) == 0;
        if !is_needed && takes_nothing {
            return Err(format!(
                "its column {name} is not this crate's, takes no NULL and has no default, so no \
                 record can be inserted; give it a default"
            ));
        }
    }
    let key = table.key();
    if !has_key(key, index_columns) {
        return Err(format!(
            "it has no primary key ({key}), so two claims of one key may win; give it \
             PRIMARY KEY ({key})"
        ));
    }
    for (column, create) in table.indexes() {
        let begins = |found: &CatalogueRow| found.number(1) == 1 && found.text(3) == column;
        if !index_columns.iter().any(begins) {
            return Err(format!(
                "it has no index on {column}, so each call of a maintenance task reads the whole \
                 table; {create}"
            ));
        }
    }
    Ok(())
}

/// Returns whether an index decides conflicts by the columns of the key and no others. Their order
/// does not matter: earlier versions had another.
fn has_key(key: &str, index_columns: &[CatalogueRow]) -> bool {
    let mut key: Vec<_> = key.split(", ").collect();
    key.sort_unstable();
    index_columns.iter().any(|first| {
        let is_same = |column: &&CatalogueRow| column.text(0) == first.text(0);
        let index = || index_columns.iter().filter(is_same);
        let mut columns: Vec<_> = index().map(|column| column.text(3)).collect();
        columns.sort_unstable();
        columns == key && index().all(|column| column.number(2) == 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms of all backends in one.
    const DDL: &str = "-- idem records, schema version 1.
    CREATE TABLE IF NOT EXISTS {table} (
        token      BIGINT         NOT NULL COMMENT 'not NULL, of course',
        sweep_at   bigint,        -- NOT NULL while in flight
        id         text           COLLATE \"C\" NOT NULL,
        scope      varbinary(255) NOT NULL,
        attempt_id BINARY(16)     NOT NULL,
        result     varbinary(max) NULL     COMMENT 'NOT NULL, perhaps',
        CONSTRAINT [{prefix}_key] PRIMARY KEY CLUSTERED (id, operation, scope)  -- (ids first)
        KEY `{prefix}_purge_at` (purge_at)
    );
    CREATE INDEX [{prefix}_sweep_at] ON {table} (sweep_at) WHERE sweep_at IS NOT NULL;
    CREATE TABLE [v] (version int NOT NULL);
";

    const COLUMNS: &str = "token bigint 8 0 0 0, sweep_at bigint 8 1 0 0, id text 0 0 0 0, \
        scope varbinary 255 0 0 0, attempt_id binary 16 0 0 0, result varbinary 2147483647 1 0 0";

    const INDEXES: &str = "k 1 1 operation, k 0 1 scope, k 0 1 id, p 1 0 purge_at, \
        s 1 0 sweep_at, s 0 0 id";

    fn table() -> Table {
        let [table, _] = Table::both("dedup", ["[t]", "[u]"].map(str::to_owned), [DDL, ""]);
        table
    }

    fn compared(columns: &str, indexes: &str) -> Result<(), String> {
        let row = |row: &str| CatalogueRow(row.split(' ').map(str::to_owned).collect());
        let rows = |rows: &str| -> Vec<_> { rows.split(", ").map(row).collect() };
        compare(&table(), &rows(columns), &rows(indexes), |table, column| {
            format!("ALTER {table} {}", column.name)
        })
    }

    #[test]
    fn columns_and_indexes_are_read_from_the_ddl() {
        let table = table();
        let columns = table.columns();
        let columns: Vec<_> = columns.iter().map(|column| &*column.definition).collect();
        assert_eq!(columns[..2], ["BIGINT NOT NULL", "bigint"]);
        assert_eq!(columns[2], "text COLLATE \"C\" NOT NULL");
        assert_eq!(
            columns[3..5],
            ["varbinary(255) NOT NULL", "BINARY(16) NOT NULL"]
        );
        assert_eq!(columns[5..], ["varbinary(max) NULL"]);
        assert_eq!(table.created(), "[t], [v]");
        assert_eq!(table.key(), "id, operation, scope");
        let key = "ALTER TABLE [t] ADD KEY `dedup_purge_at` (purge_at)";
        let index = "CREATE INDEX [dedup_sweep_at] ON [t] (sweep_at) WHERE sweep_at IS NOT NULL";
        let indexes = [("purge_at", key.to_owned()), ("sweep_at", index.to_owned())];
        assert!(table.indexes().eq(indexes));
    }

    #[test]
    fn a_suitable_table_is_accepted() {
        for (made, suits) in [
            ("", ""),
            // Longer columns, and columns that others have added.
            ("scope varbinary 255", "scope varbinary 400"),
            ("scope varbinary 255", "scope varbinary 2147483647"),
            ("id text 0 0 0 0", "id text 0 0 0 0, added int 4 1 0 0"),
            ("id text 0 0 0 0", "id text 0 0 0 0, added int 4 0 1 0"),
        ] {
            let columns = COLUMNS.replace(made, suits);
            assert_eq!(compared(&columns, INDEXES), Ok(()), "{suits}");
        }
    }

    #[test]
    fn each_difference_of_a_column_is_named_with_its_remedy() {
        for needed in table().columns() {
            let columns = COLUMNS.replace(needed.name, "another");
            let error = compared(&columns, INDEXES).unwrap_err();
            let missing = format!("no column {} {}; add it", needed.name, needed.definition);
            assert!(error.contains(&missing), "{error}");
        }
        for (made, found, said) in [
            (
                "token bigint",
                "token int",
                "is int NOT NULL and has to be BIGINT NOT NULL; ALTER [t] token",
            ),
            (
                "token bigint 8 0",
                "token bigint 8 1",
                "token is bigint NULL and has",
            ),
            (
                "sweep_at bigint 8 1",
                "sweep_at bigint 8 0",
                "sweep_at is bigint NOT NULL and has",
            ),
            (
                "text 0 0 0 0",
                "text 0 0 0 1",
                "values for equal and has to be text COLLATE \"C\"",
            ),
            (
                "scope varbinary",
                "scope varchar",
                "scope is varchar(255) NOT NULL and has",
            ),
            (
                "varbinary 255",
                "varbinary 100",
                "scope is varbinary(100) NOT NULL and has",
            ),
            (
                "binary 16",
                "binary 15",
                "attempt_id is binary(15) NOT NULL and has",
            ),
            (
                "binary 16",
                "binary 20",
                "attempt_id is binary(20) NOT NULL and has",
            ),
            (
                "varbinary 2147483647",
                "varbinary 8000",
                "result is varbinary(8000) NULL and has",
            ),
            (
                "2147483647 1",
                "2147483647 0",
                "result is varbinary(max) NOT NULL and has",
            ),
            (
                "id text 0 0 0 0",
                "id text 0 0 0 0, added int 4 0 0 0",
                "column added is not this",
            ),
        ] {
            assert!(COLUMNS.contains(made), "{made}");
            let error = compared(&COLUMNS.replace(made, found), INDEXES).unwrap_err();
            assert!(error.contains(said), "{found}: {error}");
        }
    }

    #[test]
    fn a_missing_key_or_index_is_named() {
        for (made, found, said) in [
            (
                "k 0 1 id",
                "k 0 1 id, k 0 1 state",
                "give it PRIMARY KEY (id, operation, scope)",
            ),
            ("k 0 1 id, ", "", "no primary key (id, operation, scope)"),
            (
                "k 0 1 id",
                "k 0 0 id",
                "no primary key (id, operation, scope)",
            ),
            (
                "k 0 1 id",
                "l 0 1 id",
                "no primary key (id, operation, scope)",
            ),
            ("p 1 0 purge_at, ", "", "no index on purge_at"),
            ("s 1 0 sweep_at", "s 0 0 sweep_at", "no index on sweep_at"),
        ] {
            assert!(INDEXES.contains(made), "{made}");
            let error = compared(COLUMNS, &INDEXES.replace(made, found)).unwrap_err();
            assert!(error.contains(said), "{found}: {error}");
        }
    }
}
