#![doc = include_str!("../README.md")]

mod answer;
mod clock;
mod cloud_events;
mod content;
mod event;
mod event_id;
mod identity;
mod policy;
mod presets;
mod provider;
mod received;
mod receiver;
mod rejection;
mod run;
mod secret;
mod sender;
mod signature;
mod statuses;
mod twilio;
mod verifier;
mod version;

pub use answer::Answer;
pub use clock::{Clock, SystemClock};
pub use cloud_events::CloudEvents;
pub use event::Event;
pub use event_id::{Compared, EventId};
pub use policy::{RETENTION, policy};
pub use provider::Provider;
pub use received::{Permission, Received};
pub use receiver::Receiver;
pub use rejection::Rejection;
pub use sender::Sender;
pub use signature::{Encoding, Part, Signature, TimeFormat};
pub use statuses::Statuses;
pub use verifier::Verifier;
pub use version::Version;

pub use http;
