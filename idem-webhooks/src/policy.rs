//! The policy that suits webhooks.

use std::time::Duration;

use idem_core::Policy;

/// For how long an event is remembered: 14 days. Every provider here gives up earlier: Stripe and
/// the schedule of Standard Webhooks retry for three days, GitHub allows redelivery for three,
/// Shopify retries for four hours, Slack for one. Senders of AdCP state their own horizon.
pub const RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// [`Policy::default`] with a retention of [`RETENTION`], for results and failures. An error of the
/// handler releases the event. A delivery that arrives during the handling of another is refused at
/// once, and the provider sends it again.
#[must_use]
pub fn policy() -> Policy {
    Policy::default()
        .with_retention(RETENTION)
        .with_failure_retention(RETENTION)
}
