//! Reads the server's catalogue about a table, whose quoted name is the one value. A user sees the
//! parts for which it has a privilege:
//! <https://learn.microsoft.com/sql/relational-databases/security/metadata-visibility-configuration>.

/// The version in the table of versions, if the table itself exists.
pub(crate) const VERSION_OF_TABLE: &str = "IF OBJECT_ID(N'{version_table}', N'U') IS NOT NULL
SELECT version FROM {version_table} WHERE OBJECT_ID(@P1, N'U') IS NOT NULL;
";

/// The answer of [`Schema::COLUMNS`](idem_sql::schema::Schema::COLUMNS). By the database's
/// collation, capitals in names may not count.
///
/// `sys.all_columns` and not `sys.columns`: on Babelfish that one is a function that reads the
/// columns of every table in the database, and fails if another session drops one of them
/// meanwhile. This one is a view, into which the condition goes.
pub(crate) const COLUMNS_OF_TABLE: &str = "SELECT LOWER(c.name), LOWER(TYPE_NAME(c.user_type_id)),
    CASE WHEN c.max_length = -1 THEN 2147483647 ELSE c.max_length END,
    CASE WHEN c.is_nullable = 1 THEN 1 ELSE 0 END,
    CASE WHEN c.default_object_id <> 0 OR c.is_identity = 1 OR c.is_computed = 1 THEN 1 ELSE 0 END
FROM sys.all_columns AS c
WHERE c.object_id = OBJECT_ID(@P1, N'U');
";

/// The answer of [`Schema::INDEX_COLUMNS`](idem_sql::schema::Schema::INDEX_COLUMNS).
pub(crate) const INDEX_COLUMNS_OF_TABLE: &str = "SELECT i.index_id, k.key_ordinal,
    CASE WHEN i.is_primary_key = 1 THEN 1 ELSE 0 END, LOWER(COL_NAME(k.object_id, k.column_id))
FROM sys.indexes AS i
INNER JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
WHERE i.object_id = OBJECT_ID(@P1, N'U') AND k.key_ordinal > 0;
";

/// Whether the database is read-only, how many triggers the table has, the user, and whether it has
/// each of its privileges.
pub(crate) const ACCESS_TO_TABLE: &str =
    "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), N'Updateability') AS nvarchar(128)),
    (SELECT COUNT(*) FROM sys.triggers WHERE parent_id = OBJECT_ID(@P1, N'U') AND is_disabled = 0),
    CAST(QUOTENAME(USER_NAME()) AS nvarchar(258)),
    HAS_PERMS_BY_NAME(@P1, N'OBJECT', N'SELECT'), HAS_PERMS_BY_NAME(@P1, N'OBJECT', N'INSERT'),
    HAS_PERMS_BY_NAME(@P1, N'OBJECT', N'UPDATE'), HAS_PERMS_BY_NAME(@P1, N'OBJECT', N'DELETE');
";
