//! Connections, and the manager that gives them to a pool.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};
use tiberius::error::Error;
use tiberius::{Config, Query, Row};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use crate::error::ends_in_step;

/// A pool of connections; build one with `Pool::builder(manager)`, or let
/// [`MssqlStore::connect`](crate::MssqlStore::connect) do it.
pub type Pool = managed::Pool<Manager>;

/// The driver's client over TCP.
pub type Client = tiberius::Client<Compat<TcpStream>>;

/// A connection that was idle for longer is asked whether it still lives before it is used.
const TRUSTED_IDLE: Duration = Duration::from_secs(30);
/// How long it has for the answer.
const TEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the server may send the client elsewhere. Azure SQL does so once.
const MAX_ROUTINGS: u32 = 3;

/// Opens connections: TCP without delay, the login, and a second try where the server sends the client to another
/// (Azure SQL's redirect policy, read-only routing).
#[derive(Clone)]
pub struct Manager {
    config: Config,
    connect_timeout: Duration,
}

impl Manager {
    /// Connections as the driver's configuration says, each opened within 15 s.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            connect_timeout: Duration::from_secs(15),
        }
    }

    /// Connections as the URL says: see [`MssqlStore::connect`](crate::MssqlStore::connect).
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the URL cannot be read.
    pub fn from_url(url: &str) -> idem_core::Result<Self> {
        crate::url::parse(url).map(Self::new)
    }

    /// Another limit for opening a connection, from the first packet to the end of the login.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Opens a connection, outside of any pool.
    ///
    /// # Errors
    ///
    /// The driver's; `Io` of the kind `TimedOut` when it takes too long.
    pub async fn connect(&self) -> Result<Connection, Error> {
        match tokio::time::timeout(self.connect_timeout, self.follow()).await {
            Ok(client) => Ok(Connection::new(client?)),
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }

    async fn follow(&self) -> Result<Client, Error> {
        let mut config = self.config.clone();
        let mut routings = 0;
        loop {
            let stream = TcpStream::connect(config.get_addr()).await?;
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

/// A connection of a pool. It is *dirty* while a request is under way and as long as a transaction is open, and a pool
/// never hands a dirty one on: after a future that was dropped half-way nobody can say what the next bytes belong to.
pub struct Connection {
    client: Client,
    dirty: bool,
    used: Instant,
}

impl Connection {
    fn new(client: Client) -> Self {
        Self {
            client,
            dirty: false,
            used: Instant::now(),
        }
    }

    /// Whether it was left with a request unanswered or a transaction open. Such a connection is to be closed.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Sends the query and reads the answer to its end; one list of rows for each of its results. No transaction may
    /// be left open by it: see [`Transactions`](crate::Transactions).
    ///
    /// # Errors
    ///
    /// The driver's. The connection is dirty unless the server sent its error in full.
    ///
    /// # Cancellation
    ///
    /// The connection is dirty.
    pub async fn run(&mut self, query: Query<'_>) -> Result<Vec<Vec<Row>>, Error> {
        self.soil();
        let answer = read(&mut self.client, query).await;
        self.dirty = !ends_in_step(&answer);
        answer
    }

    /// The same for a script: a batch by itself instead of a call of `sp_executesql`.
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Cancellation
    ///
    /// The connection is dirty.
    pub async fn run_script(&mut self, sql: &str) -> Result<Vec<Vec<Row>>, Error> {
        self.soil();
        let answer = read_script(&mut self.client, sql).await;
        self.dirty = !ends_in_step(&answer);
        answer
    }

    /// The driver's client, for a connection that no pool gets back.
    #[must_use]
    pub fn into_client(self) -> Client {
        self.client
    }

    /// Dirty until [`cleanse`](Self::cleanse), whatever is done with the client.
    pub(crate) fn soil(&mut self) {
        self.dirty = true;
        self.used = Instant::now();
    }

    pub(crate) fn cleanse(&mut self) {
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

/// The same for a script.
pub(crate) async fn read_script(client: &mut Client, sql: &str) -> Result<Vec<Vec<Row>>, Error> {
    client.simple_query(sql).await?.into_results().await
}
