//! [`Protocol`]: callers of one key, a network between them and the store, and time.
//!
//! A call that is sent takes effect at any later time, or never: that is a lost request. A caller
//! may give up waiting: that is a lost answer, and what it sent may still take effect, late. An
//! answer is never under way: a caller that gets one late is a caller that acts on it late, and any
//! caller may wait before its next step.
//!
//! With `statements`, a call takes several steps at the store, as its statements do in
//! `idem-postgres`, and others take theirs in between.

use idem_core::backend::decision::{ClaimDecision, RecordState, StepDecision};

use super::Mutant;
use super::beside::{Beside, op_name};
use super::explore::{Kind, Machine, Wrong};
use super::row::{Asker, Rows, Step, Stored, Times};
use crate::spec::{Answer, Call};

/// What a configuration allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    pub(super) askers: &'static [Asker],
    pub(super) times: Times,
    /// How many calls each sends.
    pub(super) sends: u8,
    /// How often a caller gives up waiting.
    pub(super) gives: u8,
    /// How often a caller is killed, and forgets what it holds.
    pub(super) crashes: u8,
    /// How often a call arrives twice.
    pub(super) twice: u8,
    pub(super) purges: bool,
    pub(super) sweeps: bool,
    /// Whether a call takes its statements one by one.
    pub(super) statements: bool,
}

#[derive(Debug)]
pub(super) struct Protocol {
    scope: Scope,
    rows: Rows,
}

impl Protocol {
    pub(super) fn new(scope: Scope, mutant: Option<Mutant>) -> Self {
        Self {
            rows: Rows::new(scope.askers, scope.times, mutant),
            scope,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    stored: Stored,
    beside: Beside,
    callers: Vec<Caller>,
    /// Sorted, as the order in which they were sent does not matter.
    network: Vec<Message>,
    gives: u8,
    crashes: u8,
    twice: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Caller {
    sends: u8,
    waits: bool,
    /// The token of its claim, as it knows.
    token: Option<i64>,
}

/// A call that is under way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Message {
    from: u8,
    ask: Ask,
    /// Whether its caller waits for the answer.
    is_awaited: bool,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Ask {
    Claim,
    Step(Step, i64),
}

/// The next statement of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    /// Everything at once, or the first statement.
    Start,
    /// A plain read, after an insert that has met a row.
    Lookup,
    /// The read that the deciding statement begins with.
    Held,
    /// The write of that statement, whose condition is judged on the locked row.
    Upsert,
    /// The guarded update that fails the stale record of this token.
    Abandon(i64),
    /// The read after a step that has changed nothing.
    Owned,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Send(u8, Option<Step>),
    Apply(usize),
    Twice(usize),
    GiveUp(u8),
    Crash(u8),
    Tick,
    Purge,
    Sweep,
}

impl Machine for Protocol {
    type State = World;
    type Action = Action;

    fn start(&self) -> World {
        let caller = Caller {
            sends: self.scope.sends,
            waits: false,
            token: None,
        };
        World {
            stored: Stored::new(),
            beside: Beside::new(),
            callers: vec![caller; self.scope.askers.len()],
            network: Vec::new(),
            gives: self.scope.gives,
            crashes: self.scope.crashes,
            twice: self.scope.twice,
        }
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for ((from, caller), asker) in (0..).zip(&world.callers).zip(self.scope.askers) {
            if !caller.waits && caller.sends > 0 {
                actions.push(Action::Send(from, None));
                if caller.token.is_some() {
                    let steps = asker.steps.iter();
                    actions.extend(steps.map(|step| Action::Send(from, Some(*step))));
                }
            }
            if caller.waits && world.gives > 0 {
                actions.push(Action::GiveUp(from));
            }
            if (caller.waits || caller.token.is_some()) && world.crashes > 0 {
                actions.push(Action::Crash(from));
            }
        }
        for (at, message) in world.network.iter().enumerate() {
            if at > 0 && world.network[at - 1] == *message {
                continue;
            }
            actions.push(Action::Apply(at));
            if world.twice > 0 && message.stage == Stage::Start {
                actions.push(Action::Twice(at));
            }
        }
        if let Some(row) = &world.stored.row {
            // Nothing changes with time but a record's leases and retention.
            if row.state != RecordState::Released && row.expires > 0 {
                actions.push(Action::Tick);
            }
            if self.scope.purges {
                actions.push(Action::Purge);
            }
            if self.scope.sweeps {
                actions.push(Action::Sweep);
            }
        }
    }

    fn take(&self, world: &mut World, action: &Action) -> Result<Kind, Wrong> {
        let kind = self.taken(world, action)?;
        world.network.sort_unstable();
        world.rank_tokens();
        Ok(kind)
    }
}

impl Protocol {
    fn taken(&self, world: &mut World, action: &Action) -> Result<Kind, Wrong> {
        Ok(match *action {
            Action::Send(from, step) => {
                let caller = &mut world.callers[usize::from(from)];
                caller.sends -= 1;
                caller.waits = true;
                let ask = match (step, caller.token) {
                    (Some(step), Some(token)) => Ask::Step(step, token),
                    _ => Ask::Claim,
                };
                world.network.push(Message {
                    from,
                    ask,
                    is_awaited: true,
                    stage: Stage::Start,
                });
                ("send", "")
            }
            Action::GiveUp(from) => {
                world.gives -= 1;
                world.abandon_calls(from);
                ("give up", "")
            }
            Action::Crash(from) => {
                world.crashes -= 1;
                world.abandon_calls(from);
                world.callers[usize::from(from)].token = None;
                ("crash", "")
            }
            Action::Twice(at) => {
                world.twice -= 1;
                let mut again = world.network[at].clone();
                again.is_awaited = false;
                world.network.push(again);
                ("arrive twice", "")
            }
            Action::Tick => {
                world.stored.tick();
                world.beside.tick();
                self.observe(world)?;
                ("tick", "")
            }
            Action::Purge => {
                let has_purged = self.rows.purge(&mut world.stored);
                self.observe(world)?;
                ("purge", if has_purged { "deleted" } else { "left" })
            }
            Action::Sweep => {
                let has_failed = self.rows.sweep(&mut world.stored);
                world.beside.sweep(0, has_failed)?;
                self.observe(world)?;
                ("sweep", if has_failed { "failed" } else { "left" })
            }
            Action::Apply(at) => {
                let message = world.network.remove(at);
                return self.apply(world, message);
            }
        })
    }

    fn observe(&self, world: &mut World) -> Result<(), Wrong> {
        let (answer, expires) = Rows::get(&world.stored);
        world.beside.observe(0, &answer, expires)
    }

    /// Takes the call's next statement, or all of it.
    fn apply(&self, world: &mut World, mut message: Message) -> Result<Kind, Wrong> {
        let from = message.from;
        let next = match (message.ask, self.scope.statements) {
            (Ask::Claim, false) => {
                let decision = self.rows.decide(&world.stored, from);
                Next::Answer(self.rows.decided(&mut world.stored, from, decision))
            }
            (Ask::Step(step, token), false) => {
                let decision = self.rows.decide_step(&world.stored, from, step, token);
                Next::Answer(self.rows.stepped(&mut world.stored, step, decision))
            }
            (Ask::Claim, true) => self.claim_statement(world, from, message.stage),
            (Ask::Step(step, token), true) => {
                self.step_statement(world, from, step, token, message.stage)
            }
        };
        match next {
            Next::Stage(stage) => {
                let name = stage.name(message.stage);
                message.stage = stage;
                world.network.push(message);
                Ok(("statement", name))
            }
            Next::Answer(answer) => {
                let call = match message.ask {
                    Ask::Claim => self.rows.claim_call(from),
                    Ask::Step(step, token) => self.rows.step_call(from, step, token),
                };
                self.answered(world, &message, &call, &answer)
            }
        }
    }

    fn answered(
        &self,
        world: &mut World,
        message: &Message,
        call: &Call,
        answer: &Answer,
    ) -> Result<Kind, Wrong> {
        let name = world.beside.take(call, 0, answer)?;
        self.observe(world)?;
        if !message.is_awaited {
            return Ok(("unheard", name));
        }
        let caller = &mut world.callers[usize::from(message.from)];
        caller.waits = false;
        if let Answer::Acquired { tok, .. } = answer {
            caller.token = Some(*tok);
        }
        Ok((op_name(&call.op), name))
    }

    /// `Operations::claim_in_steps` of `idem-postgres`, statement by statement.
    fn claim_statement(&self, world: &mut World, from: u8, stage: Stage) -> Next {
        let stored = &mut world.stored;
        let decision = self.rows.decide(stored, from);
        let is_acquirable = !matches!(decision, ClaimDecision::Report | ClaimDecision::Abandon);
        match stage {
            Stage::Start | Stage::Owned => match stored.row {
                None => Next::Answer(self.rows.decided(stored, from, ClaimDecision::Fresh)),
                Some(_) => Next::Stage(Stage::Lookup),
            },
            Stage::Lookup if decision == ClaimDecision::Report => {
                Next::Answer(self.rows.decided(stored, from, decision))
            }
            Stage::Lookup => Next::Stage(Stage::Held),
            Stage::Held => match (decision, &stored.row) {
                (ClaimDecision::Report, _) => {
                    Next::Answer(self.rows.decided(stored, from, decision))
                }
                (ClaimDecision::Abandon, Some(row)) => Next::Stage(Stage::Abandon(row.token)),
                _ => Next::Stage(Stage::Upsert),
            },
            Stage::Upsert if is_acquirable => {
                Next::Answer(self.rows.decided(stored, from, decision))
            }
            // It relies on what it has read before.
            Stage::Upsert if self.rows.is(Mutant::ReadThenWrite) => {
                Next::Answer(self.rows.decided(stored, from, ClaimDecision::TakeOver))
            }
            // Nothing came back: the record has changed since the statement's snapshot.
            Stage::Upsert => Next::Stage(Stage::Held),
            Stage::Abandon(token) => {
                let is_guarded = !self.rows.is(Mutant::AbandonUnguarded);
                let row = stored.row.as_ref();
                let is_same = row.is_some_and(|row| row.token == token && row.is_stale());
                match is_same || !is_guarded {
                    true => Next::Answer(self.rows.decided(stored, from, ClaimDecision::Abandon)),
                    false => Next::Stage(Stage::Held),
                }
            }
        }
    }

    /// A guarded update, and a read where it has changed nothing.
    fn step_statement(
        &self,
        world: &mut World,
        from: u8,
        step: Step,
        token: i64,
        stage: Stage,
    ) -> Next {
        let stored = &mut world.stored;
        let decision = self.rows.decide_step(stored, from, step, token);
        match (stage, decision) {
            (Stage::Owned, StepDecision::Apply) => Next::Answer(Answer::Lost),
            (Stage::Owned, StepDecision::Lost)
                if self.rows.is(Mutant::OwnedReadIgnoresToken)
                    && stored.row.as_ref().is_some_and(|row| row.result != 0) =>
            {
                Next::Answer(Answer::AlreadySealed)
            }
            (Stage::Owned, _) | (Stage::Start, StepDecision::Apply) => {
                Next::Answer(self.rows.stepped(stored, step, decision))
            }
            // A read finds what it finds at once.
            (_, _) if step == Step::Load => Next::Answer(Answer::Lost),
            (_, _) => Next::Stage(Stage::Owned),
        }
    }
}

/// What comes after a statement.
enum Next {
    Stage(Stage),
    Answer(Answer),
}

impl Stage {
    /// Returns what has led from the stage before to this one.
    const fn name(self, before: Self) -> &'static str {
        match self {
            Self::Start => "first",
            Self::Lookup => "the insert met a row",
            Self::Held if matches!(before, Self::Lookup) => "the read found no loser",
            Self::Held => "the record has changed",
            Self::Upsert => "the record may be acquired",
            Self::Abandon(_) => "the record has to be failed",
            Self::Owned => "the update changed nothing",
        }
    }
}

impl World {
    /// The caller waits for nothing any more.
    fn abandon_calls(&mut self, from: u8) {
        self.callers[usize::from(from)].waits = false;
        let mine = self.network.iter_mut().filter(|it| it.from == from);
        mine.for_each(|message| message.is_awaited = false);
    }

    /// Numbers the tokens by their order, as nothing else about them matters.
    fn rank_tokens(&mut self) {
        let held = self.callers.iter().filter_map(|caller| caller.token);
        let asked = self.network.iter().flat_map(|message| {
            let ask = match message.ask {
                Ask::Step(_, token) => Some(token),
                Ask::Claim => None,
            };
            let stage = match message.stage {
                Stage::Abandon(token) => Some(token),
                _ => None,
            };
            [ask, stage].into_iter().flatten()
        });
        let row = self.stored.row.as_ref().map(|row| row.token);
        let mut tokens: Vec<i64> = held
            .chain(asked)
            .chain(row)
            .chain(self.beside.token())
            .chain([0, self.stored.last, self.beside.0.floor])
            .collect();
        tokens.sort_unstable();
        tokens.dedup();
        let rank = |token: i64| tokens.partition_point(|other| *other < token) as i64;
        for caller in &mut self.callers {
            caller.token = caller.token.map(rank);
        }
        for message in &mut self.network {
            if let Ask::Step(_, token) = &mut message.ask {
                *token = rank(*token);
            }
            if let Stage::Abandon(token) = &mut message.stage {
                *token = rank(*token);
            }
        }
        if let Some(row) = &mut self.stored.row {
            row.token = rank(row.token);
        }
        self.stored.last = rank(self.stored.last);
        self.beside.rename(rank);
    }
}
