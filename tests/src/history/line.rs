//! [`Line`]: one line of a history.

use serde::{Deserialize, Serialize};

use crate::spec::{Answer, Call};

/// The version of the format.
pub const VERSION: u32 = 1;

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
pub enum Line {
    /// The first line of each file.
    Head(Head),
    /// A call, before it is sent.
    Inv(Invocation),
    /// Its answer.
    Ret(Return),
    /// What was done to the store or its callers.
    Nem(Fault),
}

/// The store and its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The format: [`VERSION`].
    pub v: u32,
    /// The store and the settings that matter, in words.
    pub cell: String,
    /// The seed of the traffic.
    pub seed: u64,
    /// How long the store's clock shows the same instant, in microseconds.
    pub quantum: i64,
    /// Whether the store may change a record, and answer with what it read after that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asks_again: bool,
    /// Whether stored results come from a cache, whose instants are not those of the store's clock.
    #[serde(default, skip_serializing_if = "is_false")]
    pub caches: bool,
}

/// A call, before it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// The number of the call, unique in its file.
    pub id: u64,
    /// When, in microseconds of the machine's monotonic clock.
    pub c0: i64,
    /// The hash of the key; empty for a call on the whole store.
    pub k: String,
    /// The call.
    #[serde(flatten)]
    pub call: Call,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Return {
    /// The number of the call.
    pub id: u64,
    /// When it came, in microseconds of the machine's monotonic clock.
    pub c1: i64,
    /// The store's clock when it answered, in microseconds since 1970, if it said so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub now: Option<i64>,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// What was done to the store or its callers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The fault, such as `power cut`.
    pub what: String,
    /// The process or device.
    pub on: String,
    /// Whether it took place.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// When it began, in microseconds of the machine's monotonic clock.
    pub c0: i64,
    /// When it was over, healing included.
    pub c1: i64,
    /// Whether the store may have lost in it what it had acknowledged, as its documentation says.
    /// Of a step of its clock: the order of the tokens of a key whose record it had deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub loses: bool,
    /// Whether the store may have taken back in it what it showed before it was safe, as its
    /// documentation says: writes without an answer.
    #[serde(default, skip_serializing_if = "is_false")]
    pub takes_back: bool,
    /// Whether it set the store's clock.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sets_clock: bool,
}

/// Whether a fault took place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// It did.
    Installed {
        /// What shows it.
        proof: String,
    },
    /// It did not.
    Skipped {
        /// Why.
        why: String,
    },
    /// It may have.
    Indeterminate {
        /// Why nobody knows.
        why: String,
    },
}

impl Outcome {
    /// Returns whether the fault took place.
    #[must_use]
    pub fn is_installed(&self) -> bool {
        matches!(self, Self::Installed { .. })
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}
