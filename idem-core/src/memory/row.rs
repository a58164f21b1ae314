//! One record as the memory store keeps it.

use crate::backend::decision::{ClaimDecision, RecordFacts, RecordState, decide};
use crate::{
    AttemptId, Checkpoint, ClaimRequest, Completed, Failed, Failure, FencingToken, Fingerprint,
    InFlight, Key, Metadata, Record, RecordInfo, Response, StalePolicy, Timestamp,
};

/// The mark of a row that is in no queue.
pub(super) const UNQUEUED: Timestamp = Timestamp::from_micros(i64::MAX);

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) key: Key,
    pub(super) fingerprint: Fingerprint,
    pub(super) token: FencingToken,
    pub(super) attempt: AttemptId,
    pub(super) attempts: u32,
    pub(super) created_at: Timestamp,
    pub(super) expires_at: Timestamp,
    pub(super) metadata: Metadata,
    pub(super) state: State,
    /// When the entry that counts in the queue of expiries falls due.
    pub(super) expiry_queued: Timestamp,
    /// When the entry that counts in the queue of leases falls due.
    pub(super) lease_queued: Timestamp,
}

/// The instants of a claim that is granted now.
pub(super) struct Lease {
    pub(super) now: Timestamp,
    pub(super) ends_at: Timestamp,
    pub(super) expires_at: Timestamp,
}

#[derive(Debug, Clone)]
pub(super) enum State {
    InFlight {
        lease_ends_at: Timestamp,
        on_stale: StalePolicy,
        checkpoint: Option<Box<Checkpoint>>,
    },
    Completed {
        response: Response,
        sealed_at: Timestamp,
    },
    Failed {
        failure: Failure,
        sealed_at: Timestamp,
    },
    Released,
}

/// The decision about a claim that meets a row.
#[derive(Debug)]
pub(super) enum Decision {
    /// The key is acquired, under a new token.
    Acquire {
        attempts: u32,
        created_at: Timestamp,
        checkpoint: Option<Box<Checkpoint>>,
    },
    /// The attempt has the key already.
    Own(Held),
    /// Another attempt has it, or had it.
    Lose(Record),
}

/// The parts of a row that stay when its holder writes it anew.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) token: FencingToken,
    pub(super) attempts: u32,
    pub(super) created_at: Timestamp,
    pub(super) checkpoint: Option<Box<Checkpoint>>,
}

impl Decision {
    /// Acquires the key as if it had never been claimed.
    pub(super) fn fresh(now: Timestamp) -> Self {
        Self::Acquire {
            attempts: 1,
            created_at: now,
            checkpoint: None,
        }
    }
}

impl Row {
    /// Returns the row of a holder, in no queue.
    pub(super) fn held(request: &ClaimRequest, lease: &Lease, held: Held) -> Self {
        Self {
            key: request.key().clone(),
            fingerprint: *request.fingerprint(),
            token: held.token,
            attempt: request.attempt(),
            attempts: held.attempts,
            created_at: held.created_at,
            expires_at: lease.expires_at,
            metadata: request.metadata().clone(),
            state: State::InFlight {
                lease_ends_at: lease.ends_at,
                on_stale: request.on_stale(),
                checkpoint: held.checkpoint,
            },
            expiry_queued: UNQUEUED,
            lease_queued: UNQUEUED,
        }
    }

    /// Decides a claim, and fails the row when it is stale and may not be taken over.
    pub(super) fn decide(&mut self, request: &ClaimRequest, now: Timestamp) -> Decision {
        match decide(Some(&self.facts()), request, now) {
            ClaimDecision::Fresh => return Decision::fresh(now),
            ClaimDecision::Own => {
                return Decision::Own(Held {
                    token: self.token,
                    attempts: self.attempts,
                    created_at: self.created_at,
                    checkpoint: self.checkpoint(),
                });
            }
            ClaimDecision::TakeOver => return self.acquired_again(self.checkpoint()),
            ClaimDecision::Retry => return self.acquired_again(None),
            ClaimDecision::Abandon => self.abandon(now),
            ClaimDecision::Report => {}
        }
        // A reported record is live, and abandoning leaves the end of its retention.
        self.record(now)
            .map_or_else(|| Decision::fresh(now), Decision::Lose)
    }

    /// Returns the facts that decisions about it depend on.
    pub(super) fn facts(&self) -> RecordFacts {
        let (state, on_stale, lease_ends_at) = match &self.state {
            State::InFlight {
                lease_ends_at,
                on_stale,
                ..
            } => (RecordState::InFlight, *on_stale, *lease_ends_at),
            State::Completed { .. } => (RecordState::Completed, StalePolicy::TakeOver, UNQUEUED),
            State::Failed { .. } => (RecordState::Failed, StalePolicy::TakeOver, UNQUEUED),
            State::Released => (RecordState::Released, StalePolicy::TakeOver, UNQUEUED),
        };
        RecordFacts {
            state,
            fingerprint: self.fingerprint,
            token: self.token,
            attempt: self.attempt,
            on_stale,
            lease_ends_at,
            expires_at: self.expires_at,
        }
    }

    fn checkpoint(&self) -> Option<Box<Checkpoint>> {
        match &self.state {
            State::InFlight { checkpoint, .. } => checkpoint.clone(),
            _ => None,
        }
    }

    fn acquired_again(&self, checkpoint: Option<Box<Checkpoint>>) -> Decision {
        Decision::Acquire {
            attempts: self.attempts.saturating_add(1),
            created_at: self.created_at,
            checkpoint,
        }
    }

    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        self.expires_at > now
    }

    /// Returns when the row has to be checked for the end of its retention. While a lease lasts
    /// that is the lease's end: by then most records are sealed, and one entry in the queue has
    /// served both the claim and the result.
    pub(super) fn look_at(&self, now: Timestamp) -> Timestamp {
        match self.state {
            State::InFlight { lease_ends_at, .. } if lease_ends_at > now => lease_ends_at,
            _ => self.expires_at,
        }
    }

    /// Returns when `fail_abandoned` has to fail this record; [`UNQUEUED`] if never.
    pub(super) fn sweep_due(&self) -> Timestamp {
        match self.state {
            State::InFlight {
                lease_ends_at,
                on_stale: StalePolicy::Fail,
                ..
            } => lease_ends_at,
            _ => UNQUEUED,
        }
    }

    pub(super) fn abandon(&mut self, now: Timestamp) {
        self.attempt = AttemptId::NIL;
        self.state = State::Failed {
            failure: Failure::abandoned(),
            sealed_at: now,
        };
    }

    pub(super) fn give_up(&mut self) {
        self.state = State::Released;
        self.expires_at = Timestamp::default();
    }

    /// Returns what other callers see of it at this instant.
    pub(super) fn record(&self, now: Timestamp) -> Option<Record> {
        if !self.is_live(now) {
            return None;
        }
        let info = RecordInfo::new(self.fingerprint, self.token, self.attempts)
            .with_times(self.created_at, self.expires_at, now)
            .with_metadata(self.metadata.clone());
        match &self.state {
            State::InFlight {
                lease_ends_at,
                on_stale,
                ..
            } => Some(Record::InFlight(InFlight {
                info,
                lease_ends_at: *lease_ends_at,
                on_stale: *on_stale,
            })),
            State::Completed {
                response,
                sealed_at,
            } => Some(Record::Completed(Completed {
                info,
                response: response.clone(),
                sealed_at: *sealed_at,
            })),
            State::Failed { failure, sealed_at } => Some(Record::Failed(Failed {
                info,
                failure: failure.clone(),
                sealed_at: *sealed_at,
            })),
            State::Released => None,
        }
    }
}
