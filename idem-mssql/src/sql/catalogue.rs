//! Reads the server's catalogue about the tables. A user sees the parts for which it has a
//! privilege:
//! <https://learn.microsoft.com/sql/relational-databases/security/metadata-visibility-configuration>.

/// Table (0: records, 1: watermarks), name, type, length in bytes, whether it takes NULL, whether
/// the server fills it in.
///
/// `sys.all_columns` and not `sys.columns`: on Babelfish that one is a function that reads the
/// columns of every table in the database, and fails if another session drops one of them
/// meanwhile. This one is a view, into which the condition goes.
pub(crate) const COLUMNS_OF_TABLES: &str =
    "SELECT CASE c.object_id WHEN OBJECT_ID(N'{table}', N'U') THEN 0 ELSE 1 END,
    c.name, TYPE_NAME(c.user_type_id), c.max_length,
    CASE WHEN c.is_nullable = 1 THEN 1 ELSE 0 END,
    CASE WHEN c.default_object_id <> 0 OR c.is_identity = 1 OR c.is_computed = 1 THEN 1 ELSE 0 END
FROM sys.all_columns AS c
WHERE c.object_id IN (OBJECT_ID(N'{table}', N'U'), OBJECT_ID(N'{marks}', N'U'));
";

/// Table, index, whether it is the primary key, and a column of it; in order.
pub(crate) const INDEXES_OF_TABLES: &str =
    "SELECT t.n, i.index_id, CASE WHEN i.is_primary_key = 1 THEN 1 ELSE 0 END,
    COL_NAME(k.object_id, k.column_id)
FROM (VALUES (0, N'{table}'), (1, N'{marks}')) AS t (n, name)
INNER JOIN sys.indexes AS i ON i.object_id = OBJECT_ID(t.name, N'U')
INNER JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
WHERE k.key_ordinal > 0
ORDER BY t.n, i.index_id, k.key_ordinal;
";

/// Whether the database is read-only, how many triggers the tables have, and the user's privileges
/// on each table.
pub(crate) const RIGHTS: &str = "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), N'Updateability') AS nvarchar(128)),
    (SELECT COUNT(*) FROM sys.triggers
        WHERE parent_id IN (OBJECT_ID(N'{table}', N'U'), OBJECT_ID(N'{marks}', N'U')) AND is_disabled = 0),
    HAS_PERMS_BY_NAME(N'{table}', N'OBJECT', N'SELECT'), HAS_PERMS_BY_NAME(N'{table}', N'OBJECT', N'INSERT'),
    HAS_PERMS_BY_NAME(N'{table}', N'OBJECT', N'UPDATE'), HAS_PERMS_BY_NAME(N'{table}', N'OBJECT', N'DELETE'),
    HAS_PERMS_BY_NAME(N'{marks}', N'OBJECT', N'SELECT'), HAS_PERMS_BY_NAME(N'{marks}', N'OBJECT', N'INSERT'),
    HAS_PERMS_BY_NAME(N'{marks}', N'OBJECT', N'UPDATE'), HAS_PERMS_BY_NAME(N'{marks}', N'OBJECT', N'DELETE');
";
