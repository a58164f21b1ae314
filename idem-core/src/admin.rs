//! [`RecordAdmin`]: lists records, and frees stuck keys by hand.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use crate::rewrite::Rewrite;

use crate::backend::StoredRecord;
use crate::{
    Error, Failure, FencingToken, IdempotencyStore, Key, Metadata, Result, StalePolicy, Timestamp,
};

/// The operation of audit entries: the records that forced steps leave.
pub const AUDIT_OPERATION: &str = "idem.audit";

/// A store whose records people can list, and whose keys they can free.
///
/// Nothing here adds to the cost of a claim: there is no index for it, and no lock.
#[async_trait]
pub trait RecordAdmin: IdempotencyStore {
    /// Looks at up to `limit` records, expired ones included, and returns those that match.
    ///
    /// A page may be empty and still have a cursor. Go on with the cursor until there is none.
    ///
    /// *Behaviour*: a record that is in the store from the first page to the last appears at least
    /// once. One that comes or goes meanwhile may appear or not. Only Redis may return a record
    /// twice. Results are never returned, and released keys never appear.
    ///
    /// *Cost*: reads `limit` records and locks none, however many the store has.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `limit` is zero or above [`MAX_BATCH`](crate::limits::MAX_BATCH), or the cursor is not of this
    /// store; `Unavailable`, `Misconfigured`.
    ///
    /// # Cancellation
    ///
    /// Without effect.
    async fn list(
        &self,
        filter: &RecordFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<RecordPage>;

    /// Returns the summary of the record of this key, expired or not; `None` when there is none or
    /// it is released.
    ///
    /// # Errors
    ///
    /// As for [`get`](IdempotencyStore::get), but a record that cannot be decoded is
    /// [`Unreadable`](SummaryState::Unreadable).
    ///
    /// # Cancellation
    ///
    /// Without effect.
    async fn summary(&self, key: &Key) -> Result<Option<RecordSummary>>;

    /// Takes a step in place of a record's holder, if the record has still the token that the
    /// operator has seen, and leaves an audit entry.
    ///
    /// *Atomicity*: the store compares the token and takes the step at once. On SQL stores, and on
    /// MongoDB where it has transactions, the audit entry commits with the step. Elsewhere the
    /// store writes the entry first: after a crash it stays, with an unknown outcome.
    ///
    /// *Behaviour*: a release or a deletion makes the key free at once, for any fingerprint; a
    /// failure is replayed from now on. The old holder's late steps are `ClaimLost`. Tokens keep
    /// growing.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an audit entry's key, and for a failure or a retention outside the
    /// limits; others as for [`complete`](IdempotencyStore::complete). After an unknown effect,
    /// repeat the call: when the step was taken, the answer is
    /// [`Refused`](Forced::Refused), and [`history`](crate::IdempotencyStoreExt::history) has it.
    ///
    /// # Cancellation
    ///
    /// The step may be taken or not.
    async fn force(&self, step: &ForcedStep) -> Result<Forced>;

    /// Replaces the stored forms of a sealed record's result and metadata, if it has still this
    /// token and this kind of result; returns whether it had.
    ///
    /// It is for wrappers that change how results are stored, such as
    /// [`Protected`](crate::wrappers::Protected), which re-encrypts them.
    ///
    /// *Atomicity*: the store compares and replaces in one step. While a record is sealed, nothing
    /// else changes its result, so the token proves that it is the result that was read.
    ///
    /// *Behaviour*: everything else stays as it is: state, attempt, instants, the end of the
    /// retention. Nobody is notified. A repeated completion is then compared with the new form.
    /// Repeating it succeeds; it may answer `false` when nothing was to be changed.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when a form is over the limits; others as for
    /// [`complete`](IdempotencyStore::complete).
    ///
    /// # Cancellation
    ///
    /// The record has the old forms or the new ones.
    async fn rewrite(&self, rewrite: &Rewrite) -> Result<bool>;
}

/// What a listed record is, by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SummaryState {
    /// An attempt holds the key, and its lease lasts.
    InFlight,
    /// An attempt holds the key, and its lease has ended.
    Stale,
    /// Sealed with a response.
    Completed,
    /// Sealed with a failure.
    Failed,
    /// Its retention has ended; `delete_expired` has not deleted it yet.
    Expired,
    /// Its columns cannot be decoded. Another program or version wrote them.
    Unreadable,
}

impl SummaryState {
    /// Returns the state that the record is stored in, such as
    /// [`StoredRecord::IN_FLIGHT`]; `None` where the summary does not tell it.
    #[must_use]
    pub fn stored(self) -> Option<i64> {
        match self {
            Self::InFlight | Self::Stale => Some(StoredRecord::IN_FLIGHT),
            Self::Completed => Some(StoredRecord::COMPLETED),
            Self::Failed => Some(StoredRecord::FAILED),
            Self::Expired | Self::Unreadable => None,
        }
    }

    /// All states.
    pub const ALL: [Self; 6] = [
        Self::InFlight,
        Self::Stale,
        Self::Completed,
        Self::Failed,
        Self::Expired,
        Self::Unreadable,
    ];

    /// Returns the name, such as `in_flight`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Stale => "stale",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for SummaryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SummaryState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let state = Self::ALL.into_iter().find(|state| state.name() == text);
        state.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::invalid_input(format!("not a state of a record; the states are: {names}"))
        })
    }
}

/// A record without its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecordSummary {
    /// The key.
    pub key: Key,
    /// What the record is.
    pub state: SummaryState,
    /// The token of the latest acquisition.
    pub token: FencingToken,
    /// How often the key was acquired since it was fresh.
    pub attempts: u32,
    /// When the key was first seen.
    pub created_at: Timestamp,
    /// When the retention ends or has ended.
    pub expires_at: Timestamp,
    /// When the holder's lease ends or has ended; `None` for a sealed record.
    pub lease_ends_at: Option<Timestamp>,
    /// What a claim does when the lease has ended.
    pub on_stale: StalePolicy,
    /// When the record was sealed.
    pub sealed_at: Option<Timestamp>,
    /// The store's clock when it answered.
    pub observed_at: Timestamp,
    /// The metadata that the claim left on the record.
    pub metadata: Metadata,
    /// Bytes of the stored result, or of the checkpoint of a record in flight.
    pub result_bytes: u64,
    /// The name of the last checkpoint of a record in flight.
    pub checkpoint: Option<String>,
    /// The code of the failure. `None` where it does not fit into the first
    /// [`LISTED_RESULT_BYTES`](crate::backend::LISTED_RESULT_BYTES) of the stored result; in a list
    /// of `idem-mongo`, also where the failure has more than 64 KiB.
    pub failure_code: Option<String>,
}

impl RecordSummary {
    /// Creates the summary of a record in this state, with all instants zero.
    #[must_use]
    pub fn new(key: Key, state: SummaryState, token: FencingToken) -> Self {
        Self {
            key,
            state,
            token,
            attempts: 1,
            created_at: Timestamp::default(),
            expires_at: Timestamp::default(),
            lease_ends_at: None,
            on_stale: StalePolicy::default(),
            sealed_at: None,
            observed_at: Timestamp::default(),
            metadata: Metadata::new(),
            result_bytes: 0,
            checkpoint: None,
            failure_code: None,
        }
    }

    /// Returns the time since the key was first seen, by the store's clock.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.observed_at.saturating_since(self.created_at)
    }
}

/// Which records a list returns. A new filter lets all through, except audit entries.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecordFilter {
    states: Vec<SummaryState>,
    scope: Option<String>,
    operation: Option<String>,
    min_age: Option<Duration>,
    failure_code: Option<String>,
}

impl RecordFilter {
    /// Creates a filter that lets all records through, except audit entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets records in this state through, beside those of the states that were added before.
    #[must_use]
    pub fn with_state(mut self, state: SummaryState) -> Self {
        self.states.push(state);
        self
    }

    /// Lets only records of this scope through.
    #[must_use]
    pub fn with_scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// Lets only records of this operation through. [`AUDIT_OPERATION`] lists audit entries.
    #[must_use]
    pub fn with_operation(mut self, operation: impl Into<String>) -> Self {
        self.operation = Some(operation.into());
        self
    }

    /// Lets only records through that were first seen this long ago or longer.
    #[must_use]
    pub fn with_min_age(mut self, age: Duration) -> Self {
        self.min_age = Some(age);
        self
    }

    /// Lets only failed records with this code through.
    #[must_use]
    pub fn with_failure_code(mut self, code: impl Into<String>) -> Self {
        self.failure_code = Some(code.into());
        self
    }

    /// Returns whether the record is let through.
    #[must_use]
    pub fn matches(&self, record: &RecordSummary) -> bool {
        let operation = match &self.operation {
            Some(operation) => record.key.operation() == operation,
            None => record.key.operation() != AUDIT_OPERATION,
        };
        operation
            && (self.states.is_empty() || self.states.contains(&record.state))
            && self
                .scope
                .as_ref()
                .is_none_or(|scope| record.key.scope() == scope)
            && self.min_age.is_none_or(|age| record.age() >= age)
            && self
                .failure_code
                .as_ref()
                .is_none_or(|code| record.failure_code.as_ref() == Some(code))
    }
}

/// Where a list goes on: a text that only the store understands that made it.
///
/// It contains a key. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// Creates a cursor of this text, for stores and for texts that a store's cursor had.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the error of a cursor that the store cannot read.
    #[must_use]
    pub fn unreadable() -> Error {
        Error::invalid_input(
            "the cursor is not one of this store; start the list again without a cursor",
        )
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cursor").finish_non_exhaustive()
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RecordPage {
    /// The matching records.
    pub records: Vec<RecordSummary>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<Cursor>,
    /// How many records the store looked at.
    pub looked_at: u32,
}

impl RecordPage {
    /// Creates a page of those of the records that match.
    #[must_use]
    pub fn of(records: Vec<RecordSummary>, filter: &RecordFilter, next: Option<Cursor>) -> Self {
        let looked_at = u32::try_from(records.len()).unwrap_or(u32::MAX);
        let matching = records.into_iter().filter(|record| filter.matches(record));
        Self {
            records: matching.collect(),
            next,
            looked_at,
        }
    }
}

/// How many records match: see [`count_records`](crate::IdempotencyStoreExt::count_records).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordCount {
    /// The records that match, of those that were looked at.
    pub matching: u64,
    /// The records that were looked at.
    pub looked_at: u64,
    /// Whether these were all records of the store.
    pub is_complete: bool,
}

/// The step that an operator takes in place of a holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForcedAction {
    /// Frees a key in flight.
    Release,
    /// Fails a key in flight.
    Fail {
        /// The failure that is replayed from now on.
        failure: Failure,
        /// How long it is replayed.
        retention: Duration,
    },
    /// Deletes a completed or failed record, so that the key is free.
    Delete,
}

impl ForcedAction {
    /// Returns the name: `release`, `fail` or `delete`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Fail { .. } => "fail",
            Self::Delete => "delete",
        }
    }

    /// Returns whether the step applies to a record in this state.
    #[must_use]
    pub fn applies_to(&self, state: SummaryState) -> bool {
        match self {
            Self::Release | Self::Fail { .. } => {
                matches!(state, SummaryState::InFlight | SummaryState::Stale)
            }
            Self::Delete => matches!(state, SummaryState::Completed | SummaryState::Failed),
        }
    }
}

/// A forced step: what to do, to which acquisition of which key, who wants it and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedStep {
    key: Key,
    token: FencingToken,
    action: ForcedAction,
    who: String,
    reason: String,
}

impl ForcedStep {
    /// Most bytes of the name of a person.
    pub const MAX_WHO_BYTES: usize = 255;
    /// Most bytes of a reason.
    pub const MAX_REASON_BYTES: usize = 1_000;

    /// Creates a step on the record that has this token. `who` names a person (1 to 255 bytes), and
    /// `reason` says why (1 to 1,000 bytes); neither has control characters.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when a text is outside its limits, and for
    /// the key of an audit entry, which nobody changes.
    pub fn new(
        key: Key,
        token: FencingToken,
        action: ForcedAction,
        who: impl Into<String>,
        reason: impl Into<String>,
    ) -> Result<Self> {
        if key.operation() == AUDIT_OPERATION {
            return Err(Error::invalid_input(
                "this is the key of an audit entry; audit entries cannot be changed",
            ));
        }
        let (who, reason) = (who.into(), reason.into());
        check_text("the name of the person", &who, Self::MAX_WHO_BYTES)?;
        check_text("the reason", &reason, Self::MAX_REASON_BYTES)?;
        Ok(Self {
            key,
            token,
            action,
            who,
            reason,
        })
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the token that the record must have.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns what to do.
    #[must_use]
    pub fn action(&self) -> &ForcedAction {
        &self.action
    }

    /// Returns who wants it.
    #[must_use]
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Returns why.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns whether the step applies to this record.
    #[must_use]
    pub fn applies_to(&self, record: &RecordSummary) -> bool {
        record.token == self.token && self.action.applies_to(record.state)
    }
}

fn check_text(what: &str, text: &str, max: usize) -> Result<()> {
    if text.trim().is_empty() || text.len() > max || text.chars().any(char::is_control) {
        return Err(Error::invalid_input(format!(
            "{what} has {} bytes, none that shows, or a control character; it needs 1 to {max} bytes without any",
            text.len()
        )));
    }
    Ok(())
}

/// The answer to a forced step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Forced {
    /// The step was taken.
    Done {
        /// The record as it was before.
        before: RecordSummary,
    },
    /// Nothing was changed: the record has another token, or a state that the step does not apply
    /// to.
    Refused {
        /// The record; `None` when the key is free.
        current: Option<RecordSummary>,
    },
}

/// Whether the step of an audit entry was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It was taken.
    Done,
    /// The process that forced it did not live to say so, or is still at it.
    Unknown,
}

/// A forced step, as the audit entry tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When the step was taken, by the store's clock.
    pub at: Timestamp,
    /// Who wanted it.
    pub who: String,
    /// Why.
    pub reason: String,
    /// `release`, `fail` or `delete`.
    pub action: String,
    /// The token of the record.
    pub token: FencingToken,
    /// Whether it was taken.
    pub outcome: AuditOutcome,
    /// The record as it was before; `None` where the outcome is unknown.
    pub before: Option<RecordSummary>,
}

impl AuditEntry {
    /// Creates an entry without the record as it was before.
    #[must_use]
    pub fn new(step: &ForcedStep, at: Timestamp, outcome: AuditOutcome) -> Self {
        Self {
            at,
            who: step.who.clone(),
            reason: step.reason.clone(),
            action: step.action.name().to_owned(),
            token: step.token,
            outcome,
            before: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(operation: &str, state: SummaryState) -> RecordSummary {
        let key = Key::new("tenant", operation, "1").unwrap();
        RecordSummary::new(key, state, FencingToken::from_i64(7))
    }

    #[test]
    fn a_filter_lets_the_named_records_through() {
        let all = RecordFilter::new();
        let mut record = summary("pay", SummaryState::Failed);
        record.failure_code = Some("declined".to_owned());
        record.observed_at = Timestamp::from_micros(5_000_000);
        assert!(all.matches(&record));
        assert!(!all.matches(&summary(AUDIT_OPERATION, SummaryState::Completed)));
        for filter in [
            all.clone().with_operation("pay"),
            all.clone().with_scope("tenant"),
            all.clone()
                .with_state(SummaryState::Stale)
                .with_state(SummaryState::Failed),
            all.clone().with_min_age(Duration::from_secs(5)),
            all.clone().with_failure_code("declined"),
        ] {
            assert!(filter.matches(&record), "{filter:?}");
        }
        for filter in [
            all.clone().with_operation(AUDIT_OPERATION),
            all.clone().with_scope("tenan"),
            all.clone().with_state(SummaryState::Stale),
            all.clone().with_min_age(Duration::from_secs(6)),
            all.with_failure_code("decline"),
        ] {
            assert!(!filter.matches(&record), "{filter:?}");
        }
    }

    #[test]
    fn a_step_needs_a_name_and_a_reason() {
        let key = Key::new("tenant", "pay", "1").unwrap();
        let step = |key: &Key, who: &str, reason: &str| {
            let token = FencingToken::from_i64(7);
            ForcedStep::new(key.clone(), token, ForcedAction::Release, who, reason)
        };
        assert!(step(&key, "ada", "worker gone").is_ok());
        let (who, reason) = ("a".repeat(256), "a".repeat(1001));
        for (who, reason) in [
            ("", "worker gone"),
            ("ada", " "),
            ("ada", "two\nlines"),
            (&who, "worker gone"),
            ("ada", &reason),
        ] {
            let error = step(&key, who, reason).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
        }
        let audit = Key::new("tenant", AUDIT_OPERATION, "1").unwrap();
        assert!(step(&audit, "ada", "worker gone").is_err());
    }

    #[test]
    fn states_have_names_that_are_read_back() {
        for state in SummaryState::ALL {
            assert_eq!(state.name().parse::<SummaryState>().unwrap(), state);
        }
        assert!("released".parse::<SummaryState>().is_err());
    }
}
