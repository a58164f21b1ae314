//! The calls of racing processes, the answers, and their times.

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

/// A call of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The process that called.
    pub process: u32,
    /// The operation.
    pub op: Op,
    /// The hash of the key.
    pub key: String,
    /// The attempt that claims or holds.
    pub attempt: AttemptId,
    /// The token of the holder; 0 for a claim.
    pub token: i64,
    /// The claim's fingerprint, as text; all claims of a storm agree on it.
    pub fingerprint: String,
    /// Whether a claim retries recorded failures.
    pub retries_failures: bool,
    /// The lease of a claim or renewal, the retention of a result, in nanoseconds.
    pub lasts_ns: u64,
    /// The stored result; empty for other operations.
    pub sealed: String,
    /// When the call began, see [`Clock`].
    pub invoked_ns: u64,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The claim was acquired under this token.
    Acquired(i64),
    /// Another attempt holds the key under this token.
    InFlight(i64),
    /// This result was stored under this token.
    Completed(i64, String),
    /// This failure was recorded under this token.
    Failed(i64, String),
    /// The key belongs to another request.
    Conflict(i64),
    /// The holder's operation succeeded.
    Done,
    /// The claim is no longer held.
    Lost,
    /// It is completed with another result.
    AlreadySealed,
    /// An error that reports no effect.
    NotDone(String),
    /// An error that reports an unknown effect, or no answer because the process died.
    Unknown(String),
}

/// An operation and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The call.
    pub call: Call,
    /// The answer.
    pub answer: Answer,
    /// When the answer came; without an answer, [`u64::MAX`].
    pub returned_ns: u64,
}

impl Call {
    /// Creates a claim.
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

    /// Creates an operation of a holder; `lasts` is its lease or retention.
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

    /// Sets the stored result.
    #[must_use]
    pub fn with_sealed(mut self, text: &str) -> Self {
        text.clone_into(&mut self.sealed);
        self
    }
}

impl Answer {
    /// Returns the answer to a claim.
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

    /// Returns the answer to an operation of a holder.
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

    /// Returns whether the operation may have taken effect without an answer that says so.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_))
    }
}

/// Returns the events of one process, in order; a call during which it died has an unknown answer.
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

/// Nanoseconds since 1970, comparable between the processes of one machine: the wall clock at the
/// start of the process, continued by its monotonic clock. Setting the machine's clock while
/// processes start would make it wrong.
#[derive(Debug)]
pub struct Clock {
    base_ns: u64,
    started: Instant,
}

/// How often the clocks are read; a pause in all of the readings is unlikely.
const ATTEMPTS: usize = 50;

impl Clock {
    /// Reads the wall clock, in the shortest of several readings. A process that is paused between
    /// its two clocks would be late for its whole run, and blame the store.
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

    /// Returns the time now.
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
