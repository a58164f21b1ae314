//! Orders whose table carries the idempotency key: no separate record, no claim, no lease. It is
//! enough where one request makes one row and does nothing else.

use std::fmt;

use idem_core::{BoxError, Fingerprint, Key};
use idem_postgres::sqlx::{PgPool, query as pg};
use idem_sqlite::sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use idem_sqlite::sqlx::{AssertSqlSafe, Row, SqlitePool, query as lite};

/// A stored order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Its number, from the database.
    pub number: i64,
    /// The ordered article.
    pub what: String,
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// The order is new.
    New(Order),
    /// It was placed before.
    Before(Order),
    /// Another order was placed under this key: refused.
    Conflict,
}

enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// The table of orders, in SQLite or PostgreSQL.
pub struct Orders {
    pool: Pool,
    table: String,
}

impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Orders")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// A row: number, article, fingerprint.
type Found = (i64, String, Vec<u8>);

impl Orders {
    /// Creates a table of this name at `sqlite:PATH` or `postgres://…`.
    ///
    /// # Errors
    ///
    /// An error when the database cannot be used, or the URL has another form.
    pub async fn create(url: &str, table: &str) -> Result<Self, BoxError> {
        let pool = match url.split_once(':').map(|(scheme, _)| scheme) {
            Some("sqlite") => {
                let options: SqliteConnectOptions = url.parse()?;
                let options = options
                    .create_if_missing(true)
                    .busy_timeout(std::time::Duration::from_secs(30));
                Pool::Sqlite(SqlitePoolOptions::new().max_connections(4).connect_with(options).await?)
            }
            Some("postgres" | "postgresql") => Pool::Postgres(PgPool::connect(url).await?),
            _ => return Err("--store: sqlite:PATH or postgres://… is needed: the key stands in the order's own table".into()),
        };
        let orders = Self {
            pool,
            table: table.to_owned(),
        };
        let number = match orders.pool {
            Pool::Sqlite(_) => "INTEGER PRIMARY KEY",
            Pool::Postgres(_) => "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        };
        let bytes = match orders.pool {
            Pool::Sqlite(_) => "BLOB",
            Pool::Postgres(_) => "BYTEA",
        };
        let ddl = format!(
            "CREATE TABLE {table} (number {number}, tenant TEXT NOT NULL, idempotency_key TEXT NOT NULL, \
             fingerprint {bytes} NOT NULL, what TEXT NOT NULL, UNIQUE (tenant, idempotency_key))"
        );
        orders.execute(ddl).await?;
        Ok(orders)
    }

    async fn execute(&self, sql: String) -> Result<(), BoxError> {
        match &self.pool {
            Pool::Sqlite(pool) => lite(AssertSqlSafe(sql)).execute(pool).await.map(drop)?,
            Pool::Postgres(pool) => pg(AssertSqlSafe(sql)).execute(pool).await.map(drop)?,
        }
        Ok(())
    }

    /// Places an order once per key.
    ///
    /// It reads first, because most repetitions come when the order exists. The work before an
    /// insert (a check of the stock, a call to another service) must not be repeated for them. The
    /// read decides nothing: the insert does, by the unique constraint, and a refused insert reads
    /// again. `ON CONFLICT` waits for a transaction that is about to commit the same key, so that
    /// the second read finds it.
    ///
    /// # Errors
    ///
    /// An error when the database is unreachable; repeating the call shows whether the order was
    /// placed.
    pub async fn place(&self, key: &Key, what: &str) -> Result<Placed, BoxError> {
        let fingerprint = Fingerprint::of(what)?.to_bytes();
        if let Some(found) = self.find(key).await? {
            return Ok(judged(found, &fingerprint));
        }
        if let Some(number) = self.insert(key, &fingerprint, what).await? {
            let what = what.to_owned();
            return Ok(Placed::New(Order { number, what }));
        }
        let found = self.find(key).await?;
        let found = found.ok_or("the order was deleted between an insert and a lookup")?;
        Ok(judged(found, &fingerprint))
    }

    async fn find(&self, key: &Key) -> Result<Option<Found>, BoxError> {
        let table = &self.table;
        let sql = format!(
            "SELECT number, what, fingerprint FROM {table} WHERE tenant = $1 AND idempotency_key = $2"
        );
        let (tenant, id) = (key.scope(), key.id());
        Ok(match &self.pool {
            Pool::Sqlite(pool) => {
                let row = lite(AssertSqlSafe(sql))
                    .bind(tenant)
                    .bind(id)
                    .fetch_optional(pool)
                    .await?;
                row.map(|row| (row.get(0), row.get(1), row.get(2)))
            }
            Pool::Postgres(pool) => {
                let row = pg(AssertSqlSafe(sql))
                    .bind(tenant)
                    .bind(id)
                    .fetch_optional(pool)
                    .await?;
                row.map(|row| (row.get(0), row.get(1), row.get(2)))
            }
        })
    }

    /// Returns the number, if this call inserted the order.
    async fn insert(
        &self,
        key: &Key,
        fingerprint: &[u8],
        what: &str,
    ) -> Result<Option<i64>, BoxError> {
        let table = &self.table;
        let sql = format!(
            "INSERT INTO {table} (tenant, idempotency_key, fingerprint, what) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (tenant, idempotency_key) DO NOTHING RETURNING number"
        );
        let (tenant, id) = (key.scope(), key.id());
        Ok(match &self.pool {
            Pool::Sqlite(pool) => {
                let insert = lite(AssertSqlSafe(sql))
                    .bind(tenant)
                    .bind(id)
                    .bind(fingerprint)
                    .bind(what);
                insert.fetch_optional(pool).await?.map(|row| row.get(0))
            }
            Pool::Postgres(pool) => {
                let insert = pg(AssertSqlSafe(sql))
                    .bind(tenant)
                    .bind(id)
                    .bind(fingerprint)
                    .bind(what);
                insert.fetch_optional(pool).await?.map(|row| row.get(0))
            }
        })
    }

    /// Returns the number of orders.
    ///
    /// # Errors
    ///
    /// An error when the database is unreachable.
    pub async fn count(&self) -> Result<i64, BoxError> {
        let sql = format!("SELECT count(*) FROM {}", self.table);
        Ok(match &self.pool {
            Pool::Sqlite(pool) => lite(AssertSqlSafe(sql)).fetch_one(pool).await?.get(0),
            Pool::Postgres(pool) => pg(AssertSqlSafe(sql)).fetch_one(pool).await?.get(0),
        })
    }

    /// Drops the table.
    ///
    /// # Errors
    ///
    /// An error when the database is unreachable.
    pub async fn remove(self) -> Result<(), BoxError> {
        self.execute(format!("DROP TABLE {}", self.table)).await
    }
}

fn judged((number, what, stored): Found, fingerprint: &[u8]) -> Placed {
    if stored == fingerprint {
        Placed::Before(Order { number, what })
    } else {
        Placed::Conflict
    }
}
