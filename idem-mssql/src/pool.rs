//! Connections, and the manager that gives them to a pool.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};
use tiberius::error::Error;
use tiberius::{Config, Query, Row};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use crate::addresses;
use crate::error::ends_in_step;

/// A pool of connections. Build one with `Pool::builder(manager)`, or let
/// [`MssqlStore::connect`](crate::MssqlStore::connect) do it.
pub type Pool = managed::Pool<Manager>;

/// The driver's client over TCP.
pub type Client = tiberius::Client<Compat<TcpStream>>;

/// A connection that was idle for longer is tested before it is used.
const TRUSTED_IDLE: Duration = Duration::from_secs(30);
/// How long the connection has for the answer.
const TEST_TIMEOUT: Duration = Duration::from_secs(5);
/// The driver adds its time-out to the current time, so the time-out needs a bound.
const MAX_TIME: Duration = idem_sql::config::MAX_TIME;
/// How often the server may redirect the client. Azure SQL does so once.
const MAX_ROUTINGS: u32 = 3;

/// The settings that a connection begins with, whatever the defaults of the server, the database or
/// the login: each of them changes what a statement means or does. `TEXTSIZE` would cut results
/// off; the ANSI settings belong to the filtered index. A server that lacks a setting ignores it,
/// as Babelfish does, or is not one that this crate runs on.
const SESSION: &str = "SET IMPLICIT_TRANSACTIONS OFF;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET XACT_ABORT OFF;
SET LOCK_TIMEOUT -1;
SET ROWCOUNT 0;
SET TEXTSIZE 2147483647;
SET NOCOUNT OFF;
SET ANSI_NULLS ON;
SET ANSI_PADDING ON;
SET ANSI_WARNINGS ON;
SET ARITHABORT ON;
SET CONCAT_NULL_YIELDS_NULL ON;
SET NUMERIC_ROUNDABORT OFF;
SET QUOTED_IDENTIFIER ON;
";

/// Opens connections: TCP without delay to the address of the host that answers first, then the
/// login. Tries again where the server redirects the client (Azure SQL's redirect policy, read-only
/// routing). Last come the session settings that the statements rely on.
#[derive(Clone)]
pub struct Manager {
    config: Config,
    connect_timeout: Duration,
    /// The longest time-out of the stores on the pool, in milliseconds: the driver has to wait as
    /// long for an answer.
    retry_timeout: Arc<AtomicU64>,
}

impl Manager {
    /// Creates connections with the driver's configuration, each opened within 15 s.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            connect_timeout: Duration::from_secs(15),
            retry_timeout: Arc::default(),
        }
    }

    /// Makes the driver wait for an answer at least as long as the operations of a store do, on
    /// connections that the pool hands out from now on.
    pub(crate) fn be_patient(&self, timeout: Duration) {
        let millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.retry_timeout.fetch_max(millis, Ordering::Relaxed);
    }

    /// Returns how long the driver waits for an answer; `None` means for ever. A longer time-out of
    /// the caller's stays.
    fn command_timeout(&self) -> Option<Duration> {
        let retry_timeout = Duration::from_millis(self.retry_timeout.load(Ordering::Relaxed));
        let set = self.config.get_command_timeout()?;
        Some(set.max(retry_timeout).min(MAX_TIME))
    }

    /// Creates connections from the URL: see [`MssqlStore::connect`](crate::MssqlStore::connect).
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the URL cannot be read.
    pub fn from_url(url: &str) -> idem_core::Result<Self> {
        crate::url::parse(url).map(Self::new)
    }

    /// Sets the limit for opening a connection, from the first packet to the end of the login. More
    /// than a year counts as a year.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.min(MAX_TIME);
        self
    }

    /// Opens a connection, outside of any pool.
    ///
    /// # Errors
    ///
    /// The driver's; `Io` of the kind `TimedOut` when it takes too long.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let connecting = async {
            let command_timeout = self.command_timeout();
            let mut client = self.follow(command_timeout).await?;
            read_script(&mut client, SESSION).await?;
            Ok(Connection::new(client, command_timeout))
        };
        match tokio::time::timeout(self.connect_timeout, connecting).await {
            Ok(connection) => connection,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }

    async fn follow(&self, command_timeout: Option<Duration>) -> Result<Client, Error> {
        let mut config = self.config.clone();
        config.command_timeout(command_timeout);
        let mut routings = 0;
        loop {
            let stream = addresses::connect(config.get_addr()).await?;
            stream.set_nodelay(true)?;
            // Boxed, because the handshake's future is large and rarely needed.
            let connecting = Box::pin(Client::connect(config.clone(), stream.compat_write()));
            match connecting.await {
                Err(Error::Routing { host, port }) if routings < MAX_ROUTINGS => {
                    routings += 1;
                    config.host(host);
                    config.port(port);
                }
                client => return client,
            }
        }
    }
}

/// Shows the address, not the password.
impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("address", &self.config.get_addr())
            .finish_non_exhaustive()
    }
}

impl managed::Manager for Manager {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection, Error> {
        self.connect().await
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        if connection.is_dirty() {
            return Err(RecycleError::message("something was left unfinished on it"));
        }
        if connection
            .command_timeout
            .is_some_and(|timeout| self.command_timeout().is_none_or(|wanted| timeout < wanted))
        {
            return Err(RecycleError::message(
                "it waits less long than the store does",
            ));
        }
        if connection.used.elapsed() < TRUSTED_IDLE {
            return Ok(());
        }
        let test = connection.run(Query::new("SELECT 1;"));
        match tokio::time::timeout(TEST_TIMEOUT, test).await {
            Ok(answer) => Ok(answer.map(drop)?),
            Err(_) => Err(RecycleError::message("no answer")),
        }
    }
}

/// A connection of a pool. It is *dirty* while a request is under way or a transaction is open, and
/// a pool never hands a dirty one on: after a future was dropped half-way, the next bytes may
/// belong to any answer.
pub struct Connection {
    client: Client,
    dirty: bool,
    used: Instant,
    /// How long the driver waits for an answer on the connection.
    command_timeout: Option<Duration>,
}

impl Connection {
    fn new(client: Client, command_timeout: Option<Duration>) -> Self {
        Self {
            client,
            dirty: false,
            used: Instant::now(),
            command_timeout,
        }
    }

    /// Returns whether the connection was left with a request unanswered or a transaction open.
    /// Such a connection has to be closed.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Sends the query and reads the answer to its end; returns one list of rows for each of its
    /// results. The query must leave no transaction open: see
    /// [`Transactions`](crate::Transactions).
    ///
    /// # Errors
    ///
    /// The driver's. The connection is dirty unless the server sent its error in full.
    ///
    /// # Cancellation
    ///
    /// The connection is dirty.
    pub async fn run(&mut self, query: Query<'_>) -> Result<Vec<Vec<Row>>, Error> {
        self.mark_dirty();
        let answer = read(&mut self.client, query).await;
        self.dirty = !ends_in_step(&answer);
        answer
    }

    /// Runs a script in the same way: a batch by itself instead of a call of `sp_executesql`.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Cancellation
    ///
    /// The connection is dirty.
    pub async fn run_script(&mut self, sql: &str) -> Result<Vec<Vec<Row>>, Error> {
        self.mark_dirty();
        let answer = read_script(&mut self.client, sql).await;
        self.dirty = !ends_in_step(&answer);
        answer
    }

    /// Returns the driver's client, for a connection that goes back to no pool.
    #[must_use]
    pub fn into_client(self) -> Client {
        self.client
    }

    /// Marks the connection dirty until [`mark_clean`](Self::mark_clean), whatever the client does.
    pub(crate) fn mark_dirty(&mut self) {
        self.dirty = true;
        self.used = Instant::now();
    }

    pub(crate) fn mark_clean(&mut self) {
        self.dirty = false;
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("dirty", &self.dirty)
            .finish_non_exhaustive()
    }
}

/// Sends the query and reads the answer to its end.
pub(crate) async fn read(client: &mut Client, query: Query<'_>) -> Result<Vec<Vec<Row>>, Error> {
    query.query(client).await?.into_results().await
}

/// Sends a script and reads the answer to its end.
pub(crate) async fn read_script(client: &mut Client, sql: &str) -> Result<Vec<Vec<Row>>, Error> {
    client.simple_query(sql).await?.into_results().await
}
