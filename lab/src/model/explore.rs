//! [`explore`]: every reachable state of a machine, by `stateright`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Property};

/// What is explored: a few callers, the store between them, and the specification beside it.
pub(super) trait Machine: Send + Sync + 'static {
    /// Everything that the next steps depend on.
    type State: Clone + Debug + PartialEq + Hash + Send + Sync;
    /// A step.
    type Action: Clone + Debug + PartialEq + Send + Sync;

    /// Returns the first state.
    fn start(&self) -> Self::State;

    /// Adds the actions that are possible in the state.
    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>);

    /// Takes one. Returns the kind of the transition, or what contradicts the specification.
    fn take(&self, state: &mut Self::State, action: &Self::Action) -> Result<Kind, Wrong>;
}

/// A kind of transition: what was done, and what was answered.
pub(super) type Kind = (&'static str, &'static str);

/// What contradicts the specification: the name of a counterexample.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Wrong(pub(super) String);

/// A search that generates more states is cut short.
const MAX_STATES: usize = 120_000_000;

/// A search that takes longer is cut short.
const MAX_TIME: Duration = Duration::from_secs(1800);

/// The result of a search.
#[derive(Debug)]
pub(super) struct Explored {
    pub(super) states: usize,
    pub(super) depth: usize,
    pub(super) seconds: f64,
    pub(super) is_cut_short: bool,
    /// The kinds of transitions that happened.
    pub(super) kinds: BTreeSet<String>,
    /// The nearest contradiction, with the actions that lead to it.
    pub(super) wrong: Option<(Wrong, Vec<String>)>,
}

/// Explores the machine on one thread, so that the contradiction that it finds first is always the
/// same.
pub(super) fn explore<M: Machine>(machine: M) -> Explored {
    let started = Instant::now();
    let kinds = Arc::new(Mutex::new(BTreeSet::new()));
    let explored = Beheld {
        machine,
        kinds: Arc::clone(&kinds),
    };
    let checker = explored
        .checker()
        .target_state_count(MAX_STATES)
        .timeout(MAX_TIME)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let wrong = checker.discovery(AS_SPECIFIED).map(|path| {
        let last = path.last_state().wrong.clone();
        let actions = path.into_actions().into_iter().map(|it| format!("{it:?}"));
        (
            last.unwrap_or_else(|| Wrong(String::new())),
            actions.collect(),
        )
    });
    let kinds = kinds.lock().unwrap_or_else(PoisonError::into_inner);
    Explored {
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        seconds: started.elapsed().as_secs_f64(),
        is_cut_short: checker.state_count() >= MAX_STATES || started.elapsed() >= MAX_TIME,
        kinds: kinds
            .iter()
            .map(|(what, answer)| name(what, answer))
            .collect(),
        wrong,
    }
}

/// Returns the name of a kind.
fn name(what: &str, answer: &str) -> String {
    match answer {
        "" => what.to_owned(),
        answer => format!("{what}: {answer}"),
    }
}

const AS_SPECIFIED: &str = "every answer is as specified";

struct Beheld<M> {
    machine: M,
    kinds: Arc<Mutex<BTreeSet<Kind>>>,
}

/// A state, or the state after a contradiction, from which nothing is explored.
#[derive(Debug, Clone, PartialEq, Hash)]
struct Judged<S> {
    state: S,
    wrong: Option<Wrong>,
}

impl<M: Machine> Model for Beheld<M> {
    type State = Judged<M::State>;
    type Action = M::Action;

    fn init_states(&self) -> Vec<Self::State> {
        vec![Judged {
            state: self.machine.start(),
            wrong: None,
        }]
    }

    fn actions(&self, judged: &Self::State, actions: &mut Vec<M::Action>) {
        if judged.wrong.is_none() {
            self.machine.actions(&judged.state, actions);
        }
    }

    fn next_state(&self, last: &Self::State, action: M::Action) -> Option<Self::State> {
        let mut next = last.clone();
        match self.machine.take(&mut next.state, &action) {
            Ok(kind) => {
                let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
                kinds.insert(kind);
            }
            Err(wrong) => next.wrong = Some(wrong),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(AS_SPECIFIED, |_, judged: &Self::State| {
            judged.wrong.is_none()
        })]
    }
}
