//! [`Model`]: a shard of the memory store, the real one, under every order of operations.

use std::time::Duration;

use idem_core::memory::model::ModelShard;
use idem_core::{
    AttemptId, Checkpoint, Claim, ClaimOutcome, ClaimRequest, ErrorKind, FailedPolicy, Failure,
    FencingToken, Fingerprint, Key, Record, Response, Result, StalePolicy, Timestamp,
};

use super::Mutant;
use super::beside::{Beside, TICK, op_name};
use super::explore::{Kind, Machine, Wrong};
use crate::spec::{ABANDONED, Answer, Call, Op};

/// What a configuration allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    pub(super) keys: usize,
    /// The ticks of the clock.
    pub(super) ticks: i64,
    /// How often keys are acquired in all.
    pub(super) acquisitions: u8,
    /// Whether all keys have one hash.
    pub(super) collides: bool,
    pub(super) checkpoints: bool,
}

/// The attempts that claim each key.
const ATTEMPTS: usize = 2;

/// The durations, in ticks.
const LEASE: i64 = 1;
const KEPT: i64 = 1;
const RETENTION: i64 = 2;

#[derive(Debug)]
pub(super) struct Model {
    scope: Scope,
    keys: Vec<Key>,
    /// By key, attempt and policy.
    requests: Vec<Vec<[ClaimRequest; 2]>>,
}

#[derive(Debug, Clone, PartialEq, Hash)]
pub(super) struct World {
    shard: ModelShard,
    now: i64,
    keys: Vec<OfKey>,
    acquisitions: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct OfKey {
    beside: Beside,
    /// The token of each attempt's latest claim.
    held: [Option<i64>; ATTEMPTS],
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// A key, an attempt and a policy.
    Claim(usize, usize, usize),
    Complete(usize, usize),
    Fail(usize, usize),
    Release(usize, usize),
    Renew(usize, usize),
    Save(usize, usize),
    Tick,
    /// Checks this many entries.
    Delete(u32),
    Sweep(u32),
    Rebuild,
}

impl Model {
    pub(super) fn new(scope: Scope, _: Option<Mutant>) -> Self {
        let ids = ["a", "b", "c"];
        let keys = ids.iter().take(scope.keys);
        let keys: Vec<_> = keys
            .map(|id| Key::new("tenant", "model", *id).expect("a valid key"))
            .collect();
        let policies = [
            (StalePolicy::TakeOver, FailedPolicy::Replay),
            (StalePolicy::Fail, FailedPolicy::Retry),
        ];
        let of_attempt = |key: &Key, number: usize| {
            policies.map(|(on_stale, on_failed)| {
                ClaimRequest::new(key.clone(), Fingerprint::raw("request"))
                    .with_attempt(attempt(number))
                    .with_lease(ticks(LEASE))
                    .with_retention(ticks(KEPT))
                    .with_on_stale(on_stale)
                    .with_on_failed(on_failed)
            })
        };
        let of_key = |key| {
            (0..ATTEMPTS)
                .map(|number| of_attempt(key, number))
                .collect()
        };
        Self {
            scope,
            requests: keys.iter().map(of_key).collect(),
            keys,
        }
    }
}

fn attempt(number: usize) -> AttemptId {
    AttemptId::from_bytes([number as u8 + 1; 16])
}

fn ticks(number: i64) -> Duration {
    Duration::from_micros((number * TICK).unsigned_abs())
}

impl Machine for Model {
    type State = World;
    type Action = Action;

    fn start(&self) -> World {
        let of_key = OfKey {
            beside: Beside::new(),
            held: [None; ATTEMPTS],
        };
        World {
            shard: ModelShard::new(self.scope.collides),
            now: 0,
            keys: vec![of_key; self.scope.keys],
            acquisitions: self.scope.acquisitions,
        }
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (at, key) in world.keys.iter().enumerate() {
            for number in 0..ATTEMPTS {
                if world.acquisitions > 0 {
                    actions.extend([0, 1].map(|policy| Action::Claim(at, number, policy)));
                }
                if key.held[number].is_none() {
                    continue;
                }
                actions.extend([
                    Action::Complete(at, number),
                    Action::Fail(at, number),
                    Action::Release(at, number),
                    Action::Renew(at, number),
                ]);
                if self.scope.checkpoints {
                    actions.push(Action::Save(at, number));
                }
            }
        }
        if world.now < self.scope.ticks {
            actions.push(Action::Tick);
        }
        actions.extend([1, 2].map(Action::Delete));
        actions.extend([1, 2].map(Action::Sweep));
        actions.push(Action::Rebuild);
    }

    fn take(&self, world: &mut World, action: &Action) -> std::result::Result<Kind, Wrong> {
        let now = Timestamp::from_micros(world.now * TICK);
        let kind = match *action {
            Action::Claim(at, number, policy) => self.claim(world, at, number, policy)?,
            Action::Complete(at, number) => {
                let (seal, ret) = (number as u64 + 1, RETENTION * TICK);
                let op = Op::Complete { seal, ret };
                self.step(world, at, number, op, |shard, claim| {
                    let response = Response::new(200, seal.to_string());
                    shard.complete(claim, &response, ticks(RETENTION), now)
                })?
            }
            Action::Fail(at, number) => {
                let (seal, ret) = (number as u64 + 1, RETENTION * TICK);
                let op = Op::Fail { seal, ret };
                self.step(world, at, number, op, |shard, claim| {
                    let failure = Failure::new(seal.to_string(), "");
                    shard.fail(claim, &failure, ticks(RETENTION), now)
                })?
            }
            Action::Release(at, number) => {
                self.step(world, at, number, Op::Release, |shard, claim| {
                    shard.release(claim, now)
                })?
            }
            Action::Renew(at, number) => {
                let lease = LEASE * TICK;
                self.step(world, at, number, Op::Renew { lease }, |shard, claim| {
                    shard.renew(claim, ticks(LEASE), now).map(drop)
                })?
            }
            Action::Save(at, number) => {
                let cp = number as u64 + 1;
                self.step(world, at, number, Op::Save { cp }, |shard, claim| {
                    let point = Checkpoint::new(cp.to_string(), "")?;
                    shard.checkpoint(claim, &point, now)
                })?
            }
            Action::Tick => {
                world.now += 1;
                for key in &mut world.keys {
                    key.beside.settle(world.now * TICK);
                }
                ("tick", "")
            }
            Action::Delete(entries) => match world.shard.delete_some(entries, now) {
                0 => ("purge", "left"),
                _ => ("purge", "deleted"),
            },
            Action::Sweep(entries) => self.sweep(world, entries, now)?,
            Action::Rebuild => {
                world.shard.rebuild_queues();
                ("rebuild", "")
            }
        };
        self.observe(world)?;
        Ok(kind)
    }
}

impl Model {
    fn claim(
        &self,
        world: &mut World,
        at: usize,
        number: usize,
        policy: usize,
    ) -> std::result::Result<Kind, Wrong> {
        let request = &self.requests[at][number][policy];
        let now = world.now * TICK;
        let outcome = world.shard.claim(request, Timestamp::from_micros(now));
        let answer = match outcome {
            Ok(ClaimOutcome::Acquired(claim)) => {
                let tok = claim.token().as_i64();
                let held = &mut world.keys[at].held[number];
                if *held != Some(tok) {
                    world.acquisitions -= 1;
                }
                *held = Some(tok);
                Answer::Acquired {
                    tok,
                    n: claim.attempts(),
                    lease_end: claim.lease_ends_at().as_micros(),
                }
            }
            Ok(ClaimOutcome::InFlight(record)) => found(Some(&Record::InFlight(record))).0,
            Ok(ClaimOutcome::Completed(record)) => found(Some(&Record::Completed(record))).0,
            Ok(ClaimOutcome::Failed(record)) => found(Some(&Record::Failed(record))).0,
            Ok(_) | Err(_) => Answer::Unknown,
        };
        let call = Call {
            op: Op::Claim {
                fp: 1,
                lease: LEASE * TICK,
                ret: KEPT * TICK,
                takeover: request.on_stale() == StalePolicy::TakeOver,
                retry: request.on_failed() == FailedPolicy::Retry,
            },
            attempt: number as u64 + 1,
            token: 0,
        };
        if answer == Answer::Unknown {
            return Err(Wrong("claim: an error".to_owned()));
        }
        let name = world.keys[at].beside.take(&call, now, &answer)?;
        Ok(("claim", name))
    }

    fn step(
        &self,
        world: &mut World,
        at: usize,
        number: usize,
        op: Op,
        run: impl FnOnce(&mut ModelShard, &Claim) -> Result<()>,
    ) -> std::result::Result<Kind, Wrong> {
        let token = world.keys[at].held[number].unwrap_or_default();
        let claim = self.held(at, number, token);
        let answer = returned(run(&mut world.shard, &claim))?;
        let call = Call {
            op,
            attempt: number as u64 + 1,
            token,
        };
        let now = world.now * TICK;
        let name = world.keys[at].beside.take(&call, now, &answer)?;
        Ok((op_name(&call.op), name))
    }

    fn held(&self, at: usize, number: usize, token: i64) -> Claim {
        let (key, token) = (self.keys[at].clone(), FencingToken::from_i64(token));
        let never = Timestamp::default();
        Claim::new(key, token, attempt(number), 1, never, never)
    }

    /// A sweep fails some of the records that are due, and no other.
    fn sweep(
        &self,
        world: &mut World,
        entries: u32,
        now: Timestamp,
    ) -> std::result::Result<Kind, Wrong> {
        let before = self.records(world, now);
        let failed = world.shard.fail_some(entries, now);
        let after = self.records(world, now);
        let mut seen = 0;
        for ((key, before), after) in world.keys.iter_mut().zip(before).zip(after) {
            if before != after {
                seen += 1;
                key.beside.sweep(now.as_micros(), true)?;
            }
        }
        match (failed, failed == seen) {
            (_, false) => Err(Wrong("sweep: another number".to_owned())),
            (0, true) => Ok(("sweep", "left")),
            (_, true) => Ok(("sweep", "failed")),
        }
    }

    fn records(&self, world: &World, now: Timestamp) -> Vec<Answer> {
        let keys = self.keys.iter();
        let records = keys.map(|key| found(world.shard.get(key, now).as_ref()).0);
        records.collect()
    }

    /// Compares what readers find, and the checkpoints that holders find; and no row is forgotten.
    fn observe(&self, world: &mut World) -> std::result::Result<(), Wrong> {
        let now = world.now * TICK;
        let at_now = Timestamp::from_micros(now);
        for (at, key) in world.keys.iter_mut().enumerate() {
            let (answer, expires) = found(world.shard.get(&self.keys[at], at_now).as_ref());
            key.beside.observe(now, &answer, expires)?;
            if !self.scope.checkpoints {
                continue;
            }
            for number in 0..ATTEMPTS {
                let Some(token) = key.held[number] else {
                    continue;
                };
                let claim = self.held(at, number, token);
                let answer = match world.shard.last_checkpoint(&claim, at_now) {
                    Ok(point) => Answer::Checkpoint {
                        cp: point.map_or(0, |point| number_of(point.name())),
                    },
                    Err(error) => returned(Err(error))?,
                };
                let load = Call {
                    op: Op::Load,
                    attempt: number as u64 + 1,
                    token,
                };
                key.beside.take(&load, now, &answer)?;
            }
        }
        match world.shard.forgotten(at_now) {
            None => Ok(()),
            Some(what) => Err(Wrong(what.to_owned())),
        }
    }
}

/// Returns what a step answers.
fn returned(result: Result<()>) -> std::result::Result<Answer, Wrong> {
    match result.map_err(|error| error.kind()) {
        Ok(()) => Ok(Answer::Done),
        Err(ErrorKind::ClaimLost) => Ok(Answer::Lost),
        Err(ErrorKind::AlreadySealed) => Ok(Answer::AlreadySealed),
        Err(kind) => Err(Wrong(format!("an error: {kind:?}"))),
    }
}

/// Returns what a reader finds, and the end of its retention.
fn found(record: Option<&Record>) -> (Answer, Option<i64>) {
    let (answer, info) = match record {
        None => return (Answer::Nothing, None),
        Some(Record::InFlight(held)) => {
            let tok = held.info.token.as_i64();
            let lease_end = held.lease_ends_at.as_micros();
            (Answer::InFlight { tok, lease_end }, &held.info)
        }
        Some(Record::Completed(done)) => {
            let body = String::from_utf8_lossy(done.response.body());
            let (tok, seal) = (done.info.token.as_i64(), number_of(&body));
            (Answer::Completed { tok, seal }, &done.info)
        }
        Some(Record::Failed(failed)) => {
            let seal = match failed.failure.code() {
                Failure::ABANDONED => ABANDONED,
                code => number_of(code),
            };
            let tok = failed.info.token.as_i64();
            (Answer::Failed { tok, seal }, &failed.info)
        }
    };
    (answer, Some(info.expires_at.as_micros()))
}

fn number_of(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}
