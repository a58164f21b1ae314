//! The statements that one would write by hand.

use idem_core::BoxError;
use idem_redis::redis::{self, aio::MultiplexedConnection};
use sqlx::{PgPool, SqlitePool};

/// Plain statements on a table of `(id PRIMARY KEY, response)`, through a pool that is set up as the store's; on Redis
/// plain commands on a connection of the same kind.
#[derive(Clone)]
pub enum Bare {
    /// On SQLite.
    Sqlite(SqlitePool),
    /// On PostgreSQL.
    Postgres(PgPool),
    /// On Redis.
    Redis(MultiplexedConnection),
}

/// How long a key is kept on Redis, in milliseconds.
const DAY: u64 = 86_400_000;

impl Bare {
    /// The table.
    pub(crate) const TABLE: &str = "CREATE TABLE bare (id TEXT PRIMARY KEY, response TEXT)";

    /// `INSERT … ON CONFLICT DO NOTHING`; `SET … NX GET PX`.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn insert(&self, id: String) -> Result<(), BoxError> {
        match self {
            Self::Redis(connection) => {
                let mut set = redis::cmd("SET");
                set.arg(id).arg("pending").arg("NX").arg("GET").arg("PX");
                set.arg(DAY);
                Ok(set.exec_async(&mut connection.clone()).await?)
            }
            Self::Sqlite(pool) => {
                sqlx::query("INSERT INTO bare (id) VALUES (?1) ON CONFLICT DO NOTHING")
                    .bind(id)
                    .execute(pool)
                    .await?;
                Ok(())
            }
            Self::Postgres(pool) => {
                sqlx::query("INSERT INTO bare (id) VALUES ($1) ON CONFLICT DO NOTHING")
                    .bind(id)
                    .execute(pool)
                    .await?;
                Ok(())
            }
        }
    }

    /// `UPDATE … WHERE id = …`; `SET … XX PX`.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn update(&self, id: String) -> Result<(), BoxError> {
        match self {
            Self::Redis(connection) => {
                let mut set = redis::cmd("SET");
                set.arg(id).arg("done").arg("XX").arg("PX").arg(DAY);
                Ok(set.exec_async(&mut connection.clone()).await?)
            }
            Self::Sqlite(pool) => {
                sqlx::query("UPDATE bare SET response = 'done' WHERE id = ?1")
                    .bind(id)
                    .execute(pool)
                    .await?;
                Ok(())
            }
            Self::Postgres(pool) => {
                sqlx::query("UPDATE bare SET response = 'done' WHERE id = $1")
                    .bind(id)
                    .execute(pool)
                    .await?;
                Ok(())
            }
        }
    }

    /// `SELECT … WHERE id = …`; `GET`.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn select(&self, id: String) -> Result<(), BoxError> {
        match self {
            Self::Redis(connection) => {
                let mut get = redis::cmd("GET");
                Ok(get.arg(id).exec_async(&mut connection.clone()).await?)
            }
            Self::Sqlite(pool) => {
                sqlx::query("SELECT response FROM bare WHERE id = ?1")
                    .bind(id)
                    .fetch_one(pool)
                    .await?;
                Ok(())
            }
            Self::Postgres(pool) => {
                sqlx::query("SELECT response FROM bare WHERE id = $1")
                    .bind(id)
                    .fetch_one(pool)
                    .await?;
                Ok(())
            }
        }
    }
}

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sqlite(_) => "Sqlite",
            Self::Postgres(_) => "Postgres",
            Self::Redis(_) => "Redis",
        })
    }
}
