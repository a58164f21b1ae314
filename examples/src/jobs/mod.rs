//! A job queue whose producers push the same job again and again: mails in `apalis`, two workers,
//! one store.
//!
//! The worker is in `bin/jobs.rs`; here are the jobs and the judge.

mod mail;
mod report;

pub use mail::{Mail, mails};
pub use report::{Report, judge};
