//! A queue whose consumers are killed while they work: orders on NATS JetStream, each published
//! once or twice. Some fail for a while, some make no sense, and one kills every consumer that
//! handles it.
//!
//! The consumer is in `bin/queue.rs`; this module has the broker, the consumer processes and the
//! audit.

mod audit;
mod broker;
mod crew;
mod order;
mod report;

pub use audit::{Audit, audit};
pub use broker::Broker;
pub use crew::Crew;
pub use order::{Kind, Order, orders};
pub use report::Report;
