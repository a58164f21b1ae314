//! SQLite: triggers that write each changed row into a second table, within the same transaction.

use std::path::Path;

use idem_core::BoxError;
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use idem_sqlite::sqlx::{AssertSqlSafe, Connection, Row as _, query, raw_sql};
use idem_stores::Sqlite;

use super::Change;
use super::columns::{Columns, Value, key, row};

const NUMBERS: [&str; 6] = [
    "state",
    "token",
    "attempts",
    "lease_ends_at",
    "expires_at",
    "sweep_at",
];
const BYTES: [&str; 6] = [
    "scope",
    "operation",
    "id",
    "fingerprint",
    "attempt_id",
    "result",
];

async fn connect(folder: &str) -> Result<SqliteConnection, BoxError> {
    let file = Path::new(folder).join(Sqlite::FILE);
    let options = SqliteConnectOptions::new().filename(file);
    Ok(SqliteConnection::connect_with(&options).await?)
}

pub(super) async fn begin(folder: &str) -> Result<(), BoxError> {
    let names = [NUMBERS, BYTES].concat();
    let columns = names.join(", ");
    let of = |row: &str| {
        let values: Vec<String> = names.iter().map(|name| format!("{row}.{name}")).collect();
        values.join(", ")
    };
    let trigger = |event: &str, row: &str, deleted: u8| {
        format!(
            "CREATE TRIGGER idem_trace_{event} AFTER {event} ON idem_records BEGIN
                INSERT INTO idem_trace (deleted, now, {columns})
                VALUES ({deleted}, unixepoch('subsec'), {});
            END;\n",
            of(row)
        )
    };
    let script = format!(
        "CREATE TABLE idem_trace (n INTEGER PRIMARY KEY AUTOINCREMENT, deleted, now, {columns});
        {}{}{}",
        trigger("INSERT", "new", 0),
        trigger("UPDATE", "new", 0),
        trigger("DELETE", "old", 1)
    );
    let mut connection = connect(folder).await?;
    raw_sql(AssertSqlSafe(script))
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

pub(super) async fn changes(folder: &str) -> Result<Vec<Change>, BoxError> {
    let columns = [
        NUMBERS.join(", "),
        BYTES
            .map(|name| format!("CAST({name} AS BLOB) AS {name}"))
            .join(", "),
    ];
    // The end of the millisecond that the trigger saw.
    let select = format!(
        "SELECT n, deleted, CAST(now * 1000 AS INTEGER) * 1000 + 1000 AS now, {}
        FROM idem_trace ORDER BY n",
        columns.join(", ")
    );
    let mut connection = connect(folder).await?;
    let rows = query(AssertSqlSafe(select))
        .fetch_all(&mut connection)
        .await?;
    connection.close().await?;
    rows.iter().map(change).collect()
}

fn change(found: &SqliteRow) -> Result<Change, BoxError> {
    let mut columns = Columns::new();
    for name in NUMBERS {
        let value: Option<i64> = found.try_get(name)?;
        columns.insert(name.to_owned(), value.map_or(Value::Null, Value::Number));
    }
    for name in BYTES {
        let value: Option<Vec<u8>> = found.try_get(name)?;
        columns.insert(name.to_owned(), value.map_or(Value::Null, Value::Bytes));
    }
    let is_deleted = found.try_get::<i64, _>("deleted")? == 1;
    Ok(Change {
        at: found.try_get::<i64, _>("n")?.to_string(),
        k: key(&columns)?,
        now: Some(found.try_get("now")?),
        row: (!is_deleted).then(|| row(&columns)).transpose()?,
    })
}
