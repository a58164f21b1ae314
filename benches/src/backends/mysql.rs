//! MySQL and MariaDB.

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{BoxError, ClaimRequest};
use idem_mysql::{Config, MySqlStore, Transactions};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Connection, MySqlPool, Row};
use tokio::sync::Mutex;

use super::{HELD, LoadedRow, POOL, namespace, statements};
use crate::backend::{holding, one_row};
use crate::ids::{OPERATION, SCOPE};
use crate::{Backend, Handle, Load, OpenTransaction, Rows, Share, Statements};

/// A server; each namespace is a database.
#[derive(Debug)]
pub(super) struct MySql {
    name: &'static str,
    url: String,
}

impl MySql {
    pub(super) fn at(name: &'static str, url: String) -> Self {
        Self { name, url }
    }

    async fn store(&self, namespace: &str) -> Result<MySqlStore, BoxError> {
        let config = Config::new().with_database(namespace)?;
        let config = config.with_max_connections(HELD);
        Ok(MySqlStore::connect(&self.url, config).await?)
    }

    fn options(&self) -> Result<MySqlConnectOptions, BoxError> {
        Ok(MySqlConnectOptions::from_str(&self.url)?)
    }

    async fn execute(&self, sql: String) -> Result<(), BoxError> {
        let mut connection = MySqlConnection::connect_with(&self.options()?).await?;
        let script = sqlx::raw_sql(AssertSqlSafe(sql));
        script.execute(&mut connection).await?;
        Ok(connection.close().await?)
    }
}

#[async_trait]
impl Backend for MySql {
    fn name(&self) -> &str {
        self.name
    }

    async fn create(&self) -> Result<String, BoxError> {
        let namespace = namespace();
        let store = self.store(&namespace).await?;
        store.migrate().await?;
        store.pool().close().await;
        let create = format!("CREATE TABLE `{namespace}`.bare {TABLE}");
        self.execute(create).await?;
        Ok(namespace)
    }

    async fn open(&self, namespace: &str) -> Result<Handle, BoxError> {
        Ok(Handle::Batch(Arc::new(self.store(namespace).await?)))
    }

    async fn destroy(&self, namespace: &str) -> Result<(), BoxError> {
        let drop = format!("DROP DATABASE IF EXISTS `{namespace}`");
        self.execute(drop).await
    }

    async fn lock(
        &self,
        namespace: &str,
        request: &ClaimRequest,
    ) -> Result<Option<OpenTransaction>, BoxError> {
        let store = self.store(namespace).await?;
        let mut attempts = Transactions::new(store.pool().clone()).attempts();
        let mut transaction = attempts.begin().await?;
        let outcome = store.claim_in(&mut transaction, request).await?;
        holding(transaction, &outcome)
    }

    async fn load(&self, namespace: &str) -> Result<Option<Box<dyn Load>>, BoxError> {
        let options = self.options()?.database(namespace);
        let mut connection = MySqlConnection::connect_with(&options).await?;
        sqlx::raw_sql("START TRANSACTION")
            .execute(&mut connection)
            .await?;
        Ok(Some(Box::new(Inserts {
            connection,
            row: LoadedRow::now(),
            stored: 0,
        })))
    }

    async fn pooled(&self, namespace: &str) -> Result<Option<Arc<dyn Statements>>, BoxError> {
        let pool = MySqlPoolOptions::new().max_connections(POOL);
        let pool = pool
            .connect_with(self.options()?.database(namespace))
            .await?;
        Ok(Some(Arc::new(Pooled(pool))))
    }

    async fn held(&self, namespace: &str) -> Result<Arc<dyn Statements>, BoxError> {
        let options = self.options()?.database(namespace);
        let connection = MySqlConnection::connect_with(&options).await?;
        Ok(Arc::new(Held(Mutex::new(connection))))
    }

    fn share(&self) -> Option<Share> {
        Some(Share::Each(HELD as usize))
    }

    async fn fill(&self, namespace: &str, rows: u64, what: Rows) -> Result<(), BoxError> {
        let (digits, number) = digits(rows);
        let fill = FILL
            .replace("{database}", namespace)
            .replace("{digits}", &digits)
            .replace("{number}", &number)
            .replace("{rows}", &rows.to_string())
            .replace("{ends}", &what.ends_in_micros().to_string());
        self.execute(fill).await?;
        let analyze = format!("ANALYZE TABLE `{namespace}`.idem_records");
        self.execute(analyze).await
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
/// Parameters have no numbers here: the response comes first.
const UPDATE: &str = "UPDATE bare SET response = ? WHERE id = ?";
const SELECT: &str = "SELECT response FROM bare WHERE id = ?";

struct Pooled(MySqlPool);
struct Held(Mutex<MySqlConnection>);

statements!(Pooled, self => &self.0, response first);
statements!(Held, self => &mut *self.0.lock().await, response first);

const LOAD: &str =
    "INSERT INTO idem_records (scope, operation, id, attempt_id, fingerprint, token, created_at,
    lease_ends_at, expires_at, purge_at, attempts, state) VALUES ";

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
            now,
            lease_ends_at,
            expires_at,
            fingerprint,
        } = &self.row;
        let row = |id: &String| {
            format!(
                "('{SCOPE}','{OPERATION}','{id}',0x{id},0x{fingerprint},{now},{now},{lease_ends_at},{expires_at},{expires_at},1,0)"
            )
        };
        let rows: Vec<_> = ids.iter().map(row).collect();
        let insert = AssertSqlSafe(format!("{LOAD}{}", rows.join(",")));
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
    let names: Vec<_> = (0..=rows.saturating_sub(1).max(1).ilog10())
        .map(|place| format!("d{place}"))
        .collect();
    let tables = names.iter().map(|name| format!("{DIGITS} AS {name}"));
    let values = (0..).zip(&names);
    let values = values.map(|(place, name)| format!("{name}.n * {}", 10_u64.pow(place)));
    (
        tables.collect::<Vec<_>>().join(" CROSS JOIN "),
        format!("({})", values.collect::<Vec<_>>().join(" + ")),
    )
}
