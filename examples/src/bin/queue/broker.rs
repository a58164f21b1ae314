//! [`Broker`]: NATS JetStream.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, AckKind, Context, Message, stream};
use idem_core::BoxError;
use idem_queue::Disposition;

use super::Order;

/// The durable consumer that all consumers share.
const DURABLE: &str = "shipping";

/// After this time without an answer the broker delivers a message again.
const ACK_WAIT: Duration = Duration::from_millis(600);

/// The stream of one run.
pub(crate) struct Broker {
    context: Context,
    stream: String,
}

impl Broker {
    /// Opens the stream of that name, at this server.
    pub(crate) async fn open(url: &str, stream: &str) -> Result<Self, BoxError> {
        let client = async_nats::connect(url).await.map_err(|error| {
            format!(
                "--broker {url}: {error}; `cargo xtask servers up nats` starts one and prints its \
                 URL"
            )
        })?;
        Ok(Self {
            context: jetstream::new(client),
            stream: stream.to_owned(),
        })
    }

    /// Creates the stream, and publishes the orders in it, each as often as it says.
    pub(crate) async fn publish(&self, orders: &[Order]) -> Result<u64, BoxError> {
        let config = stream::Config {
            name: self.stream.clone(),
            subjects: vec![self.stream.clone()],
            ..stream::Config::default()
        };
        self.context.create_stream(config).await?;
        let mut published = 0;
        for round in 0..2 {
            for order in orders.iter().filter(|order| order.times > round) {
                let payload = serde_json::to_vec(order)?;
                let subject = self.stream.clone();
                self.context.publish(subject, payload.into()).await?.await?;
                published += 1;
            }
        }
        Ok(published)
    }

    /// Returns the source of deliveries: without a limit, because the consumer counts itself.
    pub(crate) async fn consumer(&self) -> Result<PullConsumer, BoxError> {
        let config = pull::Config {
            durable_name: Some(DURABLE.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            max_deliver: -1,
            ..pull::Config::default()
        };
        let stream = self.context.get_stream(&self.stream).await?;
        Ok(stream.get_or_create_consumer(DURABLE, config).await?)
    }

    /// Returns how many messages are not done yet.
    pub(crate) async fn open_messages(&self) -> Result<u64, BoxError> {
        let mut consumer = self.consumer().await?;
        let info = consumer.info().await?;
        Ok(info.num_pending + u64::try_from(info.num_ack_pending)?)
    }

    /// Removes the stream.
    pub(crate) async fn remove(&self) -> Result<(), BoxError> {
        self.context.delete_stream(&self.stream).await?;
        Ok(())
    }
}

/// Sends the disposition to the broker. If the broker does not receive it, it delivers the message
/// again, which is harmless.
pub(crate) async fn answer(message: &Message, disposition: Disposition) -> Result<(), BoxError> {
    let kind = match disposition {
        Disposition::Ack => AckKind::Ack,
        Disposition::Requeue { delay } => AckKind::Nak(Some(delay)),
        Disposition::Reject => AckKind::Term,
    };
    message.ack_with(kind).await
}
