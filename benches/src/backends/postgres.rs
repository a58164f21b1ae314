//! PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::Profile;
use idem_core::BoxError;
use idem_postgres::{Config, PostgresStore, Transactions};
use idem_stores::{Postgres, Suite};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgCopyIn, PgPoolCopyExt as _, PgPoolOptions};
use sqlx::{ConnectOptions, Executor as _, PgPool, Row};
use tokio::sync::Mutex;

use super::HELD;
use super::loaded::{LOADED, LoadedRow};
use super::sql::{PAYERS, PAYING, POOL, fill, payments, statements};
use crate::backend::{PayBox, one_row};
use crate::ids::{OPERATION, SCOPE};
use crate::{Backend, Baseline, Load, Statements};

struct Bare(Postgres);

/// Returns the server at this URL.
pub(super) fn backend(name: &str, url: String) -> Backend {
    let config = Config::new().with_max_connections(HELD);
    let adapter = Postgres::new(url).with_config(config);
    let suite = Suite::new(name, adapter.clone(), Profile::new().row_locks());
    Backend::new(suite).with_baseline(Bare(adapter))
}

impl Bare {
    fn options(&self, namespace: &str) -> Result<PgConnectOptions, BoxError> {
        let options = self.0.driver_options()?;
        Ok(options.options([("search_path", namespace)]))
    }
}

#[async_trait]
impl Baseline for Bare {
    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        let create = format!("CREATE TABLE {namespace}.bare {TABLE}");
        self.0.execute(create).await
    }

    async fn load(&self, namespace: &str) -> Result<Option<Box<dyn Load>>, BoxError> {
        let pool = PgPoolOptions::new().max_connections(1);
        let pool = pool.connect_with(self.options(namespace)?).await?;
        let copy = format!("COPY {LOADED} FROM STDIN");
        let stream = pool.copy_in_raw(&copy).await?;
        let row = LoadedRow::now("\t");
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

    async fn payments(&self, namespace: &str) -> Result<Vec<(&'static str, PayBox)>, BoxError> {
        let pool = || PgPoolOptions::new().max_connections(PAYING);
        let options = self.options(namespace)?;
        let mut pools = Vec::new();
        for _ in PAYERS {
            pools.push(pool().connect_with(options.clone()).await?);
        }
        let create = "CREATE TABLE paid (id text PRIMARY KEY, cents bigint)";
        pools[0].execute(create).await?;
        let store = PostgresStore::with_config(pools[0].clone(), self.0.config(namespace)?);
        let payers: [PayBox; 3] = [
            Arc::new(ByRunIn {
                transactions: Transactions::new(&store),
                idempotency: idem_core::Idempotency::new(store),
            }),
            Arc::new(ByHand(pools[1].clone(), true)),
            Arc::new(ByHand(pools[2].clone(), false)),
        ];
        Ok(std::iter::zip(PAYERS, payers).collect())
    }

    fn most_connections(&self) -> Option<usize> {
        Some(HELD as usize)
    }

    async fn fill(&self, namespace: &str, rows: u64, ends_in: i64) -> Result<(), BoxError> {
        let fill = fill(FILL, rows, ends_in);
        let settings = format!(
            "SET search_path = {namespace}; SET max_parallel_maintenance_workers = 2; \
             SET maintenance_work_mem = '1GB'"
        );
        self.0.execute(format!("{settings}; {fill};")).await?;
        let vacuum = format!("VACUUM (ANALYZE) {namespace}.idem_records");
        self.0.execute(vacuum).await?;
        self.0.execute("CHECKPOINT".to_owned()).await
    }

    fn most_rows(&self) -> u64 {
        10_000_000
    }
}

const TABLE: &str = "(id text PRIMARY KEY, response bytea)";
const INSERT: &str = "INSERT INTO bare (id) VALUES ($1) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE bare SET response = $1 WHERE id = $2";
const SELECT: &str = "SELECT response FROM bare WHERE id = $1";

const PAY: &str = "INSERT INTO paid (id, cents) VALUES ($1, 1250)";

payments!(pool: PgPool, Transactions => pool.begin());
statements!(Pooled(PgPool), self => &self.0);
statements!(Held(Mutex<PgConnection>), self => &mut *self.0.lock().await);

/// A `COPY` under way, which commits by itself.
struct Copy {
    stream: PgCopyIn<PoolConnection<sqlx::Postgres>>,
    row: LoadedRow,
}

#[async_trait]
impl Load for Copy {
    async fn rows(&mut self, ids: &[String]) -> Result<(), BoxError> {
        let LoadedRow {
            fingerprint,
            numbers,
        } = &self.row;
        let line =
            |id| format!("{SCOPE}\t{OPERATION}\t{id}\t\\\\x{id}\t\\\\x{fingerprint}\t{numbers}\n");
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
