//! What racing processes asked for, what they were answered, and when.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use idem_core::{
    AttemptId, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, FailedPolicy, Key,
    Result,
};
use serde::{Deserialize, Serialize};

use crate::worker::Report;

/// An operation of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// Claim.
    Claim,
    /// Complete.
    Complete,
    /// Fail.
    Fail,
    /// Release.
    Release,
    /// Renew.
    Renew,
}

/// An operation that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The process that asked.
    pub process: u32,
    /// What it asked for.
    pub op: Op,
    /// The hash of the key.
    pub key: String,
    /// The attempt that claims or holds.
    pub attempt: AttemptId,
    /// The token of the holder; 0 for a claim.
    pub token: i64,
    /// What the caller asks to do, as text; all claims of a storm agree on it.
    pub fingerprint: String,
    /// Whether a claim tries recorded failures again.
    pub retries_failures: bool,
    /// The lease of a claim or renewal, the retention of a result, in nanoseconds.
    pub lasts_ns: u64,
    /// What is sealed; empty for other operations.
    pub sealed: String,
    /// When it was asked for, see [`Clock`].
    pub invoked_ns: u64,
}

/// What the caller learned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The claim was acquired under this token.
    Acquired(i64),
    /// Somebody holds the key under this token.
    InFlight(i64),
    /// This was sealed under this token.
    Completed(i64, String),
    /// This failure was recorded under this token.
    Failed(i64, String),
    /// The key is used for something else.
    Conflict(i64),
    /// The holder's operation succeeded.
    Done,
    /// The claim is held no longer.
    Lost,
    /// It is sealed with something else.
    AlreadySealed,
    /// An error that says that nothing was done.
    NotDone(String),
    /// An error that says that it may have been done, or no answer because the process died.
    Unknown(String),
}

/// An operation and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What was asked for.
    pub call: Call,
    /// What was answered.
    pub answer: Answer,
    /// When it was answered; without answer, [`u64::MAX`].
    pub returned_ns: u64,
}

impl Call {
    /// A claim.
    #[must_use]
    pub fn of_claim(process: u32, request: &ClaimRequest) -> Self {
        Self {
            process,
            op: Op::Claim,
            key: hashed(request.key()),
            attempt: request.attempt(),
            token: 0,
            fingerprint: request.fingerprint().to_string(),
            retries_failures: request.on_failed() == FailedPolicy::Retry,
            lasts_ns: nanos(request.lease()),
            sealed: String::new(),
            invoked_ns: 0,
        }
    }

    /// An operation of a holder; `lasts` is its lease or retention.
    #[must_use]
    pub fn of_holder(process: u32, op: Op, claim: &Claim, lasts: Duration) -> Self {
        Self {
            process,
            op,
            key: hashed(claim.key()),
            attempt: claim.attempt(),
            token: claim.token().as_i64(),
            fingerprint: String::new(),
            retries_failures: false,
            lasts_ns: nanos(lasts),
            sealed: String::new(),
            invoked_ns: 0,
        }
    }

    /// The same with what is sealed.
    #[must_use]
    pub fn with_sealed(mut self, text: &str) -> Self {
        text.clone_into(&mut self.sealed);
        self
    }
}

impl Answer {
    /// The answer to a claim.
    #[must_use]
    pub fn to_claim(result: &Result<ClaimOutcome>) -> Self {
        match result {
            Ok(ClaimOutcome::Acquired(claim)) => Self::Acquired(claim.token().as_i64()),
            Ok(ClaimOutcome::InFlight(loser)) => Self::InFlight(loser.info.token.as_i64()),
            Ok(ClaimOutcome::Completed(done)) => {
                let body = String::from_utf8_lossy(done.response.body()).into_owned();
                Self::Completed(done.info.token.as_i64(), body)
            }
            Ok(ClaimOutcome::Failed(failed)) => {
                Self::Failed(failed.info.token.as_i64(), failed.failure.code().to_owned())
            }
            Ok(ClaimOutcome::Conflict(conflict)) => Self::Conflict(conflict.info.token.as_i64()),
            Err(error) => Self::to_error(error),
        }
    }

    /// The answer to an operation of a holder.
    #[must_use]
    pub fn to_holder(result: &Result<()>) -> Self {
        match result {
            Ok(()) => Self::Done,
            Err(error) => Self::to_error(error),
        }
    }

    fn to_error(error: &Error) -> Self {
        match (error.kind(), error.effect()) {
            (ErrorKind::ClaimLost, _) => Self::Lost,
            (ErrorKind::AlreadySealed, _) => Self::AlreadySealed,
            (_, Effect::None) => Self::NotDone(error.to_string()),
            _ => Self::Unknown(error.to_string()),
        }
    }

    /// Whether the operation may have been done although nobody was told.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

/// What one process told, in order; what it was about when it died has an unknown answer.
#[must_use]
pub fn of_process(reports: Vec<Report>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut open: Option<Call> = None;
    for report in reports {
        match report {
            Report::Invoked(call) => open = Some(call),
            Report::Returned(event) => {
                open = None;
                events.push(event);
            }
            _ => {}
        }
    }
    events.extend(open.map(|call| Event {
        call,
        answer: Answer::Unknown("the process died".to_owned()),
        returned_ns: u64::MAX,
    }));
    events
}

/// Nanoseconds since 1970, comparable between the processes of one machine: the wall clock when the
/// process started, counted on by its monotonic clock. Setting the machine's clock while processes
/// start would spoil it.
#[derive(Debug)]
pub struct Clock {
    base_ns: u64,
    started: Instant,
}

/// How often the clocks are read; a pause in all of them is unlikely.
const ATTEMPTS: usize = 50;

impl Clock {
    /// Reads the wall clock, in the shortest of some attempts: a process that is paused between its
    /// two clocks would be late for as long as it runs, and blame the store.
    #[must_use]
    pub fn start() -> Self {
        let attempt = || {
            let started = Instant::now();
            let base = SystemTime::now().duration_since(UNIX_EPOCH);
            let clock = Self {
                base_ns: nanos(base.unwrap_or_default()),
                started,
            };
            (started.elapsed(), clock)
        };
        let mut shortest = attempt();
        for _ in 0..ATTEMPTS {
            let again = attempt();
            if again.0 < shortest.0 {
                shortest = again;
            }
        }
        shortest.1
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.base_ns.saturating_add(nanos(self.started.elapsed()))
    }
}

fn hashed(key: &Key) -> String {
    key.hashed()[..16].to_owned()
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
