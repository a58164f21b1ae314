//! [`Hub`]: one connection that receives published changes for all waiting runs.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use idem_core::backend::Subscription;
use idem_core::{Effect, Error, ErrorKind, Result};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisResult};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

use crate::connect::Connector;
use crate::link::Link;

/// Pauses between attempts to connect again.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How often a silent connection is checked with a ping.
const PING_EVERY: Duration = Duration::from_secs(15);

/// Channels with listeners, by name; each counts its messages. Zero: not subscribed to yet.
type Topics = HashMap<String, watch::Sender<u64>>;

/// Receives published changes, for all listeners of a store, on one connection that the first
/// listener opens.
#[derive(Debug)]
pub(crate) struct Hub {
    shared: Arc<Shared>,
}

struct Shared {
    link: Arc<Link>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    topics: Topics,
    /// To the task that owns the connection, once there is one.
    orders: Option<mpsc::UnboundedSender<Order>>,
}

/// An order to the task that owns the connection.
enum Order {
    Subscribe(String),
    /// If the channel has no listener any more.
    Unsubscribe(String),
}

/// Ends the subscription of a channel without listeners.
struct Leaves {
    shared: Weak<Shared>,
    channel: String,
}

impl Drop for Leaves {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.order(Order::Unsubscribe(std::mem::take(&mut self.channel)));
        }
    }
}

impl Hub {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self {
            shared: Arc::new(Shared {
                link,
                state: Mutex::default(),
            }),
        }
    }

    /// Listens to this channel; returns when the server has confirmed it.
    pub(crate) async fn listen(&self, channel: String) -> Result<Subscription> {
        // Dropped after the listening has ended.
        let leaves = Leaves {
            shared: Arc::downgrade(&self.shared),
            channel,
        };
        let mut changes = self.shared.join(&leaves.channel);
        let limit = self.shared.link.timeout();
        let confirmed = changes.wait_for(|count| *count > 0);
        let confirmed = tokio::time::timeout(limit, confirmed).await;
        if confirmed.is_ok_and(|confirmed| confirmed.is_ok()) {
            return Ok(Subscription::new(changes).with_guard(leaves));
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            Effect::None,
            format!(
                "the server did not confirm a subscription within {} ms",
                limit.as_millis()
            ),
        ))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a listener to this channel.
    fn join(self: &Arc<Self>, channel: &str) -> watch::Receiver<u64> {
        let mut state = self.state();
        if let Some(topic) = state.topics.get(channel) {
            return topic.subscribe();
        }
        let topic = watch::Sender::new(0);
        let changes = topic.subscribe();
        state.topics.insert(channel.to_owned(), topic);
        let order = Order::Subscribe(channel.to_owned());
        let running = state.orders.as_ref();
        // A task whose runtime has ended counts as none.
        if running.is_none_or(|orders| orders.send(order).is_err()) {
            let (orders, received) = mpsc::unbounded_channel();
            state.orders = Some(orders);
            tokio::spawn(serve(
                Arc::downgrade(self),
                Arc::clone(&self.link),
                received,
            ));
        }
        changes
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.state().orders {
            // Without a task there are no subscriptions.
            let _ = orders.send(order);
        }
    }

    fn channels(&self) -> Vec<String> {
        self.state().topics.keys().cloned().collect()
    }

    /// Notifies the listeners of this channel: something has happened, or may have while the
    /// connection was down.
    fn notify(&self, channel: &str) {
        if let Some(topic) = self.state().topics.get(channel) {
            topic.send_modify(|count| *count = count.saturating_add(1));
        }
    }

    /// Forgets a channel without listeners; returns `false` when it has some.
    fn forget(&self, channel: &str) -> bool {
        let mut state = self.state();
        let is_idle = |topic: &watch::Sender<u64>| topic.receiver_count() == 0;
        let forgotten = state.topics.get(channel).is_some_and(is_idle);
        if forgotten {
            state.topics.remove(channel);
        }
        forgotten
    }

    /// Lets the task end when there are no listeners: the next listener starts another.
    fn retire(&self) -> bool {
        let mut state = self.state();
        state.topics.retain(|_, topic| topic.receiver_count() > 0);
        if state.topics.is_empty() {
            state.orders = None;
        }
        state.topics.is_empty()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("channels", &self.state().topics.len())
            .finish_non_exhaustive()
    }
}

/// Maintains a connection as long as the hub lives, and replaces it when it is lost. Ends when
/// no key has a listener at that moment.
async fn serve(hub: Weak<Shared>, link: Arc<Link>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let started = Instant::now();
        // The result does not matter: the connection is lost, and with it the messages published
        // meanwhile.
        let _ = hear(&hub, &link, &mut orders).await;
        let Some(hub) = hub.upgrade() else { return };
        if hub.retire() {
            return;
        }
        if started.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        drop(hub);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Receives on one connection until it is lost, or the hub is gone.
async fn hear(
    hub: &Weak<Shared>,
    link: &Link,
    orders: &mut mpsc::UnboundedReceiver<Order>,
) -> RedisResult<()> {
    let connector: &Connector = &link.connector;
    let limit = link.timeout();
    let pubsub = within(limit, connector.pubsub(limit)).await?;
    let (mut sink, mut stream): (PubSubSink, PubSubStream) = pubsub.split();
    let channels = hub.upgrade().map(|hub| hub.channels()).unwrap_or_default();
    let mut subscribed: HashSet<String> = channels.into_iter().collect();
    for channel in &subscribed {
        subscribe(hub, &mut sink, channel, limit).await?;
    }
    let mut pings = tokio::time::interval(PING_EVERY);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = stream.next() => match message {
                Some(message) => notify(hub, &message),
                None => return Ok(()),
            },
            order = orders.recv() => match order {
                // Ordered while this connection was made.
                Some(Order::Subscribe(channel)) if subscribed.contains(&channel) => {}
                Some(Order::Subscribe(channel)) => {
                    subscribe(hub, &mut sink, &channel, limit).await?;
                    subscribed.insert(channel);
                }
                Some(Order::Unsubscribe(channel)) => {
                    if hub.upgrade().is_some_and(|hub| hub.forget(&channel)) {
                        subscribed.remove(&channel);
                        within(limit, sink.unsubscribe(&channel)).await?;
                    }
                }
                None => return Ok(()),
            },
            _ = pings.tick() => {
                within(limit, sink.ping::<redis::Value>()).await?;
            }
        }
    }
}

/// Subscribes, and notifies the listeners once: they missed earlier messages.
async fn subscribe(
    hub: &Weak<Shared>,
    sink: &mut PubSubSink,
    channel: &str,
    limit: Duration,
) -> RedisResult<()> {
    within(limit, sink.subscribe(channel)).await?;
    if let Some(hub) = hub.upgrade() {
        hub.notify(channel);
    }
    Ok(())
}

fn notify(hub: &Weak<Shared>, message: &Msg) {
    if let Some(hub) = hub.upgrade() {
        hub.notify(message.get_channel_name());
    }
}

async fn within<T>(
    limit: Duration,
    step: impl Future<Output = RedisResult<T>> + Send,
) -> RedisResult<T> {
    let late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut).into();
    tokio::time::timeout(limit, step)
        .await
        .map_err(late)
        .flatten()
}
