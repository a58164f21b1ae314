//! MySQL and MariaDB.

use std::sync::Arc;

use async_trait::async_trait;
use idem_conformance::Profile;
use idem_core::BoxError;
use idem_mysql::Config;
use idem_stores::{MySql, Suite};
use sqlx::mysql::{MySqlConnection, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, MySqlPool, Row};
use tokio::sync::Mutex;

use super::{HELD, LoadedRow, POOL, statements};
use crate::backend::one_row;
use crate::ids::{OPERATION, SCOPE};
use crate::{Backend, Baseline, Load, Rows, Share, Statements};

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
            row: LoadedRow::now(),
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

    fn share(&self) -> Share {
        Share::Each(HELD as usize)
    }

    async fn fill(&self, namespace: &str, rows: u64, what: Rows) -> Result<(), BoxError> {
        let (digits, number) = digits(rows);
        let fill = FILL
            .replace("{database}", namespace)
            .replace("{digits}", &digits)
            .replace("{number}", &number)
            .replace("{rows}", &rows.to_string())
            .replace("{ends}", &what.ends_in_micros().to_string());
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
