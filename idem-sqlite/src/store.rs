//! [`SqliteStore`].

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use idem_core::backend::{check_scheme, misread, not_connected};
use idem_core::wrappers::Batched;
use idem_core::{ErrorKind, Result};
use idem_sql::schema::misconfigured;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use crate::config::Config;
use crate::error::{Access, classify};
use crate::file::DatabaseFile;
use crate::operations::Operations;
use crate::pools::{Own, Pools, connection};
use crate::session::Session;

pub(crate) const BACKEND: &str = "sqlite";

const FORM: &str = "sqlite:PATH";

/// The store in a SQLite file.
///
/// A clone shares the connections. The store creates the file by itself, but no tables: see
/// [`migrate`](Self::migrate).
#[derive(Clone)]
pub struct SqliteStore {
    pub(crate) pools: Pools,
    pub(crate) operations: Arc<Operations>,
    /// This store without batching, behind the batches; `None` where [`Config::with_batching`]
    /// turns batching off.
    batched: Option<Arc<Batched<Self>>>,
}

impl SqliteStore {
    /// Creates a store on the caller's pool, with the default [`Config`].
    ///
    /// The pool's connections should be in WAL mode with `synchronous = FULL` and a busy time-out,
    /// as [`connect`](Self::connect) sets them: the store is as durable as these settings.
    #[must_use]
    pub fn new(pool: SqlitePool) -> Self {
        Self::with_config(pool, Config::new())
    }

    /// Creates a store on the caller's pool.
    #[must_use]
    pub fn with_config(pool: SqlitePool, config: Config) -> Self {
        // The caller knows whether the file is in WAL mode.
        let file = DatabaseFile::new(pool.connect_options().get_filename(), false);
        Self::on(Pools::new(pool, None, file), config)
    }

    fn on(pools: Pools, config: Config) -> Self {
        let operations = Arc::new(Operations::new(config));
        let store = Self {
            pools,
            operations,
            batched: None,
        };
        store.with_batches()
    }

    /// Creates a store with its own connections: one that writes, one for callers' transactions and
    /// for writes that have to wait for the write lock, and up to four that read beside them. They
    /// are in WAL mode, with `synchronous = FULL` and a busy time-out of half the [`Config`]'s
    /// time-out.
    ///
    /// `url` is `sqlite:PATH` or `sqlite://PATH`, as sqlx reads it. The file is created if it is
    /// missing, its folder is not. `sqlite::memory:` gives a store that lives as long as its
    /// connections.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the URL cannot be read or the file cannot be opened; `Contention` when
    /// others kept the file locked.
    pub async fn connect(url: &str, config: Config) -> Result<Self> {
        let at = |error| classify(error, Access::Read).at(BACKEND, "connect");
        let options = match url.contains("://") {
            true => check_scheme(url, &["sqlite"], FORM),
            // The path alone is a URL, too, and may have a colon.
            false => Ok(()),
        };
        let options = options.and_then(|()| {
            SqliteConnectOptions::from_str(url).map_err(|error| misread(FORM, error))
        });
        let options = options
            .map_err(|error| error.at(BACKEND, "connect"))?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // With either, connections would see uncommitted data, or miss committed data.
            .shared_cache(is_memory(url))
            .immutable(false)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(config.timeout() / 2);
        let shared = SqlitePoolOptions::new()
            .max_connections(1)
            .test_before_acquire(false)
            // The one connection is kept: an in-memory database would be gone with it.
            .idle_timeout(None)
            .max_lifetime(None);
        let (shared, own, file) = match is_memory(url) {
            true => {
                let shared = shared.connect_with(options).await.map_err(at)?;
                (shared, None, DatabaseFile::NONE)
            }
            false => {
                let own = open(&options, config.timeout()).await?;
                let file = DatabaseFile::new(options.get_filename(), true);
                let shared = shared.connect_lazy_with(options.create_if_missing(false));
                (shared, Some(own), file)
            }
        };
        Ok(Self::on(Pools::new(shared, own, file), config))
    }

    /// Waits for the operations that are under way and closes all connections, those of clones too.
    /// The last process to close the file folds its write-ahead log into it.
    pub async fn close(&self) {
        self.pools.close().await;
    }

    /// Returns the pool for callers' transactions, which has one connection if the store made it.
    /// Closing it closes the store.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.pools.shared
    }

    fn batched(&self) -> Option<&Batched<Self>> {
        let batched = self.batched.as_deref();
        batched.filter(|_| self.pools.may_batch())
    }

    pub(crate) fn session(&self) -> Session<'_> {
        Session::Store(&self.pools, &self.operations.config)
    }
}

fn is_memory(url: &str) -> bool {
    url.contains(":memory:") || url.contains("mode=memory")
}

/// Opens the connection that writes, which the store keeps. Switching a new file to WAL mode does
/// not wait for others that do the same (the busy time-out does not apply,
/// <https://www.sqlite.org/wal.html>), so it is repeated.
async fn open(options: &SqliteConnectOptions, limit: Duration) -> Result<Own> {
    let deadline = tokio::time::Instant::now() + limit;
    loop {
        match opened(options, limit).await {
            Err(error)
                if error.kind() == ErrorKind::Contention
                    && tokio::time::Instant::now() < deadline => {}
            opened => {
                let file = options.get_filename();
                let told = |error| not_connected(error, file.display()).at(BACKEND, "connect");
                return opened.map_err(told);
            }
        }
        tokio::time::sleep(Duration::from_millis(rand::random_range(1..20))).await;
    }
}

/// SQLite reports no error when it cannot switch the file to WAL mode, and leaves it as it was.
async fn opened(options: &SqliteConnectOptions, limit: Duration) -> Result<Own> {
    let at = |error| classify(error, Access::Read);
    let own = Own::new(options.clone(), limit);
    let mut first = own.writer.acquire().await.map_err(at)?;
    let mode: sqlx::Result<String> = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(connection(&mut first).map_err(at)?)
        .await;
    match mode.map_err(at)? {
        mode if mode == "wal" => {}
        mode => {
            return Err(misconfigured(format!(
                "the file cannot be switched to WAL mode (its journal mode is `{mode}`): its file system, or the \
                 `vfs` of the URL, gives no shared memory and perhaps no locks; put it on a local disk"
            )));
        }
    }
    first.done();
    Ok(own)
}

idem_sql::store!(SqliteStore, BACKEND);
