//! A job queue whose producers push the same job repeatedly: mails in `apalis`, two workers, one
//! store.
//!
//! The worker is in `bin/jobs.rs`; this module has the jobs and the audit.

mod mail;
mod report;

pub use mail::{Mail, mails};
pub use report::{Report, judge};
