//! How a run of a saga ends.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::BoxError;
use crate::backend::Redacted;

/// How a saga ended, for good: sealed under its key, and replayed.
///
/// `Debug` shows names, not values.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SagaEnd {
    /// Every step is done.
    Completed {
        /// The values of the steps, by name.
        results: BTreeMap<String, Value>,
    },
    /// A step failed for good, and the steps before it are undone.
    Compensated {
        /// The step that failed.
        failed_step: String,
        /// Why.
        reason: String,
        /// The steps whose compensations were run, in that order.
        undone: Vec<String>,
    },
}

impl SagaEnd {
    /// Returns whether every step is done.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        matches!(self, Self::Completed { .. })
    }
}

impl fmt::Debug for SagaEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed { results } => f
                .debug_struct("Completed")
                .field("steps", &results.keys())
                .finish_non_exhaustive(),
            Self::Compensated {
                failed_step,
                undone,
                ..
            } => f
                .debug_struct("Compensated")
                .field("failed_step", failed_step)
                .field("undone", undone)
                .finish_non_exhaustive(),
        }
    }
}

/// A compensation that failed.
///
/// `Debug` shows the step and the class of the reason.
pub struct NotUndone {
    /// The step that it was to undo.
    pub step: String,
    /// Why it failed.
    pub reason: BoxError,
}

impl fmt::Debug for NotUndone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotUndone")
            .field("step", &self.step)
            .field("reason", &Redacted::new(&*self.reason))
            .finish()
    }
}

/// Why a run of a saga stopped before its end. Its key is released: run it again to go on.
///
/// Neither `Display` nor `Debug` shows the text of a reason, which may quote data; the fields hold
/// it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SagaStop {
    /// A step did not come to an end: a temporary error, another run at work on it, or no decision
    /// of the store.
    #[error("the step `{step}` did not come to an end")]
    Step {
        /// The step.
        step: String,
        /// Why.
        #[source]
        reason: BoxError,
    },

    /// A step failed for good, and some steps before it could not be undone. The compensations that
    /// succeeded are not run again.
    #[error("the step `{failed_step}` failed, and {} of the steps before could not be undone: {}", .failures.len(), listed(.failures))]
    Compensation {
        /// The step that failed.
        failed_step: String,
        /// Why.
        reason: String,
        /// The steps whose compensations were run, in that order.
        undone: Vec<String>,
        /// The compensations that failed.
        failures: Vec<NotUndone>,
    },

    /// The saga's claim was lost between two steps: another run may be at work on it.
    #[error("the saga's claim is lost: somebody else may be at work on it")]
    Lost,
}

fn listed(failures: &[NotUndone]) -> String {
    let names = failures.iter().map(|failure| format!("`{}`", failure.step));
    names.collect::<Vec<_>>().join(", ")
}

impl fmt::Debug for SagaStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { step, reason } => f
                .debug_struct("Step")
                .field("step", step)
                .field("reason", &Redacted::new(&**reason))
                .finish(),
            Self::Compensation {
                failed_step,
                undone,
                failures,
                ..
            } => f
                .debug_struct("Compensation")
                .field("failed_step", failed_step)
                .field("undone", undone)
                .field("failures", failures)
                .finish_non_exhaustive(),
            Self::Lost => f.write_str("Lost"),
        }
    }
}
