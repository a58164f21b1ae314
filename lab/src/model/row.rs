//! [`Rows`]: a store of one key that decides as every store does, by
//! `idem_core::backend::decision`, except where a [`Mutant`] says otherwise.

use idem_core::backend::decision::{
    ClaimDecision, RecordFacts, RecordState, StepDecision, decide, decide_release, decide_renewal,
    decide_seal,
};
use idem_core::{
    AttemptId, Claim, ClaimRequest, FailedPolicy, FencingToken, Fingerprint, Key, StalePolicy,
    Timestamp,
};

use super::Mutant;
use super::beside::TICK;
use crate::spec::{ABANDONED, Answer, Call, Op};

/// Who claims, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    /// The request.
    pub(super) fingerprint: u8,
    pub(super) takeover: bool,
    pub(super) retry: bool,
    /// What it does with its claim.
    pub(super) steps: &'static [Step],
}

/// A step of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Step {
    /// Completes with this result.
    Complete(u64),
    /// Fails with this failure.
    Fail(u64),
    Release,
    Renew,
    /// Stores this checkpoint.
    Save(u64),
    Load,
}

/// The durations, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) lease: i64,
    /// How long a record is kept after its lease.
    pub(super) kept: i64,
    /// How long a result is kept.
    pub(super) retention: i64,
    /// The lease of a renewal.
    pub(super) renewal: i64,
}

/// A record. Its instants are relative to now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) state: RecordState,
    pub(super) fingerprint: u8,
    pub(super) token: i64,
    /// 0 once it was abandoned.
    pub(super) attempt: u8,
    pub(super) attempts: u32,
    pub(super) takeover: bool,
    pub(super) lease: i64,
    pub(super) expires: i64,
    pub(super) result: u64,
    pub(super) checkpoint: u64,
}

impl Row {
    pub(super) fn facts(&self) -> RecordFacts {
        RecordFacts {
            state: self.state,
            fingerprint: fingerprint(self.fingerprint),
            token: FencingToken::from_i64(self.token),
            attempt: attempt(self.attempt),
            on_stale: stale_policy(self.takeover),
            lease_ends_at: Timestamp::from_micros(self.lease),
            expires_at: Timestamp::from_micros(self.expires),
        }
    }

    fn is_live(&self) -> bool {
        self.facts().is_live(NOW)
    }

    pub(super) fn is_stale(&self) -> bool {
        self.is_live() && self.facts().is_stale(NOW)
    }

    fn abandon(&mut self, leaves_owner: bool) {
        (self.state, self.result) = (RecordState::Failed, ABANDONED);
        if !leaves_owner {
            self.attempt = 0;
        }
    }
}

/// The instant of everything that happens: time is counted from it.
const NOW: Timestamp = Timestamp::from_micros(0);

fn fingerprint(number: u8) -> Fingerprint {
    Fingerprint::from_bytes(&[number; 33]).expect("33 bytes")
}

fn attempt(number: u8) -> AttemptId {
    AttemptId::from_bytes([number; 16])
}

fn stale_policy(takeover: bool) -> StalePolicy {
    match takeover {
        true => StalePolicy::TakeOver,
        false => StalePolicy::Fail,
    }
}

/// The row of the key, and the greatest token that was ever given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Stored {
    pub(super) row: Option<Row>,
    pub(super) last: i64,
}

/// The store's code and its callers' requests.
#[derive(Debug)]
pub(super) struct Rows {
    askers: &'static [Asker],
    requests: Vec<ClaimRequest>,
    times: Times,
    mutant: Option<Mutant>,
}

impl Rows {
    pub(super) fn new(askers: &'static [Asker], times: Times, mutant: Option<Mutant>) -> Self {
        let key = Key::new("tenant", "model", "key").expect("a valid key");
        let requests = (1..).zip(askers).map(|(number, asker)| {
            let on_failed = match asker.retry {
                true => FailedPolicy::Retry,
                false => FailedPolicy::Replay,
            };
            ClaimRequest::new(key.clone(), fingerprint(asker.fingerprint))
                .with_attempt(attempt(number))
                .with_on_stale(stale_policy(asker.takeover))
                .with_on_failed(on_failed)
        });
        Self {
            requests: requests.collect(),
            askers,
            times,
            mutant,
        }
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Returns the claim as the specification has it.
    pub(super) fn claim_call(&self, from: u8) -> Call {
        let asker = &self.askers[usize::from(from)];
        Call {
            op: Op::Claim {
                fp: u64::from(asker.fingerprint),
                lease: self.times.lease * TICK,
                ret: self.times.kept * TICK,
                takeover: asker.takeover,
                retry: asker.retry,
            },
            attempt: u64::from(from) + 1,
            token: 0,
        }
    }

    /// Returns the step as the specification has it.
    pub(super) fn step_call(&self, from: u8, step: Step, token: i64) -> Call {
        let ret = self.times.retention * TICK;
        let op = match step {
            Step::Complete(seal) => Op::Complete { seal, ret },
            Step::Fail(seal) => Op::Fail { seal, ret },
            Step::Release => Op::Release,
            Step::Renew => Op::Renew {
                lease: self.times.renewal * TICK,
            },
            Step::Save(cp) => Op::Save { cp },
            Step::Load => Op::Load,
        };
        Call {
            op,
            attempt: u64::from(from) + 1,
            token,
        }
    }

    /// Decides a claim that meets the row.
    pub(super) fn decide(&self, stored: &Stored, from: u8) -> ClaimDecision {
        let request = &self.requests[usize::from(from)];
        let mut facts = stored.row.as_ref().map(Row::facts);
        if let Some(facts) = &mut facts {
            let lease_ends = facts.lease_ends_at.as_micros();
            match self.mutant {
                Some(Mutant::OwnClaimForgotten) => facts.attempt = AttemptId::from_bytes([9; 16]),
                Some(Mutant::FingerprintIgnored) => facts.fingerprint = *request.fingerprint(),
                Some(Mutant::NeverExpires) => facts.expires_at = Timestamp::from_micros(i64::MAX),
                Some(Mutant::PolicyOfRecordIgnored) => facts.on_stale = StalePolicy::TakeOver,
                Some(Mutant::StaleTooEarly) => {
                    facts.lease_ends_at = Timestamp::from_micros(lease_ends - TICK);
                }
                Some(Mutant::NeverStale) => {
                    facts.lease_ends_at = Timestamp::from_micros(i64::MAX);
                }
                _ => {}
            }
        }
        decide(facts.as_ref(), request, NOW)
    }

    /// Does what was decided about a claim.
    pub(super) fn decided(&self, stored: &mut Stored, from: u8, decision: ClaimDecision) -> Answer {
        match (decision, &mut stored.row) {
            (ClaimDecision::Fresh, _) | (_, None) => self.acquire(stored, from, 1, 0),
            (ClaimDecision::Own, Some(row)) => {
                let (attempts, checkpoint, token) = (row.attempts, row.checkpoint, row.token);
                let last = stored.last;
                let answer = self.acquire(stored, from, attempts, checkpoint);
                match self.is(Mutant::OwnClaimGetsNewToken) {
                    true => answer,
                    false => self.with_token(stored, last, token),
                }
            }
            (ClaimDecision::TakeOver, Some(row)) => {
                let (attempts, checkpoint, token) = (row.attempts, row.checkpoint, row.token);
                let attempts = attempts + u32::from(!self.is(Mutant::AcquisitionsNotCounted));
                let checkpoint = match self.is(Mutant::CheckpointLostInTakeover) {
                    true => 0,
                    false => checkpoint,
                };
                let last = stored.last;
                let answer = self.acquire(stored, from, attempts, checkpoint);
                match self.is(Mutant::TakeoverKeepsToken) {
                    true => self.with_token(stored, last, token),
                    false => answer,
                }
            }
            (ClaimDecision::Retry, Some(row)) => {
                let checkpoint = match self.is(Mutant::RetryKeepsCheckpoint) {
                    true => row.checkpoint,
                    false => 0,
                };
                let attempts = row.attempts + 1;
                self.acquire(stored, from, attempts, checkpoint)
            }
            (ClaimDecision::Abandon, Some(row)) => {
                row.abandon(false);
                if self.is(Mutant::AbandonRestartsRetention) {
                    row.expires = self.times.retention * TICK;
                }
                found(row)
            }
            (ClaimDecision::Report, Some(row)) => {
                let asked = self.askers[usize::from(from)].fingerprint;
                match row.fingerprint == asked || self.is(Mutant::FingerprintIgnored) {
                    true => found(row),
                    false => Answer::Conflict {
                        tok: row.token,
                        fp: u64::from(row.fingerprint),
                    },
                }
            }
        }
    }

    /// Writes the row of a holder, with a new token.
    pub(super) fn acquire(
        &self,
        stored: &mut Stored,
        from: u8,
        attempts: u32,
        checkpoint: u64,
    ) -> Answer {
        let asker = &self.askers[usize::from(from)];
        let lease = self.times.lease * TICK;
        stored.row = Some(Row {
            state: RecordState::InFlight,
            fingerprint: asker.fingerprint,
            token: 0,
            attempt: from + 1,
            attempts,
            takeover: asker.takeover,
            lease,
            expires: lease + self.times.kept * TICK,
            result: 0,
            checkpoint,
        });
        let next = stored.last + 1;
        self.with_token(stored, next, next)
    }

    fn with_token(&self, stored: &mut Stored, last: i64, token: i64) -> Answer {
        stored.last = last;
        let lease_end = self.times.lease * TICK;
        let n = stored.row.as_mut().map_or(0, |row| {
            row.token = token;
            row.attempts
        });
        Answer::Acquired {
            tok: token,
            n,
            lease_end,
        }
    }

    /// Decides a step of a holder that meets the row.
    pub(super) fn decide_step(
        &self,
        stored: &Stored,
        from: u8,
        step: Step,
        token: i64,
    ) -> StepDecision {
        let mut facts = stored.row.as_ref().map(Row::facts);
        let (mut token, mut by) = (FencingToken::from_i64(token), attempt(from + 1));
        let mut is_tomb_open = false;
        if let Some(facts) = &mut facts {
            let is_seal = matches!(step, Step::Complete(_) | Step::Fail(_));
            let is_stale = facts.is_stale(NOW);
            match (self.mutant, step) {
                (Some(Mutant::TokenNotCompared), _) if is_seal => {
                    (token, by) = (facts.token, facts.attempt);
                }
                (Some(Mutant::ReleaseByAttempt), Step::Release)
                | (Some(Mutant::CompleteByAttempt), Step::Complete(_)) => token = facts.token,
                (Some(Mutant::CheckpointOfAnyone), Step::Save(_)) => {
                    (token, by) = (facts.token, facts.attempt);
                }
                (Some(Mutant::LateHolderRefused), _) if is_seal && is_stale => {
                    return StepDecision::Lost;
                }
                (Some(Mutant::LateRenewalRefused), Step::Renew) if is_stale => {
                    return StepDecision::Lost;
                }
                (Some(Mutant::RenewalRevives), Step::Renew) => {
                    facts.expires_at = Timestamp::from_micros(i64::MAX);
                }
                (Some(Mutant::TombAcceptsSeal), _) => is_tomb_open = is_seal,
                _ => {}
            }
            if is_tomb_open && facts.state == RecordState::Released {
                facts.state = RecordState::InFlight;
                facts.expires_at = Timestamp::from_micros(i64::MAX);
            }
        }
        let key = self.requests[0].key().clone();
        let claim = Claim::new(key, token, by, 1, NOW, NOW);
        let is_same = |failed, seal| {
            let stored = stored.row.as_ref();
            stored
                .is_some_and(|row| (row.state == RecordState::Failed, row.result) == (failed, seal))
        };
        let decision = match step {
            Step::Complete(seal) => {
                decide_seal(facts.as_ref(), &claim, || is_same(false, seal), NOW)
            }
            Step::Fail(seal) => decide_seal(facts.as_ref(), &claim, || is_same(true, seal), NOW),
            Step::Release => decide_release(facts.as_ref(), &claim, NOW),
            Step::Renew | Step::Save(_) | Step::Load => decide_renewal(facts.as_ref(), &claim, NOW),
        };
        match (self.mutant, decision) {
            (Some(Mutant::SecondResultOverwrites), StepDecision::AlreadySealed) => {
                StepDecision::Apply
            }
            (Some(Mutant::RepeatRefused), StepDecision::Done)
                if matches!(step, Step::Complete(_) | Step::Fail(_)) =>
            {
                StepDecision::AlreadySealed
            }
            (_, decision) => decision,
        }
    }

    /// Does what was decided about a step.
    pub(super) fn stepped(
        &self,
        stored: &mut Stored,
        step: Step,
        decision: StepDecision,
    ) -> Answer {
        let Some(row) = &mut stored.row else {
            return Answer::Lost;
        };
        match decision {
            StepDecision::Lost => return Answer::Lost,
            StepDecision::AlreadySealed => return Answer::AlreadySealed,
            StepDecision::Done => {
                if self.is(Mutant::RepeatExtendsRetention) && step != Step::Release {
                    row.expires = self.times.retention * TICK;
                }
                return Answer::Done;
            }
            StepDecision::Apply => {}
        }
        match step {
            Step::Complete(seal) => self.seal(row, RecordState::Completed, seal),
            Step::Fail(seal) => self.seal(row, RecordState::Failed, seal),
            Step::Release => {
                row.state = RecordState::Released;
                // A tomb has no instants, which keeps the states few.
                (row.lease, row.expires, row.result, row.checkpoint) = (0, 0, 0, 0);
            }
            Step::Renew => {
                let lease = self.times.renewal * TICK;
                let longer = match self.is(Mutant::RenewalShortens) {
                    true => lease - row.lease,
                    false => (lease - row.lease).max(0),
                };
                row.lease += longer;
                if !self.is(Mutant::RenewalLeavesRetention) {
                    row.expires += longer;
                }
            }
            Step::Save(checkpoint) => row.checkpoint = checkpoint,
            Step::Load => return Answer::Checkpoint { cp: row.checkpoint },
        }
        Answer::Done
    }

    fn seal(&self, row: &mut Row, state: RecordState, result: u64) {
        (row.state, row.result) = (state, result);
        if !self.is(Mutant::RetentionOfClaim) {
            row.expires = self.times.retention * TICK;
        }
        if !self.is(Mutant::RetryKeepsCheckpoint) {
            row.checkpoint = 0;
        }
        row.lease = 0;
    }

    /// Fails the record, if it is stale and may not be taken over; returns whether it did.
    pub(super) fn sweep(&self, stored: &mut Stored) -> bool {
        let Some(row) = &mut stored.row else {
            return false;
        };
        let is_due = match self.mutant {
            Some(Mutant::SweepFailsHeld) => row.is_live() && row.state == RecordState::InFlight,
            _ => row.is_stale(),
        };
        let is_mine = !row.takeover || self.is(Mutant::SweepFailsTakeovers);
        if is_due && is_mine {
            row.abandon(self.is(Mutant::SweepLeavesOwner));
            row.lease = 0;
        }
        is_due && is_mine
    }

    /// Deletes the row, if it does not count any more; returns whether it did.
    pub(super) fn purge(&self, stored: &mut Stored) -> bool {
        let is_due = stored
            .row
            .as_ref()
            .is_some_and(|row| !row.is_live() || self.is(Mutant::StalePurged) && row.is_stale());
        if is_due {
            stored.row = None;
            if self.is(Mutant::FloorForgottenByPurge) {
                stored.last = 0;
            }
        }
        is_due
    }

    /// Returns what a reader finds, and the end of its retention.
    pub(super) fn get(stored: &Stored) -> (Answer, Option<i64>) {
        match &stored.row {
            Some(row) if row.is_live() => (found(row), Some(row.expires)),
            _ => (Answer::Nothing, None),
        }
    }
}

/// Returns what a caller gets of the record.
fn found(row: &Row) -> Answer {
    let (tok, seal) = (row.token, row.result);
    match row.state {
        RecordState::InFlight => Answer::InFlight {
            tok,
            lease_end: row.lease,
        },
        RecordState::Completed => Answer::Completed { tok, seal },
        RecordState::Failed => Answer::Failed { tok, seal },
        RecordState::Released => Answer::Nothing,
    }
}

impl Stored {
    pub(super) const fn new() -> Self {
        Self { row: None, last: 0 }
    }

    /// Moves all instants. Those of a record that is gone do not matter any more.
    pub(super) fn tick(&mut self) {
        let Some(row) = &mut self.row else {
            return;
        };
        if row.state == RecordState::InFlight {
            row.lease -= TICK;
        }
        if row.state != RecordState::Released {
            row.expires = (row.expires - TICK).max(0);
            if row.expires == 0 {
                row.lease = row.lease.clamp(-TICK, 0);
            }
        }
    }
}
