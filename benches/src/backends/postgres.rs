//! PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::Profile;
use idem_core::BoxError;
use idem_postgres::Config;
use idem_stores::{Postgres, Suite};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgCopyIn, PgPoolCopyExt as _, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgPool, Row};
use tokio::sync::Mutex;

use super::{HELD, LoadedRow, POOL, statements};
use crate::backend::one_row;
use crate::ids::{OPERATION, SCOPE};
use crate::{Backend, Baseline, Load, Rows, Share, Statements};

struct Bare(Postgres);

/// Returns the server at this URL.
pub(super) fn backend(url: String) -> Backend {
    let config = Config::new().with_max_connections(HELD);
    let adapter = Postgres::new(url).with_config(config);
    let suite = Suite::new("postgres", adapter.clone(), Profile::new().row_locks());
    Backend::new(suite).with_baseline(Bare(adapter))
}

impl Bare {
    fn options(&self, namespace: &str) -> Result<PgConnectOptions, BoxError> {
        let options = self.0.driver_options()?;
        Ok(options.options([("search_path", namespace)]))
    }

    async fn execute(&self, namespace: &str, sql: String) -> Result<(), BoxError> {
        let mut connection = self.options(namespace)?.connect().await?;
        let script = sqlx::raw_sql(AssertSqlSafe(sql));
        script.execute(&mut connection).await?;
        Ok(connection.close().await?)
    }
}

#[async_trait]
impl Baseline for Bare {
    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        self.execute(namespace, TABLE.to_owned()).await
    }

    async fn load(&self, namespace: &str) -> Result<Option<Box<dyn Load>>, BoxError> {
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = pool.connect_with(self.options(namespace)?).await?;
        let stream = pool.copy_in_raw(LOAD).await?;
        let row = LoadedRow::now();
        Ok(Some(Box::new(Copy { stream, row })))
    }

    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        let pool = PgPoolOptions::new().max_connections(POOL);
        let pool = pool.connect_with(self.options(namespace)?).await?;
        Ok(Some(Arc::new(Pooled(pool))))
    }

    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        let connection = self.options(namespace)?.connect().await?;
        Ok(Arc::new(Held(Mutex::new(connection))))
    }

    fn share(&self) -> Share {
        Share::Each(HELD as usize)
    }

    async fn fill(&self, namespace: &str, rows: u64, what: Rows) -> Result<(), BoxError> {
        let fill = FILL
            .replace("{rows}", &rows.to_string())
            .replace("{ends}", &what.ends_in_micros().to_string());
        let settings =
            "SET max_parallel_maintenance_workers = 2; SET maintenance_work_mem = '1GB';";
        self.execute(namespace, format!("{settings} {fill};"))
            .await?;
        let settled = ["VACUUM (ANALYZE) idem_records", "CHECKPOINT"];
        for statement in settled {
            self.execute(namespace, statement.to_owned()).await?;
        }
        Ok(())
    }

    fn most_rows(&self) -> u64 {
        10_000_000
    }
}

const TABLE: &str = "CREATE TABLE bare (id text PRIMARY KEY, response bytea)";
const INSERT: &str = "INSERT INTO bare (id) VALUES ($1) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE bare SET response = $2 WHERE id = $1";
const SELECT: &str = "SELECT response FROM bare WHERE id = $1";

struct Pooled(PgPool);
struct Held(Mutex<PgConnection>);

statements!(Pooled, self => &self.0);
statements!(Held, self => &mut *self.0.lock().await);

const LOAD: &str =
    "COPY idem_records (scope, operation, id, attempt_id, fingerprint, token, created_at,
    lease_ends_at, expires_at, purge_at, attempts, state) FROM STDIN";

/// A `COPY` under way, which commits by itself.
struct Copy {
    stream: PgCopyIn<PoolConnection<sqlx::Postgres>>,
    row: LoadedRow,
}

#[async_trait]
impl Load for Copy {
    async fn rows(&mut self, ids: &[String]) -> Result<(), BoxError> {
        let LoadedRow {
            now,
            lease_ends_at,
            expires_at,
            fingerprint,
        } = &self.row;
        let line = |id: &String| {
            format!(
                "{SCOPE}\t{OPERATION}\t{id}\t\\\\x{id}\t\\\\x{fingerprint}\t{now}\t{now}\t{lease_ends_at}\t{expires_at}\t{expires_at}\t1\t0\n"
            )
        };
        let lines: String = ids.iter().map(line).collect();
        self.stream.send(lines.into_bytes()).await?;
        Ok(())
    }

    async fn commit(self: Box<Self>) -> Result<u64, BoxError> {
        Ok(self.stream.finish().await?)
    }
}

/// The indexes are created after the rows: maintaining them for ten million random keys takes
/// several times as long.
const FILL: &str = include_str!("fill/postgres.sql");
