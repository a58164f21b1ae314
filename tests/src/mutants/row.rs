//! One record of a mutant.

use idem_core::{
    AttemptId, Checkpoint, Claim, ClaimRequest, Completed, Failed, Failure, FencingToken, InFlight,
    Record, RecordInfo, Response, StalePolicy, Timestamp,
};

use super::Bug;

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) request: ClaimRequest,
    pub(super) token: i64,
    pub(super) attempt: AttemptId,
    pub(super) attempts: u32,
    pub(super) created_at: i64,
    pub(super) lease_ends_at: i64,
    pub(super) expires_at: i64,
    pub(super) state: State,
    /// The last holder's checkpoint; some bugs keep it for too long.
    pub(super) checkpoint: Option<Checkpoint>,
}

/// The committed row of a key that an open transaction holds; `None` where there was none.
pub(super) type Held = Option<Row>;

/// A watermark.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) version: u64,
    pub(super) expires_at: i64,
}

#[derive(Debug, Clone)]
pub(super) enum State {
    InFlight,
    Completed(Response, i64),
    Failed(Failure, i64),
    Released,
}

impl Row {
    pub(super) fn is_live(&self, now: i64) -> bool {
        self.expires_at > now && !matches!(self.state, State::Released)
    }

    pub(super) fn is_stale(&self, now: i64) -> bool {
        matches!(self.state, State::InFlight) && self.lease_ends_at <= now
    }

    pub(super) fn is_owned_by(&self, claim: &Claim, bug: Bug) -> bool {
        let token = self.token == claim.token().as_i64();
        let attempt = self.attempt == claim.attempt();
        match bug {
            Bug::NoFencing => true,
            Bug::IgnoresToken => attempt,
            Bug::IgnoresAttempt => token,
            _ => token && attempt,
        }
    }

    pub(super) fn abandon(&mut self, now: i64, bug: Bug) {
        if bug != Bug::AbandonedKeepsOwner {
            self.attempt = AttemptId::NIL;
        }
        self.state = State::Failed(Failure::abandoned(), now);
    }

    /// Returns the checkpoint for the next holder; `own` if that is the attempt that holds the row.
    pub(super) fn left_behind(&self, own: bool, now: i64, bug: Bug) -> Option<Checkpoint> {
        let in_flight = matches!(self.state, State::InFlight);
        let stays = match self.state {
            State::Released => bug == Bug::CheckpointOutlivesRelease,
            _ if !self.is_live(now) => bug == Bug::CheckpointOutlivesExpiry && in_flight,
            State::InFlight if own => bug != Bug::CheckpointLostWhenAskedAgain,
            State::InFlight => bug != Bug::CheckpointLostInTakeover,
            _ => bug == Bug::CheckpointOutlivesFailure,
        };
        self.checkpoint.clone().filter(|_| stays)
    }

    /// Returns whether both sides permit a takeover of the claim.
    pub(super) fn may_be_taken_over(&self, request: &ClaimRequest, bug: Bug) -> bool {
        let both = [self.request.on_stale(), request.on_stale()];
        bug == Bug::TakeoverIgnoresPolicy || both == [StalePolicy::TakeOver; 2]
    }

    pub(super) fn record(&self, now: i64) -> Option<Record> {
        let at = Timestamp::from_micros;
        let fingerprint = *self.request.fingerprint();
        let info = RecordInfo::new(
            fingerprint,
            FencingToken::from_i64(self.token),
            self.attempts,
        )
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
