//! [`Disposition`]: what the broker is told.

use std::time::Duration;

/// What the broker is told of a delivery.
///
/// | | NATS JetStream | RabbitMQ | SQS |
/// | --- | --- | --- | --- |
/// | `Ack` | `Ack` | `basic.ack` | delete |
/// | `Requeue` | `Nak(delay)` | to a queue with a TTL | change the visibility to the delay |
/// | `Reject` | `Term` | `basic.reject`, to the dead letters | to the dead letters, delete |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// The message is done: its result is sealed.
    Ack,
    /// It is to come again.
    Requeue {
        /// After this time.
        delay: Duration,
    },
    /// It is not to come again, and was not done. Why is recorded in the store, but for a conflict,
    /// whose key belongs to another message.
    Reject,
}
