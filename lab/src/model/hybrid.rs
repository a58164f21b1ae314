//! [`Hybrid`]: a database, a cache in front of it, and what a cache can do to the answers.
//!
//! The database is the specification itself. So the question is only whether an answer of the cache
//! is one that the database gives, or gave while the call ran.

use super::Mutant;
use super::explore::{Kind, Machine, Wrong};
use crate::spec::{Answer, Body, Call, KeyState, Op, Span, step, unify};

/// The time between two ticks, in microseconds. Stores round ends of leases by up to a millisecond,
/// which is less.
const TICK: i64 = 10_000;

/// What a configuration allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    pub(super) readers: u8,
    /// How many calls each reader makes.
    pub(super) calls: u8,
    /// How long a result is kept, in ticks.
    pub(super) retention: i64,
    /// How often an operator deletes the record.
    pub(super) deletions: u8,
    /// How often the cache loses its memory.
    pub(super) losses: u8,
    /// How often the cache's clock is set back, by a tick.
    pub(super) back: u8,
    /// How often it is set forward.
    pub(super) forward: u8,
    /// How long a reader's own tier keeps an entry, in ticks; 0 without one.
    pub(super) near: i64,
    /// Whether what the readers' own tiers replay is judged: they are not told of deletions.
    pub(super) judges_near: bool,
}

#[derive(Debug)]
pub(super) struct Hybrid {
    scope: Scope,
    mutant: Option<Mutant>,
}

impl Hybrid {
    pub(super) fn new(scope: Scope, mutant: Option<Mutant>) -> Self {
        Self { scope, mutant }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    database: KeyState,
    far: Far,
    readers: Vec<Reader>,
    operator: Operator,
    /// Whether an operator has deleted the record that the database no longer has.
    is_deleted: bool,
    deletions: u8,
    losses: u8,
    back: u8,
    forward: u8,
}

/// The tier that all share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Far {
    entry: Option<Entry>,
    /// Drawn anew when it is lost or replaced; equal to no earlier one.
    epoch: Option<u8>,
    next_epoch: u8,
}

/// A stored answer. The end of its lifetime is relative to now, by the cache's clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Entry {
    answer: Answer,
    ends: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Reader {
    calls: u8,
    stage: Stage,
    near: Option<Entry>,
    /// The token of its claim.
    token: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    /// The cache had nothing; the database comes next.
    Missed(Ticket),
    /// The database has answered; the entry is stored in the background.
    Promotes(Ticket, Entry),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Ticket {
    epoch: u8,
    /// When it was issued, relative to now.
    issued: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operator {
    Idle,
    /// The record is deleted, and the cache does not know it yet.
    Deleted,
    /// The cache was told first, which is a mistake.
    Told,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Reads the cache, and answers from it if it can.
    Ask(u8),
    /// Claims in the database.
    Claim(u8),
    Complete(u8),
    /// Stores the database's answer in the cache.
    Store(u8),
    /// The promotion never comes.
    Drop(u8),
    Delete,
    Invalidate,
    LoseCache,
    ClockBack,
    ClockForward,
    Tick,
}

/// The lease and how long a record is kept after it, in ticks: few, as no lease matters here.
const LEASE: i64 = 1;

impl Machine for Hybrid {
    type State = World;
    type Action = Action;

    fn start(&self) -> World {
        let reader = Reader {
            calls: self.scope.calls,
            stage: Stage::Idle,
            near: None,
            token: None,
        };
        World {
            database: KeyState::new(),
            far: Far {
                entry: None,
                epoch: None,
                next_epoch: 0,
            },
            readers: vec![reader; usize::from(self.scope.readers)],
            operator: Operator::Idle,
            is_deleted: false,
            deletions: self.scope.deletions,
            losses: self.scope.losses,
            back: self.scope.back,
            forward: self.scope.forward,
        }
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (number, reader) in (0..).zip(&world.readers) {
            match reader.stage {
                Stage::Idle if reader.calls > 0 => actions.push(Action::Ask(number)),
                Stage::Idle => {}
                Stage::Missed(_) => actions.push(Action::Claim(number)),
                Stage::Promotes(..) => {
                    actions.extend([Action::Store(number), Action::Drop(number)]);
                }
            }
            if reader.token.is_some() {
                actions.push(Action::Complete(number));
            }
        }
        let is_completed = matches!(&world.database.body, Body::Sealed(_));
        match world.operator {
            Operator::Idle if self.is(Mutant::InvalidateBeforeDelete) => {
                if is_completed && world.deletions > 0 {
                    actions.push(Action::Invalidate);
                }
            }
            Operator::Idle if is_completed && world.deletions > 0 => actions.push(Action::Delete),
            Operator::Idle => {}
            Operator::Deleted => actions.push(Action::Invalidate),
            Operator::Told => actions.push(Action::Delete),
        }
        if world.losses > 0 {
            actions.push(Action::LoseCache);
        }
        if world.back > 0 && world.far.entry.is_some() {
            actions.push(Action::ClockBack);
        }
        if world.forward > 0 && world.far.entry.is_some() {
            actions.push(Action::ClockForward);
        }
        actions.push(Action::Tick);
    }

    fn take(&self, world: &mut World, action: &Action) -> Result<Kind, Wrong> {
        match *action {
            Action::Ask(number) => return self.ask(world, number),
            Action::Claim(number) => return self.claim(world, number),
            Action::Complete(number) => return Ok(self.complete(world, number)),
            Action::Store(number) => return Ok(self.store(world, number)),
            Action::Drop(number) => world.reader(number).stage = Stage::Idle,
            Action::Delete => self.delete(world),
            Action::Invalidate => self.invalidate(world),
            Action::LoseCache => {
                world.losses -= 1;
                world.far.entry = None;
                world.far.epoch = match self.is(Mutant::EpochKeptByLostCache) {
                    // It starts with the same one again.
                    true => Some(0),
                    false => None,
                };
            }
            Action::ClockBack => {
                world.back -= 1;
                world.step_clock(TICK);
            }
            Action::ClockForward => {
                world.forward -= 1;
                world.step_clock(-TICK);
            }
            Action::Tick => self.tick(world),
        }
        Ok((action.name(), ""))
    }
}

impl Action {
    const fn name(&self) -> &'static str {
        match self {
            Self::Ask(_) => "ask",
            Self::Claim(_) => "claim",
            Self::Complete(_) => "complete",
            Self::Store(_) => "store",
            Self::Drop(_) => "drop",
            Self::Delete => "delete",
            Self::Invalidate => "invalidate",
            Self::LoseCache => "lose the cache",
            Self::ClockBack => "clock back",
            Self::ClockForward => "clock forward",
            Self::Tick => "tick",
        }
    }
}

impl Hybrid {
    /// `Front::ask`: a hit is the answer.
    fn ask(&self, world: &mut World, number: u8) -> Result<Kind, Wrong> {
        world.reader(number).calls -= 1;
        let near = world.reader(number).near.clone();
        if let Some(entry) = near.filter(|entry| entry.ends > 0) {
            if self.scope.judges_near {
                self.judge(world, number, &entry.answer)?;
            }
            return Ok(("near hit", answer_name(&entry.answer)));
        }
        let epoch = world.far.ticket_epoch();
        let ticket = Ticket { epoch, issued: 0 };
        match world.far.entry.clone() {
            Some(entry) if entry.ends > 0 => {
                self.judge(world, number, &entry.answer)?;
                let near = self.scope.near * TICK;
                if near > 0 {
                    world.reader(number).near = Some(Entry {
                        ends: entry.ends.min(near),
                        ..entry.clone()
                    });
                }
                Ok(("far hit", answer_name(&entry.answer)))
            }
            _ => {
                world.reader(number).stage = Stage::Missed(ticket);
                Ok(("ask", "miss"))
            }
        }
    }

    /// A replay has to be what the database answers now, or, until an invalidation has been
    /// acknowledged, what it answered before the deletion.
    fn judge(&self, world: &World, number: u8, given: &Answer) -> Result<(), Wrong> {
        if world.operator == Operator::Deleted {
            return Ok(());
        }
        let successors = step(&world.database, &claim_call(number), Span::at(0));
        let explains = |(state, pattern)| unify(state, &pattern, given).is_some();
        if successors.into_iter().any(explains) {
            return Ok(());
        }
        let record = match (given, world.is_deleted) {
            (Answer::InFlight { .. }, _) => "a claim that is no more",
            (_, true) => "a deleted record",
            (_, false) => "an expired record",
        };
        Err(Wrong(format!("the cache replays {record}")))
    }

    /// The database's claim, after a miss.
    fn claim(&self, world: &mut World, number: u8) -> Result<Kind, Wrong> {
        let Stage::Missed(ticket) = world.reader(number).stage else {
            return Err(Wrong("a claim without a miss".to_owned()));
        };
        let (answer, expires) = world.in_database(&claim_call(number));
        let ticket = match self.is(Mutant::TicketAfterRead) {
            // Taken when it is used: see `store`.
            true => Ticket {
                epoch: NO_EPOCH,
                issued: 0,
            },
            false => ticket,
        };
        let is_kept = match &answer {
            Answer::Completed { .. } => true,
            Answer::InFlight { .. } => self.is(Mutant::InFlightPromoted),
            Answer::Acquired { tok, .. } => {
                world.reader(number).token = Some(*tok);
                false
            }
            _ => false,
        };
        // A lifetime, until the entry is stored.
        let ends = expires;
        let name = answer_name(&answer);
        world.reader(number).stage = match is_kept {
            true => Stage::Promotes(ticket, Entry { answer, ends }),
            false => Stage::Idle,
        };
        Ok(("claim", name))
    }

    fn complete(&self, world: &mut World, number: u8) -> Kind {
        let token = world.reader(number).token.take().unwrap_or_default();
        let complete = Call {
            op: Op::Complete {
                seal: u64::from(number) + 1,
                ret: self.scope.retention * TICK,
            },
            attempt: u64::from(number) + 1,
            token,
        };
        let (answer, _) = world.in_database(&complete);
        ("complete", answer_name(&answer))
    }

    /// `Front::promote` and `Cache::store`: compares the ticket's epoch, and counts the lifetime
    /// from the ticket's instant.
    fn store(&self, world: &mut World, number: u8) -> Kind {
        let stage = std::mem::replace(&mut world.reader(number).stage, Stage::Idle);
        let Stage::Promotes(mut ticket, entry) = stage else {
            return ("store", "nothing");
        };
        if ticket.epoch == NO_EPOCH {
            ticket.epoch = world.far.ticket_epoch();
        }
        if world.far.epoch != Some(ticket.epoch) {
            return ("store", "refused");
        }
        let from = match self.is(Mutant::LifetimeFromStore) {
            true => 0,
            false => ticket.issued,
        };
        let ends = from + entry.ends;
        let near = self.scope.near * TICK;
        if near > 0 {
            world.reader(number).near = Some(Entry {
                answer: entry.answer.clone(),
                ends: from + entry.ends.min(near),
            });
        }
        world.far.entry = (ends > 0).then_some(Entry {
            answer: entry.answer,
            ends,
        });
        ("store", "stored")
    }

    fn delete(&self, world: &mut World) {
        world.database.body = Body::Absent;
        world.is_deleted = true;
        world.deletions -= 1;
        world.operator = match world.operator {
            Operator::Told => Operator::Idle,
            Operator::Idle | Operator::Deleted => Operator::Deleted,
        };
    }

    fn invalidate(&self, world: &mut World) {
        world.far.entry = None;
        if !self.is(Mutant::InvalidateKeepsEpoch) {
            world.far.epoch = None;
            world.far.ticket_epoch();
        }
        world.operator = match world.operator {
            Operator::Idle => Operator::Told,
            Operator::Deleted | Operator::Told => Operator::Idle,
        };
    }

    fn tick(&self, world: &mut World) {
        let had_record = world.database.body != Body::Absent;
        match &mut world.database.body {
            Body::Absent | Body::Tomb(_) => {}
            Body::Fly(fly) => fly.lease = fly.lease.after(-TICK),
            Body::Sealed(sealed) => sealed.expires = sealed.expires.after(-TICK),
        }
        world.settle();
        if had_record && world.database.body == Body::Absent {
            world.is_deleted = false;
        }
        world.far.shift(-TICK);
        for reader in &mut world.readers {
            if let Stage::Missed(ticket) | Stage::Promotes(ticket, _) = &mut reader.stage {
                // An older ticket allows no lifetime that has not ended.
                let oldest = -(self.scope.retention + 1) * TICK;
                ticket.issued = (ticket.issued - TICK).max(oldest);
            }
            if let Some(near) = &mut reader.near {
                near.ends -= TICK;
            }
            reader.near.take_if(|near| near.ends <= 0);
        }
    }
}

/// A ticket that is taken only when it is used.
const NO_EPOCH: u8 = u8::MAX;

impl Far {
    /// Returns the epoch of a ticket, and draws one where there is none.
    fn ticket_epoch(&mut self) -> u8 {
        let next = self.next_epoch;
        let epoch = *self.epoch.get_or_insert(next);
        if epoch == next {
            self.next_epoch += 1;
        }
        epoch
    }

    fn shift(&mut self, by: i64) {
        if let Some(entry) = &mut self.entry {
            entry.ends += by;
        }
        self.entry.take_if(|entry| entry.ends <= -TICK);
    }
}

impl World {
    fn reader(&mut self, number: u8) -> &mut Reader {
        &mut self.readers[usize::from(number)]
    }

    /// Sets the cache's clock, by which entries end and tickets are issued.
    fn step_clock(&mut self, by: i64) {
        self.far.shift(by);
        for reader in &mut self.readers {
            if let Stage::Missed(ticket) | Stage::Promotes(ticket, _) = &mut reader.stage {
                ticket.issued += by;
            }
        }
    }

    /// Takes the call in the database. Returns its answer, and how long the record stays.
    fn in_database(&mut self, call: &Call) -> (Answer, i64) {
        // Each state has one successor here.
        let successor = step(&self.database, call, Span::at(0)).pop();
        let Some((state, pattern)) = successor else {
            return (Answer::Unknown, 0);
        };
        let answer = pattern.lowest();
        self.database = unify(state.clone(), &pattern, &answer).unwrap_or(state);
        self.settle();
        if let Body::Sealed(sealed) = &mut self.database.body {
            sealed.expires = Span::at(sealed.expires.lo);
        }
        let expires = match &self.database.body {
            Body::Sealed(sealed) => sealed.expires.lo,
            Body::Fly(fly) => fly.lease.lo + fly.kept,
            Body::Absent | Body::Tomb(_) => 0,
        };
        (answer, expires)
    }

    /// An expired record is as none, which keeps the states few.
    fn settle(&mut self) {
        let expires = match &self.database.body {
            Body::Absent | Body::Tomb(_) => None,
            Body::Fly(fly) => Some(fly.lease.hi + fly.kept),
            Body::Sealed(sealed) => Some(sealed.expires.hi),
        };
        if expires.is_some_and(|expires| expires <= 0) {
            self.database.body = Body::Absent;
        }
        self.database.clock = 0;
    }
}

fn claim_call(number: u8) -> Call {
    Call {
        op: Op::Claim {
            fp: 1,
            lease: LEASE * TICK,
            ret: LEASE * TICK,
            takeover: true,
            retry: false,
        },
        attempt: u64::from(number) + 1,
        token: 0,
    }
}

/// Returns what an answer is called.
const fn answer_name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Acquired { .. } => "acquired",
        Answer::Checkpoint { .. } => "checkpoint",
        Answer::InFlight { .. } => "in flight",
        Answer::Completed { .. } => "completed",
        Answer::Failed { .. } => "failed",
        Answer::Conflict { .. } => "conflict",
        Answer::Nothing => "nothing",
        Answer::Done => "done",
        Answer::Lost => "lost",
        Answer::AlreadySealed => "already sealed",
        Answer::NotDone => "not done",
        Answer::Unknown => "unknown",
    }
}
