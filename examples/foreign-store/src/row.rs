//! One record in the file.

use idem_core::backend::decision::{RecordFacts, RecordState};
use idem_core::{
    AttemptId, Claim, Completed, Failed, Failure, InFlight, Key, Record, StalePolicy, Timestamp,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The latest attempt; nobody's once the record was abandoned.
    pub(crate) attempt: AttemptId,
    pub(crate) record: Record,
    /// Given up: the record counts as absent.
    pub(crate) is_released: bool,
}

impl Row {
    /// Returns the facts that decisions about it depend on.
    pub(crate) fn facts(&self) -> RecordFacts {
        let info = self.record.info();
        let (on_stale, lease_ends_at) = match &self.record {
            Record::InFlight(held) => (held.on_stale, held.lease_ends_at),
            // A sealed record has no lease.
            _ => (StalePolicy::TakeOver, info.expires_at),
        };
        RecordFacts {
            state: match &self.record {
                _ if self.is_released => RecordState::Released,
                Record::InFlight(_) => RecordState::InFlight,
                Record::Completed(_) => RecordState::Completed,
                Record::Failed(_) => RecordState::Failed,
            },
            fingerprint: info.fingerprint,
            token: info.token,
            attempt: self.attempt,
            on_stale,
            lease_ends_at,
            expires_at: info.expires_at,
        }
    }

    /// Fails the record, because its holder is gone and nobody may take it over.
    pub(crate) fn abandon(&mut self, now: Timestamp) {
        self.attempt = AttemptId::NIL;
        self.record = Record::Failed(Failed {
            info: self.record.info().clone(),
            failure: Failure::abandoned(),
            sealed_at: now,
        });
    }

    /// Returns the claim of the holder, whose lease ends then.
    pub(crate) fn claim(&self, key: &Key, now: Timestamp, lease_ends_at: Timestamp) -> Claim {
        let info = self.record.info();
        let (token, attempts) = (info.token, info.attempts);
        Claim::new(
            key.clone(),
            token,
            self.attempt,
            attempts,
            now,
            lease_ends_at,
        )
    }

    /// Returns the record as it is seen now.
    pub(crate) fn seen(&self, now: Timestamp) -> Record {
        let mut record = self.record.clone();
        match &mut record {
            Record::InFlight(InFlight { info, .. })
            | Record::Completed(Completed { info, .. })
            | Record::Failed(Failed { info, .. }) => info.observed_at = now,
        }
        record
    }
}
