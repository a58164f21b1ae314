//! The search: whether the calls on one key can be ordered so that the specification explains every
//! answer.
//!
//! Just-in-time linearisation (Lowe): the events are read in real-time order, and a call without an
//! answer yet is applied only when another answer needs it. The frontier holds every pair of a
//! state and the set of calls that were applied and have not returned. Equal pairs merge.

mod brute;
mod frontier;

use crate::spec::{Answer, Call, Op, Span};

pub use brute::brute_force;
pub use frontier::{Bounds, explain};

/// A call of a history, with what its caller saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The call.
    pub call: Call,
    /// The answer.
    pub answer: Answer,
    /// When it was invoked, by the clock that all callers share.
    pub invoked: i64,
    /// When its answer came; `None` without one.
    pub returned: Option<i64>,
    /// Between which instants of the store's clock it took effect, if it did.
    pub window: Span,
    /// Whether the store's clock was set while it was under way.
    pub over_step: bool,
}

/// What the search says about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Some order explains every answer.
    Explained {
        /// The greatest number of pairs that the search held.
        widest: usize,
        /// The fewest losses without which no order does.
        losses: usize,
    },
    /// No order does.
    Refused {
        /// The first operation, in the order of answers, whose answer fits nowhere.
        at: usize,
        /// The states in which it was asked, in words.
        states: Vec<String>,
    },
    /// The search gave up: this is not an acceptance.
    Undecided {
        /// Why.
        why: String,
    },
}

impl Verdict {
    /// Returns whether every answer is explained.
    #[must_use]
    pub fn is_explained(&self) -> bool {
        matches!(self, Self::Explained { .. })
    }

    /// Returns whether no order explains the answers.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

impl Operation {
    /// Returns the same call as one that may have taken effect before, within the same time: some
    /// stores write, and then look, and what they find may have changed hands in between.
    #[must_use]
    pub fn hidden(&self) -> Self {
        Self {
            answer: Answer::Unknown,
            ..self.clone()
        }
    }
}

/// Returns whether it is the hidden effect of a call that was answered. A call without an answer
/// may take effect at any later time; this one not after the answer.
fn is_hidden(operation: &Operation) -> bool {
    operation.answer == Answer::Unknown
        && operation.returned.is_some()
        && operation.window.hi < i64::MAX / 2
}

/// Returns whether the operation may have had no effect on the key although it was done: a sweep
/// does not say which keys it changed, nor a fault what was lost.
fn is_optional(operation: &Operation) -> bool {
    matches!(operation.call.op, Op::Sweep | Op::Loss | Op::TakeBack) || is_hidden(operation)
}

/// Returns whether the operation may have taken effect without an answer that says so.
fn is_open(operation: &Operation) -> bool {
    operation.answer == Answer::Unknown && !is_hidden(operation)
}
