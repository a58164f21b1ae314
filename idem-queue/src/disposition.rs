//! [`Disposition`]: the answer to the broker.

use std::time::Duration;

/// What to do with a delivery at the broker.
///
/// | | NATS JetStream | RabbitMQ | SQS |
/// | --- | --- | --- | --- |
/// | `Ack` | `Ack` | `basic.ack` | delete |
/// | `Requeue` | `Nak(delay)` | to a queue with a TTL | change the visibility to the delay |
/// | `Reject` | `Term` | `basic.reject`, to the dead letters | to the dead letters, delete |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// The message is done: its result is stored.
    Ack,
    /// The broker delivers it again.
    Requeue {
        /// After this time.
        delay: Duration,
    },
    /// The broker does not deliver it again, and the work was not done. The store records the
    /// reason, except for a conflict, whose key belongs to another message.
    Reject,
}
