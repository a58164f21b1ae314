//! The statements that one would write by hand.

use sqlx::{PgPool, SqlitePool};

/// Plain statements on a table of `(id PRIMARY KEY, response)`, through a pool that is set up as the store's.
#[derive(Debug, Clone)]
pub enum Bare {
    /// On SQLite.
    Sqlite(SqlitePool),
    /// On PostgreSQL.
    Postgres(PgPool),
}

impl Bare {
    /// The table.
    pub(crate) const TABLE: &str = "CREATE TABLE bare (id TEXT PRIMARY KEY, response TEXT)";

    /// `INSERT … ON CONFLICT DO NOTHING`.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn insert(&self, id: String) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(pool) => {
                sqlx::query("INSERT INTO bare (id) VALUES (?1) ON CONFLICT DO NOTHING")
                    .bind(id)
                    .execute(pool)
                    .await
                    .map(drop)
            }
            Self::Postgres(pool) => {
                sqlx::query("INSERT INTO bare (id) VALUES ($1) ON CONFLICT DO NOTHING")
                    .bind(id)
                    .execute(pool)
                    .await
                    .map(drop)
            }
        }
    }

    /// `UPDATE … WHERE id = …`.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn update(&self, id: String) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(pool) => sqlx::query("UPDATE bare SET response = 'done' WHERE id = ?1")
                .bind(id)
                .execute(pool)
                .await
                .map(drop),
            Self::Postgres(pool) => sqlx::query("UPDATE bare SET response = 'done' WHERE id = $1")
                .bind(id)
                .execute(pool)
                .await
                .map(drop),
        }
    }

    /// `SELECT … WHERE id = …`.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn select(&self, id: String) -> Result<(), sqlx::Error> {
        match self {
            Self::Sqlite(pool) => sqlx::query("SELECT response FROM bare WHERE id = ?1")
                .bind(id)
                .fetch_one(pool)
                .await
                .map(drop),
            Self::Postgres(pool) => sqlx::query("SELECT response FROM bare WHERE id = $1")
                .bind(id)
                .fetch_one(pool)
                .await
                .map(drop),
        }
    }
}
