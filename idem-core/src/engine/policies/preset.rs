//! Policies by purpose.

use std::time::Duration;

use super::super::{ErrorPolicy, InterruptPolicy, Policy};
use crate::FailedPolicy;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Presets for common purposes, also by name in files.
///
/// | preset | a result is replayed for | a failure, a run that is dropped |
/// | --- | --- | --- |
/// | [`build`](Self::build) | 60 s | released |
/// | [`fix`](Self::fix) | 30 s | released |
/// | [`deploy`](Self::deploy) | 300 s | released |
/// | [`delete`](Self::delete) | 600 s | released |
/// | [`api_write`](Self::api_write) | 24 h; up to 72 h where clients retry for longer | released |
/// | [`webhook`](Self::webhook) | 14 days | released |
/// | [`batch`](Self::batch) | the expected run and a day | released |
/// | [`at_most_once`](Self::at_most_once) | 24 h | recorded |
impl Policy {
    /// For a job that a person may request twice by accident. While it runs, and for this long
    /// after it has succeeded, the same request is a duplicate. A job that failed or was cancelled
    /// does not count: the next request runs.
    #[must_use]
    pub fn ghost_job(window: Duration) -> Self {
        Self::default()
            .with_retention(window)
            .with_on_error(ErrorPolicy::Release)
            .with_on_cancel(InterruptPolicy::Release)
            .with_on_panic(InterruptPolicy::Release)
            .with_on_failed(FailedPolicy::Retry)
    }

    /// Returns a [`ghost_job`](Self::ghost_job) with a window of 60 s.
    #[must_use]
    pub fn build() -> Self {
        Self::ghost_job(MINUTE)
    }

    /// Returns a [`ghost_job`](Self::ghost_job) with a window of 30 s.
    #[must_use]
    pub fn fix() -> Self {
        Self::ghost_job(MINUTE / 2)
    }

    /// Returns a [`ghost_job`](Self::ghost_job) with a window of 300 s.
    #[must_use]
    pub fn deploy() -> Self {
        Self::ghost_job(MINUTE * 5)
    }

    /// Returns a [`ghost_job`](Self::ghost_job) with a window of 600 s.
    #[must_use]
    pub fn delete() -> Self {
        Self::ghost_job(MINUTE * 10)
    }

    /// For a write over an API: results are kept for 24 h, the least that clients should be able to
    /// rely on. Where they retry over a weekend, set a [retention](Self::with_retention) of 72 h.
    #[must_use]
    pub fn api_write() -> Self {
        Self::default().with_retention(DAY)
    }

    /// For a delivery of a webhook: 14 days, longer than any sender repeats one.
    #[must_use]
    pub fn webhook() -> Self {
        Self::default()
            .with_retention(DAY * 14)
            .with_failure_retention(DAY * 14)
    }

    /// For a batch that is expected to run for this long: its items are kept for that and a day, so
    /// that a restarted batch finds what it has done.
    #[must_use]
    pub fn batch(run: Duration) -> Self {
        let retention = run.saturating_add(DAY);
        Self::default()
            .with_retention(retention)
            .with_failure_retention(retention)
    }
}

/// The presets that files name, except `batch`, which needs its run.
#[cfg(any(feature = "toml", feature = "yaml"))]
pub(super) const PRESETS: [&str; 8] = [
    "default",
    "at_most_once",
    "build",
    "fix",
    "deploy",
    "delete",
    "api_write",
    "webhook",
];

/// Returns the preset of this name.
#[cfg(any(feature = "toml", feature = "yaml"))]
pub(super) fn named(preset: &str) -> Option<Policy> {
    match preset {
        "default" => Some(Policy::default()),
        "at_most_once" => Some(Policy::at_most_once()),
        "build" => Some(Policy::build()),
        "fix" => Some(Policy::fix()),
        "deploy" => Some(Policy::deploy()),
        "delete" => Some(Policy::delete()),
        "api_write" => Some(Policy::api_write()),
        "webhook" => Some(Policy::webhook()),
        _ => None,
    }
}
