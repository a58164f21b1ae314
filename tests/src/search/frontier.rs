//! The search with a frontier.

use std::collections::HashMap;

use super::{Operation, Verdict, is_hidden, is_open, is_optional};
use crate::spec::{Answer, Body, KeyState, Op, step, unify};

/// What the search may use before it gives up.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// The most pairs of state and applied calls.
    pub configurations: usize,
    /// The most calls that are open at a time, those without an answer included.
    pub open: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            configurations: 20_000,
            open: 48,
        }
    }
}

/// A state of the key, and how it came about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Configuration {
    state: KeyState,
    /// The open calls that it contains, each at the place of its bit.
    applied: u64,
    /// The records before it, the latest first; none where nothing can be lost.
    past: Vec<Before>,
}

/// A record that another has replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Before {
    body: Body,
    /// Whether the call that replaced it had an answer.
    is_answered: bool,
}

/// Configurations, each with the fewest losses that it needs.
type Frontier = HashMap<Configuration, usize>;

/// Adds a configuration unless it is there with as few losses. Returns whether it was added.
fn add(to: &mut Frontier, one: Configuration, losses: usize) -> bool {
    let is_new = to.get(&one).is_none_or(|known| losses < *known);
    if is_new {
        to.insert(one, losses);
    }
    is_new
}

/// Decides whether the specification explains the operations on one key, which begins absent. Among
/// the orders that do, it prefers those with the fewest losses.
#[must_use]
pub fn explain(operations: &[Operation], bounds: Bounds) -> Verdict {
    let is_loss = |operation: &&Operation| {
        matches!(
            operation.call.op,
            Op::Loss | Op::TakeBack | Op::Clock { forgets: true }
        )
    };
    let most = operations.iter().filter(is_loss).count();
    let remembers = operations
        .iter()
        .any(|operation| matches!(operation.call.op, Op::Loss | Op::TakeBack));
    let mut verdict = explain_with(operations, bounds, 0, remembers);
    for losses in 1..=most {
        if !verdict.is_refused() {
            break;
        }
        verdict = explain_with(operations, bounds, losses, remembers);
    }
    verdict
}

/// An invocation or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    // At the same instant invocations come first: the calls may overlap.
    Invoked,
    Returned,
}

fn explain_with(
    operations: &[Operation],
    bounds: Bounds,
    losses: usize,
    remembers: bool,
) -> Verdict {
    let first = Configuration {
        state: KeyState::new(),
        applied: 0,
        past: Vec::new(),
    };
    let mut search = Search {
        operations,
        slots: Vec::new(),
        frontier: Frontier::from([(first, 0)]),
        widest: 1,
        bounds,
        losses,
        remembers,
    };
    for (_, event, at) in events(operations) {
        let result = match event {
            Event::Invoked => search.invoke(at),
            Event::Returned => search.answer(at),
        };
        if let Err(verdict) = result {
            return verdict;
        }
    }
    Verdict::Explained {
        widest: search.widest,
        losses,
    }
}

fn is_open_sweep(operation: &Operation) -> bool {
    operation.call.op == Op::Sweep && is_open(operation)
}

/// Returns the events in real-time order. A call that promises that nothing happened has none, and
/// one without an answer has no return.
fn events(operations: &[Operation]) -> Vec<(i64, Event, usize)> {
    let mut events = Vec::with_capacity(operations.len() * 2);
    for (at, operation) in operations.iter().enumerate() {
        if operation.answer == Answer::NotDone {
            continue;
        }
        events.push((operation.invoked, Event::Invoked, at));
        if let Some(returned) = operation.returned.filter(|_| !is_open(operation)) {
            events.push((returned, Event::Returned, at));
        }
    }
    events.sort_unstable();
    events
}

struct Search<'a> {
    operations: &'a [Operation],
    /// The open calls, each at the place of its bit.
    slots: Vec<Option<usize>>,
    frontier: Frontier,
    widest: usize,
    bounds: Bounds,
    /// The most losses that an explanation may need.
    losses: usize,
    /// Whether states are kept, because they may come back.
    remembers: bool,
}

impl Search<'_> {
    fn invoke(&mut self, at: usize) -> Result<(), Verdict> {
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        if slot >= self.bounds.open.min(64) {
            return Err(Verdict::Undecided {
                why: format!("more than {} calls are open at a time", self.bounds.open),
            });
        }
        self.slots[slot] = Some(at);
        Ok(())
    }

    /// Applies open calls until this one is applied, in every way.
    fn answer(&mut self, at: usize) -> Result<(), Verdict> {
        let slot = self.slots.iter().position(|open| *open == Some(at));
        let Some(slot) = slot else {
            return Err(Verdict::Undecided {
                why: "an answer without a call".to_owned(),
            });
        };
        let bit = 1_u64 << slot;
        let mut seen = Frontier::new();
        let mut next = Frontier::new();
        if is_optional(&self.operations[at]) {
            let unchanged = self
                .frontier
                .iter()
                .filter(|(one, _)| one.applied & bit == 0);
            next.extend(unchanged.map(|(one, losses)| (one.clone(), *losses)));
        }
        let mut todo: Vec<(Configuration, usize)> = self.frontier.clone().into_iter().collect();
        while let Some((mut one, losses)) = todo.pop() {
            if one.applied & bit != 0 {
                one.applied &= !bit;
                add(&mut next, one, losses);
                continue;
            }
            for (open, operation) in self.open(one.applied) {
                for (mut successor, lost) in self.after(&one, losses, operation) {
                    successor.applied |= 1 << open;
                    if add(&mut seen, successor.clone(), lost) {
                        todo.push((successor, lost));
                    }
                }
            }
            if seen.len() + next.len() > self.bounds.configurations {
                return Err(Verdict::Undecided {
                    why: format!("more than {} configurations", self.bounds.configurations),
                });
            }
        }
        if next.is_empty() {
            return Err(self.refused(at));
        }
        self.slots[slot] = None;
        self.widest = self.widest.max(next.len());
        self.frontier = next;
        Ok(())
    }

    /// Returns the open calls that may take effect next, with their slots. Sweeps without an answer
    /// are alike, and what one may do, an earlier one may do, too: of them it is the earliest.
    fn open(&self, applied: u64) -> impl Iterator<Item = (usize, &Operation)> {
        let open = self.slots.iter().enumerate();
        let open = open.filter_map(move |(slot, at)| {
            let at = (*at)?;
            let may_be_next = applied & (1 << slot) == 0 && !self.comes_later(at, applied);
            may_be_next.then_some((slot, &self.operations[at]))
        });
        let sweeps = open
            .clone()
            .filter(|(_, operation)| is_open_sweep(operation));
        let earliest = sweeps.min_by_key(|(_, sweep)| sweep.invoked);
        let earliest = earliest.map(|(slot, _)| slot);
        open.filter(move |(slot, operation)| !is_open_sweep(operation) || Some(*slot) == earliest)
    }

    /// Returns whether the operation has an equal before it that is open. Hidden effects of one call
    /// are alike: the first that is left comes next.
    fn comes_later(&self, at: usize, applied: u64) -> bool {
        let operation = &self.operations[at];
        if !is_hidden(operation) || at == 0 || self.operations[at - 1] != *operation {
            return false;
        }
        let slot = self.slots.iter().position(|open| *open == Some(at - 1));
        slot.is_some_and(|slot| applied & (1 << slot) == 0)
    }

    /// Returns what may follow when the operation takes effect, with the losses that it needs.
    fn after(
        &self,
        one: &Configuration,
        losses: usize,
        operation: &Operation,
    ) -> Vec<(Configuration, usize)> {
        let may_lose = losses < self.losses;
        if let op @ (Op::Loss | Op::TakeBack) = &operation.call.op {
            // What was answered was safe, and so was all before it.
            let may_come_back = |at: usize| {
                *op == Op::Loss || one.past[..=at].iter().all(|before| !before.is_answered)
            };
            // The latest of equal records leaves the most to be lost later.
            let is_latest = |at: usize, body: &Body| {
                *body != one.state.body && one.past[..at].iter().all(|later| later.body != *body)
            };
            let earlier = one.past.iter().enumerate().filter(|(at, before)| {
                may_lose && may_come_back(*at) && is_latest(*at, &before.body)
            });
            let lost = earlier.map(|(at, before)| Configuration {
                state: one.state.lost(&before.body),
                past: one.past[at + 1..].to_vec(),
                ..one.clone()
            });
            return lost.map(|one| (one, losses + 1)).collect();
        }
        let mut next = Vec::new();
        for (state, is_answered) in successors(&one.state, operation) {
            let mut past = one.past.clone();
            // Only the record can be lost, so a state with the same one adds nothing.
            if self.remembers && state.body != one.state.body {
                let before = Before {
                    body: one.state.body.clone(),
                    is_answered,
                };
                past.insert(0, before);
            }
            let is_step = operation.call.op == (Op::Clock { forgets: true });
            if let Some(state) = state.forgotten().filter(|_| is_step && may_lose) {
                let past = past.clone();
                next.push((
                    Configuration {
                        state,
                        past,
                        ..*one
                    },
                    losses + 1,
                ));
            }
            next.push((
                Configuration {
                    state,
                    past,
                    ..*one
                },
                losses,
            ));
        }
        next
    }

    fn refused(&self, at: usize) -> Verdict {
        let mut states: Vec<String> = self
            .frontier
            .keys()
            .map(|one| format!("{:?}", one.state))
            .collect();
        states.sort();
        states.truncate(8);
        Verdict::Refused { at, states }
    }
}

/// Returns the states after the operation that fit its answer, and whether it was told that it
/// changed the record. To learn more of a record is no change.
pub(super) fn successors(
    before: &KeyState,
    operation: &Operation,
) -> impl Iterator<Item = (KeyState, bool)> {
    let steps = step(before, &operation.call, operation.window);
    let is_answered = operation.answer != Answer::Unknown;
    steps.into_iter().filter_map(move |(state, pattern)| {
        let is_answered = is_answered && state.body != before.body;
        let mut state = unify(state, &pattern, &operation.answer)?;
        if operation.over_step {
            // Decided by the time before the step, and visible after it.
            state.clock = state.clock.min(before.clock);
        }
        Some((state, is_answered))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_keeps_the_fewest_losses() {
        let one = Configuration {
            state: KeyState::new(),
            applied: 0,
            past: Vec::new(),
        };
        let mut frontier = Frontier::new();
        assert!(add(&mut frontier, one.clone(), 2));
        assert!(!add(&mut frontier, one.clone(), 2));
        assert!(add(&mut frontier, one.clone(), 1));
        assert!(!add(&mut frontier, one.clone(), 3));
        assert_eq!(frontier[&one], 1);
    }
}
