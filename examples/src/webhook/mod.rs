//! A receiver of GitHub's webhooks under fire: every event of a file, delivered at least once,
//! shuffled, in parallel, some forged, some by a sender that hangs up before it is answered.
//!
//! The receiver is in `bin/webhook.rs`; here are the sender and the judge.

mod audit;
mod delivery;
mod events;
mod report;
mod sender;

pub use audit::audit;
pub use delivery::{Copies, Delivery};
pub use events::{Payload, SOURCES, read};
pub use report::Report;
pub use sender::{Sender, Tally};

/// What GitHub and the receiver share.
pub const SECRET: &str = "It's a Secret to Everybody";
