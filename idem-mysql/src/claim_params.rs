//! [`ClaimParams`]: a claim, as statements take it.

use idem_core::backend::check::{self, CheckedClaim};
use idem_core::{Claim, ClaimRequest, FencingToken, Key, Result, StalePolicy, Timestamp};
use idem_sql::batch::Item;
use idem_sql::parameters::{Parameter, Value, Values};

use crate::config::Config;

/// A checked claim in the form that statements take.
#[derive(Debug)]
pub(crate) struct ClaimParams<'r> {
    pub(crate) request: &'r ClaimRequest,
    checked: CheckedClaim,
}

impl<'r> ClaimParams<'r> {
    pub(crate) fn new(request: &'r ClaimRequest, config: &Config) -> Result<Self> {
        let checked = check::claim(request, &config.limits())?;
        Ok(Self { request, checked })
    }

    /// Returns the claim that an insert with this token has won: the token is the server's clock.
    pub(crate) fn inserted(&self, token: i64) -> Claim {
        Claim::new(
            self.request.key().clone(),
            FencingToken::from_i64(token),
            self.request.attempt(),
            1,
            Timestamp::from_micros(token),
            Timestamp::from_micros(token + self.checked.lease),
        )
    }

    /// Returns the values of the claim's statements.
    pub(crate) fn values(&self) -> Values<'_> {
        let sweeps = self.request.on_stale() == StalePolicy::Fail;
        let sweep_after = sweeps.then_some(self.checked.lease);
        Values::of_request(self.request, &self.checked)
            .with(Parameter::Kept, self.checked.lease + self.checked.retention)
            .with(Parameter::SweepAfter, Value::OptionalNumber(sweep_after))
    }
}

impl Item for ClaimParams<'_> {
    fn key(&self) -> &Key {
        self.request.key()
    }

    fn bytes(&self) -> usize {
        self.checked.metadata.as_ref().map_or(0, String::len)
    }
}
