//! MySQL and MariaDB.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::Profile;
use idem_core::BoxError;
use idem_mysql::{Config, MySqlStore, Transactions};
use idem_stores::{MySql, Suite};
use sqlx::mysql::{MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor as _, MySqlPool, Row};
use tokio::sync::Mutex;

use super::HELD;
use super::loaded::{LOADED, LoadedRow};
use super::sql::{PAYERS, PAYING, POOL, fill, payments, statements};
use crate::backend::{PayBox, one_row};
use crate::ids::{OPERATION, SCOPE};
use crate::{Backend, Baseline, Load, Statements};

struct Bare(MySql);

/// Returns the server at this URL.
pub(super) fn backend(name: &str, url: String) -> Backend {
    let config = Config::new().with_max_connections(HELD);
    let adapter = MySql::new(url).with_config(config);
    let suite = Suite::new(name, adapter.clone(), Profile::new().row_locks());
    Backend::new(suite).with_baseline(Bare(adapter))
}

#[async_trait]
impl Baseline for Bare {
    async fn create(&self, namespace: &str) -> Result<(), BoxError> {
        let create = format!("CREATE TABLE `{namespace}`.bare {TABLE}");
        self.0.execute(create).await
    }

    async fn load(&self, namespace: &str) -> Result<Option<Box<dyn Load>>, BoxError> {
        let options = self.0.options()?.database(namespace);
        let mut connection = options.connect().await?;
        sqlx::raw_sql("START TRANSACTION")
            .execute(&mut connection)
            .await?;
        Ok(Some(Box::new(Inserts {
            connection,
            row: LoadedRow::now(","),
            stored: 0,
        })))
    }

    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        let options = self.0.options()?.database(namespace);
        let pool = MySqlPoolOptions::new().max_connections(POOL);
        Ok(Some(Arc::new(Pooled(pool.connect_with(options).await?))))
    }

    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        let connection = self.0.options()?.database(namespace).connect().await?;
        Ok(Arc::new(Held(Mutex::new(connection))))
    }

    async fn payments(&self, namespace: &str) -> Result<Vec<(&'static str, PayBox)>, BoxError> {
        let pool = || MySqlPoolOptions::new().max_connections(PAYING);
        let options = self.0.options()?.database(namespace);
        let mut pools = Vec::new();
        for _ in PAYERS {
            pools.push(pool().connect_with(options.clone()).await?);
        }
        let create = "CREATE TABLE paid (id VARCHAR(255) PRIMARY KEY, cents BIGINT)";
        pools[0].execute(create).await?;
        let store = MySqlStore::new(pools[0].clone());
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
        let (digits, number) = digits(rows);
        let fill = fill(FILL, rows, ends_in)
            .replace("{database}", namespace)
            .replace("{digits}", &digits)
            .replace("{number}", &number);
        self.0.execute(fill).await?;
        let analyze = format!("ANALYZE TABLE `{namespace}`.idem_records");
        self.0.execute(analyze).await
    }

    fn most_rows(&self) -> u64 {
        1_000_000
    }
}

/// The table compares keys byte by byte, as the store does.
const TABLE: &str = "(
    id VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY,
    response LONGBLOB
) ENGINE = InnoDB";

const INSERT: &str = "INSERT IGNORE INTO bare (id) VALUES (?)";
const UPDATE: &str = "UPDATE bare SET response = ? WHERE id = ?";
const SELECT: &str = "SELECT response FROM bare WHERE id = ?";

const PAY: &str = "INSERT INTO paid (id, cents) VALUES (?, 1250)";

payments!(pool: MySqlPool, Transactions => pool.begin());
statements!(Pooled(MySqlPool), self => &self.0);
statements!(Held(Mutex<MySqlConnection>), self => &mut *self.0.lock().await);

/// Inserts of many rows each, in one transaction: the driver has no `LOAD DATA`.
struct Inserts {
    connection: MySqlConnection,
    row: LoadedRow,
    stored: u64,
}

#[async_trait]
impl Load for Inserts {
    async fn rows(&mut self, ids: &[String]) -> Result<(), BoxError> {
        let LoadedRow {
            fingerprint,
            numbers,
        } = &self.row;
        let row = |id| format!("('{SCOPE}','{OPERATION}','{id}',0x{id},0x{fingerprint},{numbers})");
        let rows: Vec<_> = ids.iter().map(row).collect();
        let insert = format!("INSERT INTO {LOADED} VALUES {}", rows.join(","));
        let insert = AssertSqlSafe(insert);
        let done = sqlx::raw_sql(insert).execute(&mut self.connection).await?;
        self.stored += done.rows_affected();
        Ok(())
    }

    async fn commit(mut self: Box<Self>) -> Result<u64, BoxError> {
        sqlx::raw_sql("COMMIT")
            .execute(&mut self.connection)
            .await?;
        Ok(self.stored)
    }
}

/// Joins tables of ten digits, one for each decimal place. Rows come in the order of their keys, so
/// that no page is split.
const FILL: &str = include_str!("fill/mysql.sql");

const DIGITS: &str = "(SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
    UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)";

/// Returns the tables of digits, and the number that they form.
fn digits(rows: u64) -> (String, String) {
    let places = 0..=rows.saturating_sub(1).max(1).ilog10();
    let tables = places.clone().map(|place| format!("{DIGITS} AS d{place}"));
    let values = places.map(|place| format!("d{place}.n * {}", 10_u64.pow(place)));
    (
        tables.collect::<Vec<_>>().join(" CROSS JOIN "),
        format!("({})", values.collect::<Vec<_>>().join(" + ")),
    )
}
