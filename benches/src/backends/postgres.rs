//! PostgreSQL.

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::{Harness, Product, Profile};
use idem_core::{BatchStore, BoxError, ClaimRequest, IdempotencyStore};
use idem_postgres::{Config, PostgresStore};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, PgPool, Row};
use tokio::sync::Mutex;

use super::{POOL, namespace, statements};
use crate::bare::one_row;
use crate::locker::holding;
use crate::{Bare, Filler, Locker, OpenTransaction, Rows, Share, Statements, Subject};

/// A server; each namespace is a schema.
#[derive(Debug, Clone)]
pub(super) struct Postgres {
    url: String,
}

pub(super) fn subject(url: String) -> Subject {
    let postgres = Arc::new(Postgres { url });
    Subject::new(Arc::clone(&postgres) as Arc<dyn Harness>)
        .with_bare(Arc::clone(&postgres) as Arc<dyn Bare>)
        .with_filler(Arc::clone(&postgres) as Arc<dyn Filler>)
        .with_locker(postgres)
}

impl Postgres {
    async fn store(&self, namespace: &str) -> Result<PostgresStore, BoxError> {
        let config = Config::new().with_schema(namespace)?;
        let config = config.with_max_connections(super::HELD);
        Ok(PostgresStore::connect(&self.url, config).await?)
    }

    fn options(&self, namespace: &str) -> Result<PgConnectOptions, BoxError> {
        Ok(PgConnectOptions::from_str(&self.url)?.options([("search_path", namespace)]))
    }

    async fn execute(&self, namespace: &str, sql: String) -> Result<(), BoxError> {
        let options = self.options(namespace)?;
        let mut connection = PgConnection::connect_with(&options).await?;
        let script = sqlx::raw_sql(AssertSqlSafe(sql));
        script.execute(&mut connection).await?;
        Ok(connection.close().await?)
    }
}

#[async_trait]
impl Harness for Postgres {
    fn name(&self) -> &str {
        "postgres"
    }

    fn profile(&self) -> Profile {
        Profile::new().durable().server_clock().batch()
    }

    async fn product(&self) -> Result<Product, BoxError> {
        let mut connection = PgConnection::connect(&self.url).await?;
        let version = sqlx::raw_sql("SHOW server_version");
        let row = version.fetch_one(&mut connection).await?;
        Ok(Product::new("PostgreSQL", row.try_get::<String, _>(0)?))
    }

    async fn create(&self) -> Result<String, BoxError> {
        let namespace = namespace();
        let store = self.store(&namespace).await?;
        store.migrate().await?;
        store.pool().close().await;
        Ok(namespace)
    }

    async fn open(&self, namespace: &str) -> Result<Arc<dyn IdempotencyStore>, BoxError> {
        Ok(Arc::new(self.store(namespace).await?))
    }

    async fn open_batch(&self, namespace: &str) -> Result<Option<Arc<dyn BatchStore>>, BoxError> {
        Ok(Some(Arc::new(self.store(namespace).await?)))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let drop = format!("DROP SCHEMA IF EXISTS \"{namespace}\" CASCADE");
        self.execute(namespace, drop).await
    }
}

#[async_trait]
impl Locker for Postgres {
    async fn lock(
        &self,
        namespace: &str,
        request: &ClaimRequest,
    ) -> Result<OpenTransaction, BoxError> {
        let store = self.store(namespace).await?;
        let mut transaction = store.pool().begin().await?;
        let outcome = store.claim_in(&mut transaction, request).await?;
        holding(transaction, &outcome)
    }
}

#[async_trait]
impl Bare for Postgres {
    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        let table = "CREATE TABLE bare (id text PRIMARY KEY, response bytea)";
        self.execute(namespace, table.to_owned()).await
    }

    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        let pool = PgPoolOptions::new().max_connections(POOL);
        let pool = pool.connect_with(self.options(namespace)?).await?;
        Ok(Some(Arc::new(Pooled(pool))))
    }

    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        let options = self.options(namespace)?;
        let connection = PgConnection::connect_with(&options).await?;
        Ok(Arc::new(Held(Mutex::new(connection))))
    }

    /// In one race of 8, 16, 32 and 64 connections, 64 inserted most: each flush of the log is shared by more of them.
    fn share(&self) -> Share {
        Share::Each(super::held(super::HELD))
    }
}

const INSERT: &str = "INSERT INTO bare (id) VALUES ($1) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE bare SET response = $2 WHERE id = $1";
const SELECT: &str = "SELECT response FROM bare WHERE id = $1";

struct Pooled(PgPool);
struct Held(Mutex<PgConnection>);

statements!(Pooled, self => &self.0);
statements!(Held, self => &mut *self.0.lock().await);

/// Indexes are made anew after the rows: maintaining them for ten million random keys takes several times as long.
const FILL: &str = r"
DO $fill$
DECLARE
    wanted bigint := {rows};
    ends bigint := {ends};
    now bigint := CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS bigint);
    the_table regclass := 'idem_records';
    the_constraint record;
    the_index record;
    makes text[] := ARRAY[]::text[];
    make text;
BEGIN
    FOR the_index IN
        SELECT indexrelid::regclass AS name, pg_get_indexdef(indexrelid) AS definition
        FROM pg_index WHERE indrelid = the_table AND NOT indisprimary
    LOOP
        makes := makes || the_index.definition;
        EXECUTE format('DROP INDEX %s', the_index.name);
    END LOOP;
    SELECT conname, pg_get_constraintdef(oid) AS definition INTO the_constraint
        FROM pg_constraint WHERE conrelid = the_table AND contype = 'p';
    makes := makes || format('ALTER TABLE %s ADD CONSTRAINT %I %s',
        the_table, the_constraint.conname, the_constraint.definition);
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', the_table, the_constraint.conname);
    INSERT INTO idem_records (token, created_at, lease_ends_at, expires_at, purge_at, sealed_at,
        attempts, state, scope, operation, id, fingerprint, attempt_id, result)
    SELECT now - 86400000000, now - 86400000000, now - 86400000000, now + ends, now + ends,
        now - 86400000000, 1, 1, 'bench', 'payments.create', md5(n::text),
        decode('01' || repeat('ab', 32), 'hex'), decode(md5(n::text), 'hex'),
        decode(repeat('cd', 100), 'hex')
    FROM generate_series(1, wanted) AS n;
    FOREACH make IN ARRAY makes LOOP EXECUTE make; END LOOP;
END $fill$";

#[async_trait]
impl Filler for Postgres {
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

    fn most(&self) -> u64 {
        10_000_000
    }
}
