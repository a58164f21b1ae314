//! [`Handled`]: what became of a delivery.

use idem_core::Outcome;

use crate::{Disposition, NotDone, Reason};

/// What became of a delivery: its value or the reason for having none, and its disposition.
///
/// | | disposition | stored |
/// | --- | --- | --- |
/// | done now | `Ack` | sealed |
/// | done before | `Ack` | nothing more |
/// | being worked on by another | `Requeue` until its lease ends | nothing more |
/// | a temporary error | `Requeue` with back-off | released |
/// | a permanent error; a temporary one at the last try | `Reject` | the failure |
/// | tried too often | `Reject` | the failure, without another try |
/// | failed before | `Reject` | nothing more |
/// | the key belongs to another message | `Reject` | nothing more |
/// | done, but not known to be sealed | `Requeue` with back-off | not known |
/// | the store is unreachable, or an open transaction holds the key | `Requeue` with back-off | not known |
///
/// `Debug` does not show the value.
#[derive(Debug)]
#[must_use = "the broker needs the disposition"]
pub struct Handled<T>(Result<Outcome<T>, NotDone>);

impl<T> Handled<T> {
    pub(crate) fn done(outcome: Outcome<T>) -> Self {
        Self(Ok(outcome))
    }

    pub(crate) fn not(disposition: Disposition, reason: Reason) -> Self {
        Self(Err(NotDone {
            disposition,
            reason,
        }))
    }

    /// Returns the answer to the broker.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match &self.0 {
            Ok(_) => Disposition::Ack,
            Err(not_done) => not_done.disposition,
        }
    }

    /// Returns the value, fresh or replayed, or the reason why there is none.
    ///
    /// # Errors
    ///
    /// [`NotDone`]. Its reason is [`Reason::Unreadable`] when the message was done before and its
    /// value cannot be read as a `T`.
    pub fn into_result(self) -> Result<Outcome<T>, NotDone> {
        self.0
    }

    /// Returns whether the work was done by an earlier delivery.
    #[must_use]
    pub fn is_duplicate(&self) -> bool {
        match &self.0 {
            Ok(outcome) => outcome.is_replayed(),
            Err(not_done) => matches!(not_done.reason, Reason::Unreadable(_)),
        }
    }

    /// Returns the reason why there is no value.
    #[must_use]
    pub fn reason(&self) -> Option<&Reason> {
        self.0.as_ref().err().map(NotDone::reason)
    }
}
