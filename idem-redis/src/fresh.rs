//! [`FreshClaim`]: claims of keys without a record, many by one script.

use idem_core::backend::check::CheckedClaim;
use idem_core::{Claim, ClaimOutcome, ClaimRequest, FencingToken, StalePolicy, Timestamp};

use crate::many::Item;
use crate::operations::Operations;
use crate::record;
use crate::script::Call;

/// A claim, to be sent with others.
#[derive(Debug)]
pub(crate) struct FreshClaim {
    key: String,
    terms: Terms,
    /// The stored form from the attempt id on.
    rest: Vec<u8>,
}

/// The common values of the claims of one script, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    lease: i64,
    retention: i64,
    fails_when_stale: bool,
}

impl FreshClaim {
    pub(crate) fn new(
        request: &ClaimRequest,
        checked: &CheckedClaim,
        operations: &Operations,
    ) -> Self {
        Self {
            key: operations.record_key(request.key()),
            terms: Terms {
                lease: checked.lease,
                retention: checked.retention,
                fails_when_stale: request.on_stale() == StalePolicy::Fail,
            },
            rest: record::rest(request, checked.metadata.as_deref().unwrap_or_default()),
        }
    }

    /// Returns the claim that was written at this instant.
    pub(crate) fn won(request: &ClaimRequest, checked: &CheckedClaim, now: i64) -> ClaimOutcome {
        ClaimOutcome::Acquired(Claim::new(
            request.key().clone(),
            FencingToken::from_i64(now),
            request.attempt(),
            1,
            Timestamp::from_micros(now),
            Timestamp::from_micros(now.saturating_add(checked.lease)),
        ))
    }
}

impl Item for FreshClaim {
    type Terms = Terms;

    fn key(&self) -> &str {
        &self.key
    }

    fn terms(&self) -> Terms {
        self.terms
    }

    fn bytes(&self) -> usize {
        self.rest.len()
    }

    fn call<'s>(operations: &'s Operations, keys: &[&str], terms: Terms) -> Call<'s> {
        let script = &operations.scripts.fresh_many;
        script
            .call_with(keys)
            .arg(operations.config.grace_millis())
            .arg(terms.lease)
            .arg(terms.retention)
            .arg(&record::head(terms.fails_when_stale)[..])
            .dated()
    }

    fn add<'s>(&self, call: Call<'s>) -> Call<'s> {
        call.arg(&self.rest[..])
    }
}
