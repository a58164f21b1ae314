#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backoff;
mod consumer;
mod disposition;
mod failing;
mod handled;
mod intent;
mod jobs;
#[cfg(feature = "tower")]
mod layer;
mod message;
mod not_done;
#[cfg(feature = "tower")]
mod service;
mod ticket;
mod work_error;

pub use backoff::Backoff;
pub use consumer::Consumer;
pub use disposition::Disposition;
pub use handled::Handled;
pub use intent::Intent;
pub use jobs::Jobs;
#[cfg(feature = "tower")]
pub use layer::JobLayer;
pub use message::Message;
pub use not_done::{NotDone, Reason};
#[cfg(feature = "tower")]
pub use service::{JobService, current_work};
pub use ticket::{Enqueued, Ran, Ticket};
pub use work_error::WorkError;
