//! [`PostgresNotifier`]: the server notifies waiting runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::{ChangeNotifier, Subscription};
use idem_core::{Key, Result};
use idem_sql::config::MAX_TIME;
use sqlx::postgres::PgConnectOptions;

use crate::listen_hub::{Hub, Route};
use crate::store::{BACKEND, PostgresStore};

/// How long the connection is kept for the next waiting run.
const IDLE: Duration = Duration::from_secs(30);

/// Receives the notifications of stores with
/// [`Notifications::Changes`](crate::Notifications::Changes), by `LISTEN`, on one connection for all
/// waiting runs of this process.
///
/// The notifier connects when the first run waits, reconnects when the connection is lost, and
/// closes it when no run has waited for half a minute. Make one notifier of a store and clone it:
/// each that is made has a connection of its own.
///
/// A notification is a hint: one that is sent while there is no connection is lost. So every new
/// connection notifies all waiting runs once, and they poll all the same. While there is no
/// connection, [`listen`](ChangeNotifier::listen) fails at once. A claim that
/// [`fail_abandoned`](idem_core::IdempotencyStore::fail_abandoned) fails is not notified. The
/// notification is a hash of the key.
///
/// ```no_run
/// use idem_core::Idempotency;
/// use idem_postgres::{Notifications, Config, PostgresStore};
///
/// # async fn example() -> Result<(), idem_core::BoxError> {
/// // Every process that completes:
/// let config = Config::new().with_notifications(Notifications::Changes);
/// let store = PostgresStore::connect("postgres://app@pooler:6432/shop", config).await?;
/// // Or `store.notifier()` without a pooler:
/// let notifier = store.notifier_through("postgres://app@db:5432/shop".parse()?);
/// let idempotency = Idempotency::new(store).with_notifier(notifier);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresNotifier {
    hub: Arc<Hub>,
}

impl PostgresStore {
    /// Creates a notifier for this store's records, on a connection beside the pool, with the
    /// pool's options.
    ///
    /// Through a pooler in transaction mode no notification arrives: see
    /// [`notifier_through`](Self::notifier_through).
    #[must_use]
    pub fn notifier(&self) -> PostgresNotifier {
        let options = (*self.pool.connect_options()).clone();
        self.notifier_through(options.application_name("idem wakes"))
    }

    /// Creates a notifier on a connection with these options: to the primary itself, past a pooler
    /// that keeps no session.
    #[must_use]
    pub fn notifier_through(&self, options: PgConnectOptions) -> PostgresNotifier {
        PostgresNotifier::new(Route {
            options,
            channel: self.config().channel(),
            timeout: self.config().timeout(),
            idle: IDLE,
        })
    }
}

impl PostgresNotifier {
    fn new(route: Route) -> Self {
        Self {
            hub: Arc::new(Hub::new(route)),
        }
    }

    /// Sets how long the connection is kept while no run waits: it closes after one to two times
    /// that. At most a year.
    #[must_use]
    pub fn with_idle(self, idle: Duration) -> Self {
        let mut route = self.hub.route().clone();
        route.idle = idle.min(MAX_TIME);
        Self::new(route)
    }

    /// Returns the channel; its notifications carry [`Key::hashed`]. The channel's name is made
    /// from the names in the [`Config`](crate::Config): stores that share a table must name schema
    /// and table alike, or they poll.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.hub.route().channel
    }
}

/// Shows the channel, not the server's address, which may hold a password.
impl fmt::Debug for PostgresNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresNotifier")
            .field("channel", &self.channel())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl ChangeNotifier for PostgresNotifier {
    async fn listen(&self, key: &Key) -> Result<Subscription> {
        let listening = self.hub.listen(key.hashed()).await;
        listening.map_err(|error| error.at(BACKEND, "listen"))
    }
}
