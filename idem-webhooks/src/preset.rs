//! The policy that suits webhooks.

use std::time::Duration;

use idem_core::Policy;

/// For how long an event is remembered: 14 days. Every provider here has given up by then: Stripe
/// tries for three days, GitHub lets people send again for three, Shopify tries for four hours,
/// Slack for one.
pub const RETENTION: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// [`Policy::default`] with a retention of [`RETENTION`], for results and failures: an error of the
/// handler releases the event, and a delivery that comes while another is being handled is refused
/// at once, to be sent again.
#[must_use]
pub fn policy() -> Policy {
    Policy::default()
        .with_retention(RETENTION)
        .with_failure_retention(RETENTION)
}
