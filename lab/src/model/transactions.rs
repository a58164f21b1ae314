//! [`Transactions`]: business rows and the record of their key, in one transaction.
//!
//! A worker claims inside the transaction, or before it. A connection is lost before the commit,
//! or while it is under way: then the server commits later, or not. After each loss the worker
//! repeats the whole, with the same key and attempt.

use idem_core::backend::decision::{RecordState, StepDecision};

use super::Mutant;
use super::beside::{Beside, TICK, answer_name, op_name};
use super::explore::{Kind, Machine, Wrong};
use super::row::{Asker, Rows, Step, Stored, Times};
use crate::spec::{Answer, Body, Call};

/// What a configuration allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    /// How each worker claims.
    pub(super) workers: &'static [Claims],
    /// The same number of askers.
    pub(super) askers: &'static [Asker],
    pub(super) times: Times,
    /// How often each worker begins.
    pub(super) tries: u8,
    /// How often a connection is lost.
    pub(super) losses: u8,
    /// Whether a transaction reads from its snapshot: REPEATABLE READ.
    pub(super) repeatable: bool,
    /// Whether a worker that has claimed outside repeats its transaction without another claim.
    pub(super) keeps_claim: bool,
}

/// Where a worker claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claims {
    /// In the transaction.
    Inside,
    /// Before it, in a statement that commits by itself.
    Outside,
}

#[derive(Debug)]
pub(super) struct Transactions {
    scope: Scope,
    rows: Rows,
}

impl Transactions {
    pub(super) fn new(scope: Scope, mutant: Option<Mutant>) -> Self {
        Self {
            rows: Rows::new(scope.askers, scope.times, mutant),
            scope,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    committed: Record,
    /// How many business rows the key has since it was fresh.
    business: u8,
    workers: Vec<Worker>,
    /// Transactions whose connection was lost while their commit was under way.
    orphans: Vec<Open>,
    losses: u8,
}

/// The record, and what the specification says of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Record {
    stored: Stored,
    beside: Beside,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Worker {
    tries: u8,
    stage: Stage,
    open: Option<Open>,
    /// The token of its claim.
    token: Option<i64>,
    /// It uses another key from now on, which is a mistake.
    has_new_key: bool,
    /// Its statements commit by themselves, which is a mistake.
    is_autocommit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    /// It has claimed outside, and begins next.
    Holds,
    /// It claims in the transaction next.
    Begun,
    /// It writes its business row next.
    Claimed,
    /// It completes next.
    Worked,
    /// It commits next.
    Completed,
    Finished,
}

/// An open transaction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Open {
    /// The record as it has written it; it has the lock then.
    written: Option<Record>,
    business: u8,
    /// Whether the record has changed since its snapshot.
    is_outdated: bool,
    /// The record in its snapshot.
    snapshot: Option<Record>,
    /// When it began, relative to now.
    began: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// Claims outside.
    Claim(usize),
    Begin(usize),
    ClaimIn(usize),
    Work(usize),
    CompleteIn(usize),
    Commit(usize),
    /// The server has committed, and the worker does not know.
    CommitUnanswered(usize),
    /// The connection is lost while the commit is under way.
    CommitUnderWay(usize),
    LoseConnection(usize),
    OrphanCommits(usize),
    OrphanEnds(usize),
    Tick,
}

impl Machine for Transactions {
    type State = World;
    type Action = Action;

    fn start(&self) -> World {
        let worker = Worker {
            tries: self.scope.tries,
            stage: Stage::Idle,
            open: None,
            token: None,
            has_new_key: false,
            is_autocommit: false,
        };
        World {
            committed: Record {
                stored: Stored::new(),
                beside: Beside::new(),
            },
            business: 0,
            workers: vec![worker; self.scope.workers.len()],
            orphans: Vec::new(),
            losses: self.scope.losses,
        }
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        let claims = self.scope.workers.iter().enumerate();
        for ((at, claims), worker) in claims.zip(&world.workers) {
            match worker.stage {
                Stage::Idle if worker.tries == 0 => {}
                Stage::Idle if *claims == Claims::Outside => actions.push(Action::Claim(at)),
                Stage::Idle | Stage::Holds => actions.push(Action::Begin(at)),
                Stage::Begun => actions.push(Action::ClaimIn(at)),
                Stage::Claimed => actions.push(Action::Work(at)),
                Stage::Worked => actions.push(Action::CompleteIn(at)),
                Stage::Completed => {
                    actions.push(Action::Commit(at));
                    if world.losses > 0 {
                        actions.push(Action::CommitUnanswered(at));
                        actions.push(Action::CommitUnderWay(at));
                    }
                }
                Stage::Finished => {}
            }
            if worker.open.is_some() && world.losses > 0 {
                actions.push(Action::LoseConnection(at));
            }
        }
        for at in 0..world.orphans.len() {
            actions.extend([Action::OrphanCommits(at), Action::OrphanEnds(at)]);
        }
        actions.push(Action::Tick);
    }

    fn take(&self, world: &mut World, action: &Action) -> Result<Kind, Wrong> {
        let kind = match *action {
            Action::Claim(at) => self.claim(world, at)?,
            Action::Begin(at) => self.begin(world, at),
            Action::ClaimIn(at) => self.claim_in(world, at)?,
            Action::Work(at) => self.work(world, at),
            Action::CompleteIn(at) => self.complete_in(world, at)?,
            Action::Commit(at) => {
                self.commit(world, at);
                world.workers[at].stage = Stage::Finished;
                ("commit", "")
            }
            Action::CommitUnanswered(at) => {
                world.losses -= 1;
                self.commit(world, at);
                self.repeat(world, at);
                ("commit", "unanswered")
            }
            Action::CommitUnderWay(at) => {
                world.losses -= 1;
                let open = world.workers[at].open.take();
                world.orphans.extend(open);
                self.repeat(world, at);
                ("commit", "under way")
            }
            Action::LoseConnection(at) => {
                world.losses -= 1;
                world.workers[at].open = None;
                match self.rows.is(Mutant::AutocommitFallback) {
                    true => world.workers[at].is_autocommit = true,
                    false => self.repeat(world, at),
                }
                ("lose the connection", "")
            }
            Action::OrphanCommits(at) => {
                let open = world.orphans.remove(at);
                world.install(open);
                ("orphan", "commits")
            }
            Action::OrphanEnds(at) => {
                world.orphans.remove(at);
                ("orphan", "ends")
            }
            Action::Tick => {
                world.tick()?;
                ("tick", "")
            }
        };
        world.check()?;
        Ok(kind)
    }
}

impl Transactions {
    /// A claim that commits by itself.
    fn claim(&self, world: &mut World, at: usize) -> Result<Kind, Wrong> {
        let mut record = world.committed.clone();
        let answer = self.claimed(&mut record, at)?;
        let is_write = is_write(&answer);
        if is_write && world.is_locked(None) {
            return Ok(("claim", "contention"));
        }
        if is_write {
            world.install(Open::of(record));
        }
        let worker = &mut world.workers[at];
        worker.stage = match &answer {
            Answer::Acquired { tok, .. } => {
                worker.token = Some(*tok);
                Stage::Holds
            }
            Answer::Completed { .. } => Stage::Finished,
            _ => {
                worker.tries -= 1;
                Stage::Idle
            }
        };
        Ok(("claim", answer_name(&answer)))
    }

    fn claimed(&self, record: &mut Record, at: usize) -> Result<Answer, Wrong> {
        let from = at as u8;
        let decision = self.rows.decide(&record.stored, from);
        let answer = self.rows.decided(&mut record.stored, from, decision);
        record.take(&self.rows.claim_call(from), &answer)?;
        Ok(answer)
    }

    fn begin(&self, world: &mut World, at: usize) -> Kind {
        let snapshot = world.committed.clone();
        let worker = &mut world.workers[at];
        worker.stage = match worker.stage {
            Stage::Holds => Stage::Claimed,
            _ => Stage::Begun,
        };
        worker.open = Some(Open {
            snapshot: self.rows.is(Mutant::SnapshotTrusted).then_some(snapshot),
            ..Open::new()
        });
        ("begin", "")
    }

    /// `claim_in`: as a claim, with the lock until the transaction ends.
    fn claim_in(&self, world: &mut World, at: usize) -> Result<Kind, Wrong> {
        let what = "claim in";
        if world.workers[at].has_new_key || world.workers[at].is_autocommit {
            world.workers[at].stage = Stage::Claimed;
            return Ok((what, "elsewhere"));
        }
        let open = world.workers[at].open.clone().unwrap_or_else(Open::new);
        let is_changed = self.scope.repeatable && open.is_outdated;
        let trusted = open.snapshot.filter(|_| is_changed);
        if is_changed && trusted.is_none() {
            self.begin_again(world, at);
            return Ok((what, "serialization failure"));
        }
        let mut record = world.committed.clone();
        if let Some(snapshot) = trusted {
            // It writes what it decided from the snapshot.
            record.stored.row = snapshot.stored.row;
        }
        let answer = match self.rows.is(Mutant::ClockOfTransaction) {
            true => self.claimed_at(&mut record, at, open.began)?,
            false => self.claimed(&mut record, at)?,
        };
        if is_write(&answer) && world.is_locked(Some(at)) {
            self.begin_again(world, at);
            return Ok((what, "contention"));
        }
        let worker = &mut world.workers[at];
        match &answer {
            Answer::Acquired { tok, .. } => {
                worker.token = Some(*tok);
                worker.stage = Stage::Claimed;
                if let Some(open) = &mut worker.open {
                    open.written = Some(record);
                }
            }
            Answer::Completed { .. } => {
                (worker.stage, worker.open) = (Stage::Finished, None);
            }
            _ => self.repeat(world, at),
        }
        Ok((what, answer_name(&answer)))
    }

    /// A claim whose lease begins with its transaction.
    fn claimed_at(&self, record: &mut Record, at: usize, began: i64) -> Result<Answer, Wrong> {
        let from = at as u8;
        let decision = self.rows.decide(&record.stored, from);
        let mut answer = self.rows.decided(&mut record.stored, from, decision);
        if let (Answer::Acquired { lease_end, .. }, Some(row)) =
            (&mut answer, &mut record.stored.row)
        {
            *lease_end += began;
            row.lease += began;
            row.expires += began;
        }
        record.take(&self.rows.claim_call(from), &answer)?;
        Ok(answer)
    }

    fn work(&self, world: &mut World, at: usize) -> Kind {
        let worker = &mut world.workers[at];
        worker.stage = Stage::Worked;
        match &mut worker.open {
            Some(open) => open.business += 1,
            None => world.business += 1,
        }
        ("work", "")
    }

    /// `complete_in`: the record and the business row commit together.
    fn complete_in(&self, world: &mut World, at: usize) -> Result<Kind, Wrong> {
        let what = "complete in";
        let token = world.workers[at].token.unwrap_or_default();
        if world.workers[at].has_new_key {
            world.workers[at].stage = Stage::Completed;
            return Ok((what, "elsewhere"));
        }
        let open = world.workers[at].open.clone().unwrap_or_else(Open::new);
        if self.scope.repeatable && open.is_outdated && open.written.is_none() {
            self.begin_again(world, at);
            return Ok((what, "serialization failure"));
        }
        let mut record = open.written.unwrap_or_else(|| world.committed.clone());
        let (from, step) = (at as u8, Step::Complete(1));
        let decision = self.rows.decide_step(&record.stored, from, step, token);
        let answer = self.rows.stepped(&mut record.stored, step, decision);
        let call = self.rows.step_call(from, step, token);
        record.take(&call, &answer)?;
        if decision == StepDecision::Apply && world.is_locked(Some(at)) {
            self.begin_again(world, at);
            return Ok((what, "contention"));
        }
        if answer != Answer::Done {
            // It rolls back: its business row is not written.
            self.repeat(world, at);
            return Ok((what, answer_name(&answer)));
        }
        world.workers[at].stage = Stage::Completed;
        if self.rows.is(Mutant::CompletionOutside) {
            world.install(Open::of(record));
        } else if let Some(open) = &mut world.workers[at].open {
            open.written = Some(record);
        }
        Ok((op_name(&call.op), answer_name(&answer)))
    }

    fn commit(&self, world: &mut World, at: usize) {
        if let Some(open) = world.workers[at].open.take() {
            world.install(open);
        }
    }

    /// The worker rolls back, if it can, and repeats the whole.
    fn repeat(&self, world: &mut World, at: usize) {
        let worker = &mut world.workers[at];
        worker.tries -= 1;
        worker.open = None;
        let keeps = self.scope.keeps_claim && self.scope.workers[at] == Claims::Outside;
        if keeps && worker.tries > 0 {
            worker.stage = Stage::Holds;
            return;
        }
        (worker.stage, worker.token) = (Stage::Idle, None);
        worker.has_new_key = self.rows.is(Mutant::RetryWithNewKey);
    }

    /// The server has refused, and the worker rolls back; that costs no try.
    fn begin_again(&self, world: &mut World, at: usize) {
        let worker = &mut world.workers[at];
        worker.open = None;
        worker.stage = match self.scope.workers[at] {
            Claims::Outside => Stage::Holds,
            Claims::Inside => Stage::Idle,
        };
    }
}

/// Returns whether a claim with this answer has written the record, and so waits for its lock. No
/// policy here lets a claim fail a record.
const fn is_write(answer: &Answer) -> bool {
    matches!(answer, Answer::Acquired { .. })
}

impl Record {
    /// Compares the answer, and then the record.
    fn take(&mut self, call: &Call, answer: &Answer) -> Result<(), Wrong> {
        self.beside.take(call, 0, answer)?;
        self.observe()
    }

    fn observe(&mut self) -> Result<(), Wrong> {
        let (answer, expires) = Rows::get(&self.stored);
        self.beside.observe(0, &answer, expires)
    }

    fn tick(&mut self) -> Result<(), Wrong> {
        self.stored.tick();
        self.beside.tick();
        self.observe()
    }
}

impl Open {
    const fn new() -> Self {
        Self {
            written: None,
            business: 0,
            is_outdated: false,
            snapshot: None,
            began: 0,
        }
    }

    fn of(record: Record) -> Self {
        Self {
            written: Some(record),
            ..Self::new()
        }
    }

    fn tick(&mut self) -> Result<(), Wrong> {
        // A transaction that began before every lease is as old as it can be.
        self.began = (self.began - TICK).max(-2 * TICK);
        let mut records = self.written.iter_mut().chain(&mut self.snapshot);
        records.try_for_each(Record::tick)
    }
}

impl World {
    /// Returns whether another transaction has written the record, and not ended.
    fn is_locked(&self, by: Option<usize>) -> bool {
        let workers = self.workers.iter().enumerate();
        let others = workers.filter(|(at, _)| Some(*at) != by);
        let open = others.filter_map(|(_, worker)| worker.open.as_ref());
        open.chain(&self.orphans).any(|open| open.written.is_some())
    }

    /// A transaction commits.
    fn install(&mut self, open: Open) {
        self.business += open.business;
        let Some(record) = open.written else {
            return;
        };
        self.committed = record;
        if self.committed.is_over() {
            // It took longer than the retention, so the key is fresh again.
            self.business = 0;
        }
        let workers = self.workers.iter_mut();
        for open in workers.filter_map(|worker| worker.open.as_mut()) {
            open.is_outdated = true;
        }
    }

    fn tick(&mut self) -> Result<(), Wrong> {
        let was_sealed = self.committed.is_sealed();
        self.committed.tick()?;
        if was_sealed && !self.committed.is_sealed() {
            // The key is fresh again.
            self.business = 0;
        }
        let open = self.workers.iter_mut().filter_map(|it| it.open.as_mut());
        for open in open.chain(&mut self.orphans) {
            open.tick()?;
        }
        Ok(())
    }

    /// The business row is there exactly when the record says so.
    fn check(&self) -> Result<(), Wrong> {
        let row = self.committed.stored.row.as_ref();
        let is_done = row.is_some_and(|row| row.state == RecordState::Completed)
            && self.committed.is_sealed();
        let what = match (self.business, is_done) {
            (0, false) | (1, true) => return Ok(()),
            (0, true) => "the work of a completed record is missing",
            (1, false) => "the work of no completed record is there",
            (_, _) => "the work was done twice",
        };
        Err(Wrong(what.to_owned()))
    }
}

impl Record {
    fn is_sealed(&self) -> bool {
        matches!(self.beside.0.body, Body::Sealed(_))
    }

    /// Returns whether it has a result whose retention has ended.
    fn is_over(&self) -> bool {
        let row = self.stored.row.as_ref();
        row.is_some_and(|row| row.state == RecordState::Completed) && !self.is_sealed()
    }
}
