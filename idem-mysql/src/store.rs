//! [`MySqlStore`].

use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use idem_core::Result;
use idem_core::backend::{check_scheme, misread, not_connected};
use idem_core::wrappers::Batched;
use idem_sql::sqlx::{Connections, Opener};
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::{Connection, MySql, MySqlPool};

use crate::config::Config;
use crate::counters::Contention;
use crate::operations::Operations;
use crate::server::{self, FACTS, Facts};
use crate::session::Session;
use crate::settings;

pub(crate) const BACKEND: &str = "mysql";

const FORM: &str = "mysql://user:password@host:port/database?ssl-mode=…";

/// The most connections that a store opens for its operations, and as many again for callers'
/// transactions.
const MAX_CONNECTIONS: u32 = 10;

/// The store pings a connection that was idle for longer before it uses it.
const TRUSTED_IDLE: Duration = Duration::from_secs(30);

/// The store on MySQL and MariaDB.
///
/// A clone shares the connections. The store creates no tables by itself: see
/// [`migrate`](Self::migrate).
///
/// # Sessions
///
/// [`connect`](Self::connect) sets each session of its own, whatever the server's defaults,
/// `init_connect` included, and needs no privilege for that. A caller's pool may serve other work
/// too, so the store sets nothing there. It checks each connection at its first use, and refuses a
/// setting that would make answers untrue with `Misconfigured` and the remedy.
///
/// | setting | `connect` | a caller's pool |
/// | --- | --- | --- |
/// | `autocommit = 0` | set to 1 | refused |
/// | `completion_type` CHAIN or RELEASE | NO_CHAIN | refused |
/// | `sql_select_limit` below 10,000 | no limit | refused |
/// | `sql_mode` with `EMPTY_STRING_IS_NULL` or `ORACLE` | taken out | refused |
/// | any other `sql_mode` | `STRICT_ALL_TABLES` on own connections | no effect |
/// | isolation level | READ COMMITTED | affects only round trips, see below |
/// | `transaction_read_only` | READ WRITE | `Unavailable`, no effect |
/// | `innodb_lock_wait_timeout`, `lock_wait_timeout` | 1 s; half the time-out | not needed |
/// | `max_statement_time`, `max_execution_time` | none, on own connections | `Unavailable` |
/// | `wait_timeout` | 8 hours, on own connections | an idle connection is lost: `Unavailable` |
/// | `optimizer_switch`, `sql_safe_updates`, `sql_big_selects`, `sql_auto_is_null`, `unique_checks`, `foreign_key_checks` | defaults, on own connections | no effect seen |
/// | time zone, character sets, collations, `auto_increment_*`, `group_concat_max_len`, `div_precision_increment`, temporary tables | | no effect |
///
/// Tested on MySQL 9.7.4 and MariaDB 10.11.19, with a private server with hostile global defaults
/// and with pools whose sessions are set otherwise. Not tested: `max_statement_time` and
/// `max_execution_time`, servers that are offline, binlog formats, `innodb_rollback_on_timeout` and
/// `sql_require_primary_key`.
///
/// The store uses no user variable, temporary table, `GET_LOCK` or `LAST_INSERT_ID()`, so a pooler
/// may change servers between statements. The exception is the INSERT in a caller's transaction on
/// MySQL that is not READ COMMITTED: it sets a user variable and `innodb_lock_wait_timeout` around
/// it.
///
/// # Locked keys
///
/// No statement waits for a lock, except these on MySQL:
///
/// * On a caller's pool whose sessions are REPEATABLE READ, the default, an INSERT costs one more
///   round trip, which makes it READ COMMITTED. To spare it, set the level in the pool's
///   `after_connect`.
/// * In a caller's transaction of such a session, the INSERT of a fresh key waits for up to a
///   second.
/// * Under SERIALIZABLE a plain read of a transaction waits for as long as the session's setting.
/// * A transaction that begins at a higher level than its session's keeps others from inserting
///   next to its fresh key.
#[derive(Clone)]
pub struct MySqlStore {
    pub(crate) pool: MySqlPool,
    /// The connections of the operations, instead of the pool's.
    own: Option<Connections<MySql>>,
    pub(crate) operations: Arc<Operations>,
    /// This store without batching, behind the batches; `None` where [`Config::with_batching`]
    /// turns batching off.
    batched: Option<Arc<Batched<Self>>>,
}

impl MySqlStore {
    /// Creates a store on the caller's pool, with the default [`Config`].
    ///
    /// sqlx pings a connection each time it is handed back to a pool, and each time it is taken
    /// from one unless the pool was built with `test_before_acquire(false)`;
    /// [`connect`](Self::connect) spares both.
    #[must_use]
    pub fn new(pool: MySqlPool) -> Self {
        Self::with_config(pool, Config::new())
    }

    /// Creates a store on the caller's pool.
    #[must_use]
    pub fn with_config(pool: MySqlPool, config: Config) -> Self {
        Self::on(pool, None, config, Arc::default())
    }

    fn on(
        pool: MySqlPool,
        own: Option<Connections<MySql>>,
        config: Config,
        facts: Arc<OnceLock<Facts>>,
    ) -> Self {
        let operations = Arc::new(Operations::new(config, facts));
        let store = Self {
            pool,
            own,
            operations,
            batched: None,
        };
        store.with_batches()
    }

    /// Creates a store with its own connections: at most 10 by default
    /// ([`Config::with_max_connections`]). It opens them as they are needed, and tests them before
    /// use only after half a minute of idling. [`pool`](Self::pool) is for callers' transactions
    /// and opens at most as many again, when it is used.
    ///
    /// `url` is `mysql://user:password@host:port/database?ssl-mode=…`, as sqlx reads it, for
    /// MariaDB too. Whatever the server's defaults, sessions commit by themselves, write, are READ
    /// COMMITTED, wait one second for a lock, and return answers in full. On its own connections
    /// the store also sets the SQL mode, the optimizer and the limits of statements: see
    /// [Sessions](Self#sessions).
    ///
    /// # Errors
    ///
    /// `Misconfigured` when the URL cannot be read; `Unavailable` or `Misconfigured` when no
    /// connection can be made.
    pub async fn connect(url: &str, config: Config) -> Result<Self> {
        let options = check_scheme(url, &["mysql", "mariadb"], FORM);
        let options = options.and_then(|()| {
            MySqlConnectOptions::from_str(url).map_err(|error| misread(FORM, error))
        });
        let options = options
            .map_err(|error| error.at(BACKEND, "connect"))?
            // No statement depends on the session; this spares each connection a round trip.
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false);
        let facts = Arc::new(OnceLock::new());
        let (settings, first) = (settings::for_own(&config), Arc::clone(&facts));
        let settings: Arc<str> = format!("{settings}; {FACTS}").into();
        let opener = Opener::new(options.clone())
            .with_set_up(move |connection| server::set_up(connection, &settings, &first));
        let max = usize::try_from(config.max_connections()).unwrap_or(usize::MAX);
        let own = Connections::new(opener, max, config.timeout());
        let settings: Arc<str> = settings::for_pool(&config).into();
        let pool = MySqlPoolOptions::new()
            .max_connections(MAX_CONNECTIONS)
            .test_before_acquire(false)
            .before_acquire(|connection, idle| {
                Box::pin(async move {
                    Ok(idle.idle_for < TRUSTED_IDLE || connection.ping().await.is_ok())
                })
            })
            .after_connect(move |connection, _| settings::set(connection, &settings))
            .acquire_timeout(config.timeout())
            .connect_lazy_with(options);
        let store = Self::on(pool, Some(own), config, facts);
        // Opens the store's first connection, which it keeps.
        let mut session = store.session();
        let facts = store.operations.facts(&mut session).await;
        facts.map_err(|error| {
            not_connected(error, place(&store.pool.connect_options())).at(BACKEND, "connect")
        })?;
        drop(session);
        Ok(store)
    }

    /// Returns how often statements lost a race and were sent again, since this store (or the one
    /// it was cloned from) was made.
    #[must_use]
    pub fn contention(&self) -> Contention {
        self.operations.counters.read()
    }

    /// Returns the pool, for migrations and callers' transactions. Closing it closes the store: its
    /// operations then return `Misconfigured`.
    #[must_use]
    pub fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    /// Waits for the pool's connections and closes all, those of clones too. Operations that are
    /// under way on the store's own connections run to their end.
    pub async fn close(&self) {
        if let Some(own) = &self.own {
            own.close();
        }
        self.pool.close().await;
    }

    fn batched(&self) -> Option<&Batched<Self>> {
        self.batched.as_deref()
    }

    pub(crate) fn session(&self) -> Session<'_> {
        Session::on_store(
            &self.pool,
            self.own.as_ref(),
            &self.operations.config,
            &self.operations.counters,
        )
    }
}

/// Returns where the options lead: socket, or host and port, and database.
fn place(options: &MySqlConnectOptions) -> String {
    let database = options.get_database().unwrap_or_default();
    match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    }
}

idem_sql::store!(MySqlStore, BACKEND);
