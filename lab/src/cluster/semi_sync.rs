//! MySQL with a replica whose receipt its source waits for.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::BoxError;
use idem_mysql::sqlx::{AssertSqlSafe, Connection as _, MySqlConnection, Row as _, query_scalar};
use idem_mysql::{Config, MySqlStore};
use idem_servers::{Instance, Options, start_private};

use super::group::{Group, Store};
use super::router::address_of;
use super::scene::eventually;

/// How long a caller waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How long a replica may take to apply what its source has, in seconds.
const TIME_TO_APPLY: u64 = 300;

/// What a source does without a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Without {
    /// Its commits wait for a day.
    Wait,
    /// They go on after 100 ms.
    GoOn,
}

impl Without {
    fn milliseconds(self) -> &'static str {
        match self {
            Self::Wait => "86400000",
            Self::GoOn => "100",
        }
    }
}

/// A source and its replica.
pub(crate) struct SemiSync {
    source: Instance,
    replica: Instance,
    without: Without,
    next: u32,
    is_promoted: bool,
}

impl SemiSync {
    /// Starts both, with the store's tables.
    pub(crate) async fn start(without: Without) -> Result<Self, BoxError> {
        let source = start_private("mysql", &options(1, without))?;
        // Without a replica a source that waits for one commits nothing.
        let store = MySqlStore::connect(source.url(), Config::new()).await?;
        store.migrate().await?;
        lead(source.url()).await?;
        let replica = start_private("mysql", &options(2, without))?;
        follow(replica.url(), source.url()).await?;
        Ok(Self {
            source,
            replica,
            without,
            next: 3,
            is_promoted: false,
        })
    }
}

/// Returns how to start the server of this number.
fn options(number: u32, without: Without) -> Options {
    let plugins = "semisync_source.so;semisync_replica.so";
    Options::new()
        .with_setting("plugin-load-add", plugins)
        .with_setting("server-id", number.to_string())
        .with_setting("log-bin", "binlog")
        .with_setting("gtid-mode", "ON")
        .with_setting("enforce-gtid-consistency", "ON")
        .with_setting("rpl-semi-sync-source-wait-point", "AFTER_SYNC")
        .with_setting("rpl-semi-sync-source-timeout", without.milliseconds())
}

/// Lets a server send to replicas.
async fn lead(url: &str) -> Result<(), BoxError> {
    run(url, "SET GLOBAL rpl_semi_sync_source_enabled = ON").await
}

/// Lets a server follow the other, and waits until it is up to date and its receipts count.
async fn follow(url: &str, source: &str) -> Result<(), BoxError> {
    run(url, "SET GLOBAL rpl_semi_sync_replica_enabled = ON").await?;
    let address = address_of(source)?;
    let change = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{}', SOURCE_PORT = {}, SOURCE_USER = 'idem', \
         SOURCE_PASSWORD = 'idem', SOURCE_AUTO_POSITION = 1, GET_SOURCE_PUBLIC_KEY = 1",
        address.ip(),
        address.port(),
    );
    run(url, &change).await?;
    run(url, "START REPLICA").await?;
    eventually("the replica acknowledges receipts", || async {
        let clients = status(source, "Rpl_semi_sync_source_clients").await?;
        let is_on = status(source, "Rpl_semi_sync_source_status").await?;
        Ok(clients == "1" && is_on == "ON")
    })
    .await?;
    let done: String = scalar(source, "SELECT @@GLOBAL.gtid_executed").await?;
    let wait =
        format!("SELECT CAST(WAIT_FOR_EXECUTED_GTID_SET('{done}', {TIME_TO_APPLY}) AS CHAR)");
    match &*scalar::<String>(url, &wait).await? {
        "0" => Ok(()),
        other => Err(format!("the replica is behind: {other}").into()),
    }
}

#[async_trait]
impl Group for SemiSync {
    fn product(&self) -> String {
        self.source.product().to_string()
    }

    fn settings(&self) -> String {
        let timeout = self.without.milliseconds();
        format!("semi-synchronous replica, AFTER_SYNC, rpl_semi_sync_source_timeout={timeout}")
    }

    fn leader(&self) -> &str {
        match self.is_promoted {
            true => self.replica.url(),
            false => self.source.url(),
        }
    }

    fn is_routed(&self) -> bool {
        true
    }

    async fn store(&self, url: &str) -> Result<Store, BoxError> {
        let config = Config::new().with_timeout(TIMEOUT);
        Ok(Arc::new(MySqlStore::connect(url, config).await?))
    }

    async fn reader(&self, url: &str) -> Result<Store, BoxError> {
        self.store(url).await
    }

    async fn cut(&mut self) -> Result<(), BoxError> {
        run(self.replica.url(), "STOP REPLICA IO_THREAD").await
    }

    async fn wait_for_waiting(&self) -> Result<(), BoxError> {
        Err("no cell lets commits wait for a replica of MySQL".into())
    }

    async fn show_waiting(&mut self) -> Result<usize, BoxError> {
        Err("no cell lets commits wait for a replica of MySQL".into())
    }

    async fn fail_over(&mut self) -> Result<String, BoxError> {
        let lost = self.leader().to_owned();
        self.source.kill()?;
        let url = self.replica.url();
        // It leads once it has applied what it received.
        run(url, "STOP REPLICA IO_THREAD").await?;
        eventually("the replica has applied what it received", || async {
            let received: String = scalar(url, RECEIVED).await?;
            let wait =
                format!("SELECT CAST(GTID_SUBSET('{received}', @@GLOBAL.gtid_executed) AS CHAR)");
            Ok(scalar::<String>(url, &wait).await? == "1")
        })
        .await?;
        run(url, "STOP REPLICA").await?;
        run(url, "RESET REPLICA ALL").await?;
        run(url, "SET GLOBAL rpl_semi_sync_replica_enabled = OFF").await?;
        lead(url).await?;
        self.is_promoted = true;
        Ok(format!("{lost} was killed, {} leads", self.leader()))
    }

    /// The lost source does not come back: it may have commits that nobody acknowledged.
    async fn add_replica(&mut self) -> Result<(), BoxError> {
        let replica = start_private("mysql", &options(self.next, self.without))?;
        self.next += 1;
        follow(replica.url(), self.replica.url()).await?;
        self.source = std::mem::replace(&mut self.replica, replica);
        self.is_promoted = false;
        Ok(())
    }
}

const RECEIVED: &str = "SELECT received_transaction_set FROM performance_schema.replication_connection_status \
     WHERE channel_name = ''";

/// Runs a statement.
pub(super) async fn run(url: &str, sql: &str) -> Result<(), BoxError> {
    let mut connection = MySqlConnection::connect(url).await?;
    idem_mysql::sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

/// Returns the only value of a query.
pub(super) async fn scalar<T>(url: &str, sql: &str) -> Result<T, BoxError>
where
    T: Send + Unpin,
    (T,): for<'r> idem_mysql::sqlx::FromRow<'r, idem_mysql::sqlx::mysql::MySqlRow>,
{
    let mut connection = MySqlConnection::connect(url).await?;
    let value = query_scalar(AssertSqlSafe(sql.to_owned()))
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(value)
}

/// Returns a status variable.
async fn status(url: &str, name: &str) -> Result<String, BoxError> {
    let mut connection = MySqlConnection::connect(url).await?;
    let sql = format!("SHOW GLOBAL STATUS LIKE '{name}'");
    let row = idem_mysql::sqlx::query(AssertSqlSafe(sql))
        .fetch_one(&mut connection)
        .await?;
    connection.close().await?;
    Ok(row.try_get(1)?)
}
