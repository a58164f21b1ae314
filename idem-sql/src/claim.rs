//! [`ClaimParams`]: a claim that was checked.

use idem_core::backend::check::{self, CheckedClaim};
use idem_core::{Claim, ClaimRequest, FencingToken, Limits, Result, Timestamp};

use crate::parameters::Values;

/// A claim that was checked, in the form that statements take.
#[derive(Debug)]
pub struct ClaimParams<'r> {
    /// The claim.
    pub request: &'r ClaimRequest,
    /// Its durations and metadata.
    pub checked: CheckedClaim,
}

impl<'r> ClaimParams<'r> {
    /// Checks the claim.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for durations out of range and metadata above the limits.
    pub fn new(request: &'r ClaimRequest, limits: &Limits) -> Result<Self> {
        let checked = check::claim(request, limits)?;
        Ok(Self { request, checked })
    }

    /// Returns the values of its statements.
    #[must_use]
    pub fn values(&self) -> Values<'_> {
        Values::of_request(self.request, &self.checked)
    }

    /// Returns the claim that an insert of the record has won at `now`, in microseconds by the
    /// server's clock, which is also the token.
    pub fn inserted(&self, now: i64) -> Claim {
        Claim::new(
            self.request.key().clone(),
            FencingToken::from_i64(now),
            self.request.attempt(),
            1,
            Timestamp::from_micros(now),
            Timestamp::from_micros(now.saturating_add(self.checked.lease)),
        )
    }
}
