//! [`MssqlStore`].

use std::sync::Arc;

use idem_core::backend::not_connected;
use idem_core::wrappers::Batched;
use idem_core::{Effect, Error, ErrorKind, Result};

use crate::config::Config;
use crate::operations::Operations;
use crate::pool::{Manager, Pool};
use crate::session::{ConnectionGuard, Session};

pub(crate) const BACKEND: &str = "mssql";

/// The store on SQL Server and Azure SQL, and on servers that speak the same T-SQL.
///
/// A clone shares the pool. The store creates no tables by itself: see [`migrate`](Self::migrate).
///
/// # Sessions
///
/// Defaults of the server, the database or the login that change the meaning of a statement do not
/// affect the store. A session begins with IMPLICIT_TRANSACTIONS, XACT_ABORT, NOCOUNT and
/// NUMERIC_ROUNDABORT off, READ COMMITTED, LOCK_TIMEOUT -1, ROWCOUNT 0, the longest TEXTSIZE, and
/// the ANSI settings, ARITHABORT and QUOTED_IDENTIFIER on. Each request sets IMPLICIT_TRANSACTIONS,
/// XACT_ABORT, ROWCOUNT, LOCK_TIMEOUT and the isolation level itself. DATEFORMAT and LANGUAGE
/// change nothing. Read-only intent leads to a secondary: [`verify`](Self::verify) and every write
/// report it.
///
/// A connection is dirty from before a request is sent until its answer has been read to the end,
/// and while a transaction is open; a dirty connection is closed.
#[derive(Clone)]
pub struct MssqlStore {
    pub(crate) pool: Pool,
    pub(crate) operations: Arc<Operations>,
    /// This store without batching, behind the batches; `None` where [`Config::with_batching`]
    /// turns batching off.
    batched: Option<Arc<Batched<Self>>>,
}

impl MssqlStore {
    /// Creates a store on the caller's pool, with the default [`Config`].
    #[must_use]
    pub fn new(pool: Pool) -> Self {
        Self::with_config(pool, Config::new())
    }

    /// Creates a store on the caller's pool. The pool's connections wait for an answer at least as
    /// long as [`Config::with_timeout`] says; a longer `command_timeout` of the driver's
    /// configuration stays (30 s by default).
    #[must_use]
    pub fn with_config(pool: Pool, config: Config) -> Self {
        pool.manager().be_patient(config.timeout());
        let store = Self {
            pool,
            operations: Arc::new(Operations::new(config)),
            batched: None,
        };
        store.with_batches()
    }

    /// Creates a store with its own pool: at most 10 connections, opened as they are needed, and
    /// tested before use only after half a minute of idling.
    ///
    /// `url` is `mssql://user:password@host:port/database?encrypt=on&trust_cert=false`; `sqlserver`
    /// is another name of `mssql`. Special characters in names and password are percent-encoded.
    /// Default port: 1433. Default database: the user's.
    ///
    /// | parameter | |
    /// | --- | --- |
    /// | `encrypt=on` (default) | TLS, or no connection |
    /// | `encrypt=strict` | TLS from the first byte (TDS 8.0, SQL Server 2022 and later) |
    /// | `encrypt=off` | no TLS unless the server insists: the password crosses the network readable |
    /// | `trust_cert=true` | the server's certificate is not checked: for tests |
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the URL cannot be read; `Unavailable` or `Misconfigured` when no
    /// connection can be made.
    pub async fn connect(url: &str, config: Config) -> Result<Self> {
        let at = |error: Error| error.at(BACKEND, "connect");
        let driver = crate::url::parse(url).map_err(at)?;
        let place = driver.get_addr();
        let manager = Manager::new(driver).with_connect_timeout(config.timeout());
        let pool = Pool::builder(manager).max_size(10).build();
        let pool = pool.map_err(|source| {
            let message = "the pool cannot be built";
            at(Error::new(ErrorKind::Misconfigured, Effect::None, message).with_source(source))
        })?;
        let store = Self::with_config(pool, config);
        // Opens a connection first: without one, the server cannot be checked.
        let first = ConnectionGuard::from(&store.pool).await;
        drop(first.map_err(|error| at(not_connected(error, place)))?);
        store
            .operations
            .dialect(&mut store.session())
            .await
            .map_err(at)?;
        Ok(store)
    }

    /// Returns the pool.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    fn batched(&self) -> Option<&Batched<Self>> {
        self.batched.as_deref()
    }

    pub(crate) fn session(&self) -> Session<'_> {
        Session::Pool(&self.pool, &self.operations.config)
    }
}

idem_sql::store!(MssqlStore, BACKEND);
