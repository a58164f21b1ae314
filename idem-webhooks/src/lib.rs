#![doc = include_str!("../README.md")]

mod answer;
mod clock;
mod event;
mod hex;
mod preset;
mod provider;
mod receiver;
mod rejection;
mod run;
mod schemes;
mod secret;
mod verifier;
mod version;

pub use answer::Answer;
pub use clock::{Clock, SystemClock};
pub use event::Event;
pub use preset::{RETENTION, policy};
pub use provider::Provider;
pub use receiver::Receiver;
pub use rejection::Rejection;
pub use verifier::Verifier;
pub use version::Version;

pub use http;
