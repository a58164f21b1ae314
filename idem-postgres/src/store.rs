//! [`PostgresStore`].

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use idem_core::backend::{check_scheme, misread, not_connected};
use idem_core::wrappers::Batched;
use idem_core::{Error, ErrorKind, Result};
use idem_sql::sqlx::{Connections, Opener};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};
use sqlx::{Connection, PgPool, Postgres};

use crate::config::{Config, StatementMode};
use crate::connection::ConnectionSource;
use crate::defaults::{APPLICATION_NAME, SessionState};
use crate::error::{Access, classify, was_idle};
use crate::operations::Operations;
use crate::pooler;
use crate::session::Session;

/// How often a server is tried whose sessions have very short time-outs.
const MAX_TRIES: u32 = 8;

pub(crate) const BACKEND: &str = "postgres";

const FORM: &str = "postgres://user:password@host:port/database?sslmode=…";

/// The store pings a connection that was idle for longer before it uses it.
const TRUSTED_IDLE: Duration = Duration::from_secs(30);

/// The store on PostgreSQL.
///
/// A clone shares the connections. The store creates no tables by itself: see
/// [`migrate`](Self::migrate).
///
/// # Defaults of the session
///
/// | setting of the role, database or server | effect |
/// | --- | --- |
/// | `standard_conforming_strings`, `search_path` with functions or types of the server's names, `DateStyle`, `TimeZone`, `IntervalStyle`, `bytea_output`, `quote_all_identifiers`, `plan_cache_mode`, `row_security`, `session_replication_role`; the locale of the database, of libc or ICU | none |
/// | `default_transaction_isolation` | the store repeats a statement that loses a race under REPEATABLE READ or SERIALIZABLE; SERIALIZABLE costs throughput |
/// | `lock_timeout` | the statements set their own; in a caller's transaction the shorter one holds. Tried with 20 ms; with 1 ms `connect` may answer `Contention`, and may be repeated |
/// | `idle_session_timeout` | the store replaces a closed connection and sends the statement again: it had not begun. Where it closes while a large statement is being written, `Unavailable` with an unknown effect |
/// | `statement_timeout`, `transaction_timeout`, `idle_in_transaction_session_timeout` | `Unavailable`; the effect is unknown unless the server says that it rolled back |
/// | `default_transaction_read_only` | `connect` and `verify` refuse it; under [`StatementMode::Unprepared`](crate::StatementMode::Unprepared) it changes nothing |
/// | `search_path` with `pg_catalog` behind a schema that has operators of its own | `connect` and `verify` refuse it |
///
/// The store uses no session state: no `SET`, no session-level advisory lock, and `LISTEN` only for
/// [`PostgresNotifier`](crate::PostgresNotifier). A pool that the caller makes may need PgBouncer's
/// `ignore_startup_parameters = extra_float_digits`; [`connect`](Self::connect) does not send that
/// parameter. After a change of a column's type, each connection takes one more round trip, and a
/// caller's transaction one repetition.
#[derive(Clone)]
pub struct PostgresStore {
    pub(crate) pool: PgPool,
    connections: ConnectionSource,
    pub(crate) operations: Arc<Operations>,
    /// This store without batching, behind the batches; `None` where [`Config::with_batching`]
    /// turns batching off.
    batched: Option<Arc<Batched<Self>>>,
}

impl PostgresStore {
    /// Creates a store on the caller's pool, with the default [`Config`].
    ///
    /// sqlx pings a connection each time it is taken from a pool unless the pool was built with
    /// `test_before_acquire(false)`, which spares a round trip; see [`connect`](Self::connect).
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self::with_config(pool, Config::new())
    }

    /// Creates a store on the caller's pool.
    #[must_use]
    pub fn with_config(pool: PgPool, config: Config) -> Self {
        Self::on(ConnectionSource::Callers(pool.clone()), pool, config)
    }

    fn on(connections: ConnectionSource, pool: PgPool, config: Config) -> Self {
        let operations = Arc::new(Operations::new(config));
        let store = Self {
            pool,
            connections,
            operations,
            batched: None,
        };
        store.with_batches()
    }

    /// Creates a store with its own connections: at most 10 by default
    /// ([`with_max_connections`](Config::with_max_connections)). It opens them as they are needed,
    /// and tests them before use only after half a minute of idling. It never reuses one after a
    /// statement whose answer was not read to its end. sqlx's pool would ping each one whenever it
    /// is handed back.
    ///
    /// [`pool`](Self::pool) is another pool, for migrations and the caller's transactions, of at
    /// most 10 connections more.
    ///
    /// `url` is `postgres://user:password@host:port/database?sslmode=…`, as sqlx reads it;
    /// environment variables such as `PGPASSWORD` fill in the missing parts.
    ///
    /// # Errors
    ///
    /// - `Misconfigured` when the URL cannot be read; when the session's defaults forbid writes or
    ///   would change the meaning of the statements; when a pooler mixes up the prepared statements
    ///   of its clients in [`StatementMode::Prepared`](crate::StatementMode::Prepared).
    /// - `Unavailable` or `Misconfigured` when no connection can be made.
    pub async fn connect(url: &str, config: Config) -> Result<Self> {
        let options = check_scheme(url, &["postgres", "postgresql"], FORM);
        let options = options
            .and_then(|()| PgConnectOptions::from_str(url).map_err(|error| misread(FORM, error)));
        let options = options
            .map_err(|error| error.at(BACKEND, "connect"))?
            .application_name(APPLICATION_NAME)
            // The store reads no float, and poolers refuse the parameter.
            .extra_float_digits(None);
        let max = usize::try_from(config.max_connections()).unwrap_or(usize::MAX);
        let connections = Connections::new(Opener::new(options.clone()), max, config.timeout());
        let mut tries = 1;
        let state = loop {
            // Boxed, because it is deep.
            match Box::pin(check_server(&connections, &options, &config)).await {
                Err(error) if is_brief(&error) && tries < MAX_TRIES => tries += 1,
                Err(error) => {
                    return Err(not_connected(error, place(&options)).at(BACKEND, "connect"));
                }
                Ok(state) => break state,
            }
        };
        let idle = state.idle_session_timeout().map(|timeout| timeout / 4);
        let trusted = idle.map_or(TRUSTED_IDLE, |idle| idle.min(TRUSTED_IDLE));
        let pool = PgPoolOptions::new()
            .max_connections(10)
            .test_before_acquire(false)
            .before_acquire(move |connection, idle| {
                Box::pin(
                    async move { Ok(idle.idle_for < trusted || connection.ping().await.is_ok()) },
                )
            })
            // For transactions that are dropped: see `CallerTransaction`.
            .after_release(|connection, _| {
                Box::pin(async move { Ok(connection.ping().await.is_ok()) })
            })
            .acquire_timeout(config.timeout())
            .connect_lazy_with(options);
        Ok(Self::on(
            ConnectionSource::Own(connections, pool.clone()),
            pool,
            config,
        ))
    }

    /// Returns the pool: the caller's, or the one for the caller's transactions. Closing it ends
    /// the store: its operations fail from then on, and its own connections are closed, at the
    /// latest when the last clone is dropped.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    fn batched(&self) -> Option<&Batched<Self>> {
        self.batched.as_deref()
    }

    pub(crate) fn session(&self) -> Session<'_> {
        Session::Store {
            connections: &self.connections,
            config: &self.operations.config,
        }
    }
}

/// Returns where the options lead: socket or host, port, and database.
fn place(options: &PgConnectOptions) -> String {
    let host = match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => options.get_host().to_owned(),
    };
    // Without one, the server takes the user's name.
    let database = options.get_database().unwrap_or_default();
    format!("{host}:{}/{database}", options.get_port())
}

/// Returns whether the session's own time-outs, for idling or for a lock of the catalogue,
/// interfered for a moment.
fn is_brief(error: &Error) -> bool {
    was_idle(error) || error.kind() == ErrorKind::Contention
}

/// Opens the store's first connection, which it keeps, and refuses unsuitable settings before they
/// cause errors later.
async fn check_server(
    connections: &Connections<Postgres>,
    options: &PgConnectOptions,
    config: &Config,
) -> Result<SessionState> {
    let sent = |error| classify(error, Access::Read);
    let late = |_| sent(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
    let first = tokio::time::timeout(config.timeout(), connections.acquire()).await;
    let mut first = first.map_err(late)?.map_err(sent)?;
    let connection = first
        .connection()
        .ok_or_else(|| sent(sqlx::Error::PoolClosed))?;
    let checked = check_connection(connection, options, config.statement_mode());
    let checked = tokio::time::timeout(config.timeout(), checked).await;
    let state = checked.map_err(late)??;
    first.done();
    Ok(state)
}

async fn check_connection(
    first: &mut PgConnection,
    options: &PgConnectOptions,
    mode: StatementMode,
) -> Result<SessionState> {
    let state = SessionState::read(&mut *first).await?;
    state.check_server()?;
    state.check_defaults(mode == StatementMode::Prepared)?;
    if mode == StatementMode::Prepared && state.may_be_pooled() {
        pooler::check_prepared(first, options).await?;
    }
    Ok(state)
}

idem_sql::store!(PostgresStore, BACKEND);
