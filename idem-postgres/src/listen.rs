//! [`PostgresNotifier`]: those who wait are told by the server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::{ChangeNotifier, Subscription};
use idem_core::{Fingerprint, Key, Result};
use idem_sql::config::LONGEST_TIME;
use sqlx::postgres::PgConnectOptions;

use crate::config::Config;
use crate::listen_hub::{Hub, Route};
use crate::store::{BACKEND, PostgresStore};

/// How long the connection is kept for the next one who waits.
const IDLE: Duration = Duration::from_secs(30);

/// Hears what stores with [`Announce::Changes`](crate::Announce::Changes) tell, by `LISTEN`, on one
/// connection for all who wait in this process.
///
/// The connection is made when the first one waits, made anew when it is lost, and closed when
/// nobody has waited for half a minute. Make one of a store and clone it: each that is made has a
/// connection of its own.
///
/// It is a hint: what is told while there is no connection is lost, so after each new one everybody
/// is told once more; who waits polls all the same. While there is none,
/// [`listen`](ChangeNotifier::listen) fails at once. A claim that
/// [`fail_abandoned`](idem_core::IdempotencyStore::fail_abandoned) fails is not notified. The
/// notification is a hash of the key.
///
/// ```no_run
/// use idem_core::Idempotency;
/// use idem_postgres::{Announce, Config, PostgresStore};
///
/// # async fn example() -> Result<(), idem_core::BoxError> {
/// let config = Config::new().with_announce(Announce::Changes); // every process that completes
/// let store = PostgresStore::connect("postgres://app@pooler:6432/shop", config).await?;
/// let wakes = store.wakes_through("postgres://app@db:5432/shop".parse()?); // or `store.wakes()` without a pooler
/// let idempotency = Idempotency::new(store).with_notifier(wakes);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PostgresNotifier {
    hub: Arc<Hub>,
}

impl PostgresStore {
    /// Hears the changes of this store's records, on a connection beside the pool, to where the
    /// pool's go.
    ///
    /// Through a pooler in transaction mode nothing is heard: see
    /// [`wakes_through`](Self::wakes_through).
    #[must_use]
    pub fn wakes(&self) -> PostgresNotifier {
        let options = (*self.pool.connect_options()).clone();
        self.wakes_through(options.application_name("idem wakes"))
    }

    /// The same on a connection of these options: to the primary itself, past a pooler that keeps
    /// no session.
    #[must_use]
    pub fn wakes_through(&self, options: PgConnectOptions) -> PostgresNotifier {
        PostgresNotifier::new(Route {
            options,
            channel: channel(self.config()),
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

    /// For how long the connection is kept when nobody waits; one to two times that, and at most a
    /// year.
    #[must_use]
    pub fn with_idle(self, idle: Duration) -> Self {
        let mut route = self.hub.route().clone();
        route.idle = idle.min(LONGEST_TIME);
        Self::new(route)
    }

    /// The channel that is listened to; what is told on it is [`Key::hashed`]. Its name goes by the
    /// names in the [`Config`]: stores that share a table must name schema and table alike, or they
    /// poll.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.hub.route().channel
    }
}

/// Shows the channel, not where the server is, which may hold a password.
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

/// The channel of a table, as the table is named in the configuration. A hash, because schema and
/// table may be longer together than a channel's name, which has 63 bytes at most.
pub(crate) fn channel(config: &Config) -> String {
    let digest = Fingerprint::raw(config.qualified_table()).to_string();
    let digits = digest.rsplit(':').next().unwrap_or_default();
    digits
        .chars()
        .take(32)
        .fold("idem_".to_owned(), |mut name, digit| {
            name.push(digit);
            name
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_a_tables_own_and_short_enough() {
        let named = |schema: &str, table: &str| {
            let config = Config::new().with_schema(schema).unwrap();
            channel(&config.with_table(table).unwrap())
        };
        let long = named(&"s".repeat(63), &"t".repeat(50));
        assert_eq!(long.len(), 37);
        assert!(
            long.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        );
        assert_eq!(named("a", "b"), named("a", "b"));
        for other in [named("a", "c"), named("b", "b"), channel(&Config::new())] {
            assert_ne!(named("a", "b"), other);
        }
    }
}
