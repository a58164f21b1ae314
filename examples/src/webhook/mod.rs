//! A receiver of GitHub's webhooks under difficult conditions. Every event of a file is delivered
//! at least once, shuffled, in parallel, some forged, some by a sender that disconnects before the
//! answer.
//!
//! The receiver is in `bin/webhook.rs`; this module has the sender and the audit.

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

/// The secret that GitHub and the receiver share.
pub const SECRET: &str = "It's a Secret to Everybody";
