//! What a worker is told to do, and what it tells.

use std::time::Duration;

use idem_core::{Advance, ClaimOutcome, ClaimRequest, Key, Response};
use serde::{Deserialize, Serialize};

use crate::history::{Call, Event};

/// Everything that a worker process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The target whose harness opens the namespace.
    pub target: String,
    /// The namespace.
    pub namespace: String,
    /// One after the other.
    pub steps: Vec<Step>,
}

/// One step of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Step {
    /// Say [`Report::Ready`] and wait until told to go on.
    Wait,
    /// Claim; tells the outcome. What is acquired is what later steps work on.
    Claim(ClaimRequest),
    /// Complete what was acquired last.
    Complete {
        /// With this.
        response: Response,
        /// For so long.
        retention: Duration,
    },
    /// Renew what was acquired last, again and again, for ever.
    RenewForEver {
        /// To so much each time.
        lease: Duration,
    },
    /// Store a checkpoint of what was acquired last; tells [`Report::Done`].
    Checkpoint {
        /// Its name.
        name: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// Raise the mark of a source; tells [`Report::Advanced`].
    Advance {
        /// The source.
        source: Key,
        /// To this version.
        version: u64,
        /// For so long.
        retention: Duration,
    },
    /// Claim and complete each, telling [`Report::Claimed`] and [`Report::Done`] as it goes.
    CompleteEach {
        /// The claims.
        requests: Vec<ClaimRequest>,
        /// How many bytes the body has, all of them the number of the request.
        body_bytes: usize,
        /// How long it is kept.
        retention: Duration,
    },
    /// Do nothing, for ever.
    Hang,
    /// Take part in a race.
    Storm(Storm),
}

/// A random mix of operations on some keys, each told as [`Report::Invoked`] and
/// [`Report::Returned`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Storm {
    /// The number of this process.
    pub process: u32,
    /// The keys.
    pub keys: Vec<Key>,
    /// How many claims it makes.
    pub claims: u32,
    /// Where its randomness comes from.
    pub seed: u64,
    /// The lease of its claims.
    pub lease: Duration,
    /// How long results are kept; what is abandoned is kept for an hour.
    pub retention: Duration,
    /// Whether holders also release, fail, forget, renew and come late; or else only complete.
    pub rough: bool,
}

/// What a worker tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Report {
    /// It waits.
    Ready,
    /// The outcome of a claim.
    Claimed(ClaimOutcome),
    /// What became of an advance.
    Advanced(Advance),
    /// A step was done.
    Done,
    /// An operation is about to be asked for.
    Invoked(Call),
    /// An operation was answered.
    Returned(Event),
    /// The job was done.
    Finished,
    /// The job was not done, and why.
    Failed(String),
}
