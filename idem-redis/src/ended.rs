//! [`EndedClaim`]: results and releases of claims that are held, many by one script.

use idem_core::Claim;
use idem_core::backend::FinalResult;

use crate::many::Item;
use crate::operations::Operations;
use crate::record;
use crate::script::Call;

/// The end of a claim, to be sent with others.
#[derive(Debug)]
pub(crate) struct EndedClaim {
    key: String,
    owner: [u8; record::OWNER_BYTES],
    result: FinalResult,
}

impl EndedClaim {
    pub(crate) fn new(claim: &Claim, result: &FinalResult, operations: &Operations) -> Self {
        Self {
            key: operations.record_key(claim.key()),
            owner: record::owner(claim),
            result: result.clone(),
        }
    }
}

impl Item for EndedClaim {
    /// State and retention.
    type Terms = (i64, i64);

    fn key(&self) -> &str {
        &self.key
    }

    fn terms(&self) -> (i64, i64) {
        (self.result.state(), self.result.retention())
    }

    fn bytes(&self) -> usize {
        self.owner.len() + self.result.bytes().len()
    }

    fn call<'s>(
        operations: &'s Operations,
        keys: &[&str],
        (state, retention): (i64, i64),
    ) -> Call<'s> {
        let script = &operations.scripts.finish_many;
        script
            .call_with(keys)
            .arg(operations.config.grace_millis())
            .arg(state)
            .arg(retention)
            .arg(operations.record_prefix().len())
            .arg(operations.channel_prefix())
    }

    fn add<'s>(&self, call: Call<'s>) -> Call<'s> {
        call.arg(&self.owner[..]).arg(self.result.bytes())
    }
}
