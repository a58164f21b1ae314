//! Orders whose table carries the idempotency key: no separate record, no claim, no lease. It is
//! enough where one request makes one row and does nothing else.

use std::time::Duration;

use idem_core::{BoxError, Fingerprint, Key};
use idem_postgres::sqlx::{AssertSqlSafe, PgPool, SqlitePool, query, query_as};
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};

enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// Writes a statement once for both drivers.
macro_rules! on {
    ($orders:expr, |$pool:ident| $statement:expr) => {
        match &$orders.pool {
            Pool::Sqlite($pool) => $statement,
            Pool::Postgres($pool) => $statement,
        }
    };
}

/// The outcome of a request, with the number of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// The order is new.
    New(i64),
    /// It was placed before.
    Before(i64),
    /// Another order was placed under this key: refused.
    Conflict,
}

/// The table of orders, in SQLite or PostgreSQL.
pub(crate) struct Orders {
    pool: Pool,
    table: String,
}

impl Orders {
    /// Places an order once per key.
    ///
    /// It reads first, because most repetitions come when the order exists. The work before an
    /// insert (a check of the stock, a call to another service) must not be repeated for them. The
    /// read decides nothing: the insert does, by the unique constraint, and a refused insert reads
    /// again. `ON CONFLICT` waits for a transaction that is about to commit the same key, so that
    /// the second read finds it. After an error, repeating the call shows whether the order was
    /// placed.
    pub(crate) async fn place(&self, key: &Key, what: &str) -> Result<Placed, BoxError> {
        let fingerprint = Fingerprint::of(what)?.to_bytes();
        let placed = |(number, stored): (i64, Vec<u8>)| match stored == fingerprint {
            true => Placed::Before(number),
            false => Placed::Conflict,
        };
        if let Some(found) = self.find(key).await? {
            return Ok(placed(found));
        }
        if let Some(number) = self.insert(key, &fingerprint, what).await? {
            return Ok(Placed::New(number));
        }
        let found = self.find(key).await?;
        let found = found.ok_or("the order was deleted between an insert and a lookup")?;
        Ok(placed(found))
    }

    /// Returns the number and the fingerprint of the order with this key.
    async fn find(&self, key: &Key) -> Result<Option<(i64, Vec<u8>)>, BoxError> {
        let sql = AssertSqlSafe(format!(
            "SELECT number, fingerprint FROM {} WHERE tenant = $1 AND idempotency_key = $2",
            self.table
        ));
        Ok(on!(self, |pool| query_as(sql)
            .bind(key.scope())
            .bind(key.id())
            .fetch_optional(pool)
            .await?))
    }

    /// Returns the number, if this call inserted the order.
    async fn insert(
        &self,
        key: &Key,
        fingerprint: &[u8],
        what: &str,
    ) -> Result<Option<i64>, BoxError> {
        let sql = AssertSqlSafe(format!(
            "INSERT INTO {} (tenant, idempotency_key, fingerprint, what) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (tenant, idempotency_key) DO NOTHING RETURNING number",
            self.table
        ));
        let inserted: Option<(i64,)> = on!(self, |pool| query_as(sql)
            .bind(key.scope())
            .bind(key.id())
            .bind(fingerprint)
            .bind(what)
            .fetch_optional(pool)
            .await?);
        Ok(inserted.map(|(number,)| number))
    }

    /// Creates a table of this name at `sqlite:PATH` or `postgres://…`.
    pub(crate) async fn create(url: &str, table: &str) -> Result<Self, BoxError> {
        let (pool, number, bytes) = match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => {
                let options = url.parse::<SqliteConnectOptions>()?.create_if_missing(true);
                let options = options.busy_timeout(Duration::from_secs(30));
                let pool = SqlitePoolOptions::new().max_connections(4);
                let pool = Pool::Sqlite(pool.connect_with(options).await?);
                (pool, "INTEGER PRIMARY KEY", "BLOB")
            }
            Some("postgres" | "postgresql") => {
                let pool = Pool::Postgres(PgPool::connect(url).await?);
                (
                    pool,
                    "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
                    "BYTEA",
                )
            }
            _ => {
                let needed = "--store: sqlite:PATH or postgres://… is needed: the key stands in \
                              the order's own table";
                return Err(needed.into());
            }
        };
        let table = table.to_owned();
        let orders = Self { pool, table };
        let table = &orders.table;
        orders
            .execute(format!(
                "CREATE TABLE {table} (number {number}, tenant TEXT NOT NULL, \
                 idempotency_key TEXT NOT NULL, fingerprint {bytes} NOT NULL, \
                 what TEXT NOT NULL, UNIQUE (tenant, idempotency_key))"
            ))
            .await?;
        Ok(orders)
    }

    /// Returns the number of orders.
    pub(crate) async fn count(&self) -> Result<u64, BoxError> {
        let sql = AssertSqlSafe(format!("SELECT count(*) FROM {}", self.table));
        let (count,): (i64,) = on!(self, |pool| query_as(sql).fetch_one(pool).await?);
        Ok(count.try_into()?)
    }

    /// Drops the table.
    pub(crate) async fn remove(self) -> Result<(), BoxError> {
        self.execute(format!("DROP TABLE {}", self.table)).await
    }

    async fn execute(&self, sql: String) -> Result<(), BoxError> {
        let sql = AssertSqlSafe(sql);
        on!(self, |pool| query(sql).execute(pool).await.map(drop)?);
        Ok(())
    }
}
