//! A queue whose consumers are killed while they work: orders on NATS JetStream, each published
//! once or twice, some that fail for a while, some that make no sense, and one that kills whoever
//! touches it.
//!
//! The consumer is in `bin/queue.rs`; here are the broker, the crew of consumers, and the judge.

mod audit;
mod broker;
mod crew;
mod order;
mod report;

pub use audit::{Verdict, audit};
pub use broker::Broker;
pub use crew::Crew;
pub use order::{Kind, Order, orders};
pub use report::Report;
