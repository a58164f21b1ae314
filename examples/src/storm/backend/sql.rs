//! The ledger of the databases that sqlx reaches.

/// Writes functions for a driver's pool and connection: `run` a script, `insert` an effect into the
/// ledger, and read all `entries`.
macro_rules! ledger {
    ($backend:ident, $pool:ty, $connection:ty) => {
        async fn run(pool: &$pool, sql: String) -> Result<(), idem_core::BoxError> {
            use $backend::sqlx;
            let script = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
            script.execute(pool).await?;
            Ok(())
        }

        async fn insert(
            connection: &mut $connection,
            sql: String,
            entry: &$crate::storm::entry::Entry,
        ) -> Result<(), idem_core::BoxError> {
            use $backend::sqlx;
            sqlx::query(sqlx::AssertSqlSafe(sql))
                .bind(&entry.key)
                .bind(&entry.fingerprint)
                .bind(entry.token)
                .bind(entry.attempts)
                .bind(entry.delivery)
                .bind(&entry.worker)
                .execute(connection)
                .await?;
            Ok(())
        }

        async fn entries(
            pool: &$pool,
            sql: String,
        ) -> Result<Vec<$crate::storm::entry::Entry>, idem_core::BoxError> {
            use sqlx::Row;
            use $backend::sqlx;
            let select = sqlx::query(sqlx::AssertSqlSafe(sql));
            let rows = select.fetch_all(pool).await?;
            let entries = rows.iter().map(|row| {
                Ok($crate::storm::entry::Entry {
                    key: row.try_get(0)?,
                    fingerprint: row.try_get(1)?,
                    token: row.try_get(2)?,
                    attempts: row.try_get(3)?,
                    delivery: row.try_get(4)?,
                    worker: row.try_get(5)?,
                })
            });
            entries.collect()
        }
    };
}

pub(super) use ledger;
