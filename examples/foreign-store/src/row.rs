//! One record in the file.

use idem_core::{
    AttemptId, Claim, ClaimRequest, Completed, Failed, Failure, FencingToken, InFlight, Record,
    RecordInfo, Response, StalePolicy, Timestamp,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Row {
    /// The claim that made the row.
    pub(crate) request: ClaimRequest,
    pub(crate) owner: AttemptId,
    pub(crate) token: i64,
    pub(crate) attempts: u32,
    pub(crate) created_at: i64,
    pub(crate) lease_ends_at: i64,
    pub(crate) expires_at: i64,
    pub(crate) state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    InFlight,
    Completed(Response, i64),
    Failed(Failure, i64),
    Released,
}

impl Row {
    pub(crate) fn is_live(&self, now: i64) -> bool {
        self.expires_at > now && self.state != State::Released
    }

    pub(crate) fn is_stale(&self, now: i64) -> bool {
        self.state == State::InFlight && self.lease_ends_at <= now
    }

    pub(crate) fn is_owned_by(&self, claim: &Claim) -> bool {
        self.token == claim.token().as_i64() && self.owner == claim.attempt()
    }

    pub(crate) fn may_not_be_taken_over(&self) -> bool {
        self.request.on_stale() == StalePolicy::Fail
    }

    pub(crate) fn abandon(&mut self, now: i64) {
        self.owner = AttemptId::NIL;
        self.state = State::Failed(Failure::abandoned(), now);
    }

    pub(crate) fn claim(&self, now: i64) -> Claim {
        Claim::new(
            self.request.key().clone(),
            FencingToken::from_i64(self.token),
            self.owner,
            self.attempts,
            Timestamp::from_micros(now),
            Timestamp::from_micros(self.lease_ends_at),
        )
    }

    pub(crate) fn record(&self, now: i64) -> Option<Record> {
        let at = Timestamp::from_micros;
        let (fingerprint, token) = (
            *self.request.fingerprint(),
            FencingToken::from_i64(self.token),
        );
        let info = RecordInfo::new(fingerprint, token, self.attempts)
            .with_times(at(self.created_at), at(self.expires_at), at(now))
            .with_metadata(self.request.metadata().clone());
        if !self.is_live(now) {
            return None;
        }
        match self.state.clone() {
            State::Released => None,
            State::InFlight => Some(Record::InFlight(InFlight {
                info,
                lease_ends_at: at(self.lease_ends_at),
                on_stale: self.request.on_stale(),
            })),
            State::Completed(response, sealed_at) => Some(Record::Completed(Completed {
                info,
                response,
                sealed_at: at(sealed_at),
            })),
            State::Failed(failure, sealed_at) => Some(Record::Failed(Failed {
                info,
                failure,
                sealed_at: at(sealed_at),
            })),
        }
    }
}
