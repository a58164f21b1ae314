//! [`Hub`]: one connection that listens for all waiting runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use idem_core::backend::Subscription;
use idem_core::{Effect, Error, ErrorKind, Result};
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use sqlx::{Executor, PgPool};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// Pauses between attempts to connect again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often a silent connection is pinged.
const PING_EVERY: Duration = Duration::from_secs(15);

/// How long a caller waits for the first connection; without it the caller polls.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Where to listen, and for how long.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) options: PgConnectOptions,
    pub(crate) channel: String,
    /// How long each step on the connection may take.
    pub(crate) timeout: Duration,
    pub(crate) idle: Duration,
}

/// Receives the notifications of a channel, for all listeners, on one connection that is opened for
/// the first listener.
pub(crate) struct Hub {
    shared: Arc<Shared>,
}

struct Shared {
    route: Route,
    state: Mutex<State>,
    /// Dropped with the hub, which ends the task.
    _alive: watch::Sender<()>,
    gone: watch::Receiver<()>,
}

#[derive(Default)]
struct State {
    /// The topics that have listeners; each counts its notifications. Zero: none was received yet.
    topics: HashMap<String, watch::Sender<u64>>,
    hearing: Hearing,
    /// Whether a listener joined since this was last read.
    was_joined: bool,
    /// The task that owns the connection.
    task: Option<JoinHandle<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Hearing {
    #[default]
    Connecting,
    Listening,
    Lost,
}

/// Forgets a topic that has no listeners any more.
struct Leaves {
    shared: Weak<Shared>,
    topic: String,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.forget(&self.topic);
        }
    }
}

impl Hub {
    pub(crate) fn new(route: Route) -> Self {
        let (alive, gone) = watch::channel(());
        Self {
            shared: Arc::new(Shared {
                route,
                state: Mutex::default(),
                _alive: alive,
                gone,
            }),
        }
    }

    pub(crate) fn route(&self) -> &Route {
        &self.shared.route
    }

    /// Listens to this topic; returns when the server has confirmed the subscription.
    pub(crate) async fn listen(&self, topic: String) -> Result<Subscription> {
        // Dropped after the listening has ended.
        let leaves = Leaves {
            shared: Arc::downgrade(&self.shared),
            topic,
        };
        let (mut changes, hearing) = self.shared.join(&leaves.topic);
        if hearing != Hearing::Lost {
            let confirmed = changes.wait_for(|count| *count > 0);
            let confirmed = tokio::time::timeout(TIMEOUT, confirmed).await;
            if confirmed.is_ok_and(|confirmed| confirmed.is_ok()) {
                return Ok(Subscription::new(changes).with_guard(leaves));
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            Effect::None,
            "there is no connection that listens; one is being made",
        ))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listener to this topic.
    fn join(self: &Arc<Self>, topic: &str) -> (watch::Receiver<u64>, Hearing) {
        let mut state = self.state();
        // A task whose runtime has ended counts as none.
        if state.task.as_ref().is_none_or(JoinHandle::is_finished) {
            state.hearing = Hearing::Connecting;
            state.task = Some(tokio::spawn(serve(
                Arc::downgrade(self),
                self.route.clone(),
                self.gone.clone(),
            )));
        }
        state.was_joined = true;
        let hearing = state.hearing;
        let heard = u64::from(hearing == Hearing::Listening);
        let topics = &mut state.topics;
        let topic = topics.entry(topic.to_owned());
        let topic = topic.or_insert_with(|| watch::Sender::new(heard));
        (topic.subscribe(), hearing)
    }

    /// Notes that the connection listens. Every listener reads once more: earlier notifications
    /// were not received.
    fn begin(&self) {
        let mut state = self.state();
        state.hearing = Hearing::Listening;
        state.topics.values().for_each(count);
    }

    fn lose(&self) {
        self.state().hearing = Hearing::Lost;
    }

    fn notify(&self, topic: &str) {
        if let Some(topic) = self.state().topics.get(topic) {
            count(topic);
        }
    }

    fn forget(&self, topic: &str) {
        let mut state = self.state();
        let is_idle = |topic: &watch::Sender<u64>| topic.receiver_count() == 0;
        if state.topics.get(topic).is_some_and(is_idle) {
            state.topics.remove(topic);
        }
    }

    /// Returns whether there is no listener, and none has joined since the last call.
    fn is_idle(&self) -> bool {
        let mut state = self.state();
        let was_joined = std::mem::take(&mut state.was_joined);
        state.topics.is_empty() && !was_joined
    }

    /// Lets the task end when there are no listeners any more: the next listener starts another.
    fn retire(&self) -> bool {
        let mut state = self.state();
        let retires = state.topics.is_empty();
        if retires {
            state.task = None;
        }
        retires
    }
}

fn count(topic: &watch::Sender<u64>) {
    topic.send_modify(|count| *count = count.saturating_add(1));
}

/// Keeps a connection open while the hub lives and has listeners, and replaces it when it is lost.
async fn serve(hub: Weak<Shared>, route: Route, mut gone: watch::Receiver<()>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let started = Instant::now();
        // A pool of one, because sqlx makes a listener from a pool.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(route.timeout)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_lazy_with(route.options.clone());
        tokio::select! {
            // The result does not matter: the connection is lost, and with it the notifications of
            // the meantime.
            _ = hear(&hub, &pool, &route) => {}
            _ = gone.changed() => {}
        }
        if let Some(hub) = hub.upgrade() {
            hub.lose();
        }
        // Closes the connection properly, if it still exists.
        let _ = tokio::time::timeout(route.timeout, pool.close()).await;
        if hub.upgrade().is_none_or(|hub| hub.retire()) {
            return;
        }
        if started.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Listens on one connection until it is lost, or there are no listeners any more.
async fn hear(hub: &Weak<Shared>, pool: &PgPool, route: &Route) -> sqlx::Result<()> {
    let limit = route.timeout;
    let mut listener = within(limit, PgListener::connect_with(pool)).await?;
    // This function opens new connections itself, so that all listeners are notified of them.
    listener.eager_reconnect(false);
    listener.ignore_pool_close_event(true);
    within(limit, listener.listen(&route.channel)).await?;
    if let Some(hub) = hub.upgrade() {
        hub.begin();
    }
    let mut pings = every(PING_EVERY);
    let mut looks = every(route.idle.max(Duration::from_millis(1)));
    loop {
        tokio::select! {
            notification = listener.try_recv() => match (notification?, hub.upgrade()) {
                (Some(notification), Some(hub)) => hub.notify(notification.payload()),
                _ => return Ok(()),
            },
            _ = pings.tick() => {
                within(limit, listener.execute("SELECT 1")).await?;
            }
            _ = looks.tick() => {
                if hub.upgrade().is_none_or(|hub| hub.is_idle()) {
                    return Ok(());
                }
            }
        }
    }
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn within<T>(
    limit: Duration,
    step: impl Future<Output = sqlx::Result<T>> + Send,
) -> sqlx::Result<T> {
    let late = |_| sqlx::Error::PoolTimedOut;
    tokio::time::timeout(limit, step)
        .await
        .map_err(late)
        .flatten()
}
