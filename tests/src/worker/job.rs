//! The jobs and reports of a worker.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use idem_core::{Advance, ClaimOutcome, ClaimRequest, Key, Response};
use serde::{Deserialize, Serialize};

use crate::history::Head;

/// The job of a worker process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The target whose harness opens the namespace.
    pub target: String,
    /// The namespace.
    pub namespace: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Step {
    /// Send [`Report::Ready`] and wait for the test.
    Wait,
    /// Claim, and report the outcome. Later steps work on the acquired claim.
    Claim(ClaimRequest),
    /// Complete the last acquired claim.
    Complete {
        /// The response.
        response: Response,
        /// Its retention.
        retention: Duration,
    },
    /// Renew the last acquired claim, repeatedly, for ever.
    RenewForEver {
        /// The lease of each renewal.
        lease: Duration,
    },
    /// Store a checkpoint of the last acquired claim, and report [`Report::Done`].
    Checkpoint {
        /// Its name.
        name: String,
        /// Its data.
        data: Vec<u8>,
    },
    /// Raise the mark of a source, and report [`Report::Advanced`].
    Advance {
        /// The source.
        source: Key,
        /// The version.
        version: u64,
        /// The retention.
        retention: Duration,
    },
    /// Claim and complete each, reporting [`Report::Claimed`] and [`Report::Done`] each time.
    CompleteEach {
        /// The claims.
        requests: Vec<ClaimRequest>,
        /// The length of the body, all of whose bytes are the number of the request.
        body_bytes: usize,
        /// The retention.
        retention: Duration,
    },
    /// Do nothing, for ever.
    Hang,
    /// Take part in a race, and report [`Report::Done`] after each claim.
    Storm(Storm),
}

/// A random mix of operations on some keys, each noted in a [history](crate::history).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Storm {
    /// The number of this process.
    pub process: u32,
    /// The file of its history, which does not exist yet.
    pub history: PathBuf,
    /// The first line of the history.
    pub head: Head,
    /// The keys.
    pub keys: Vec<Key>,
    /// How many claims it makes.
    pub claims: u32,
    /// The seed of its randomness.
    pub seed: u64,
    /// The lease of its claims.
    pub lease: Duration,
    /// The retention of results; an abandoned record stays for an hour.
    pub retention: Duration,
    /// Whether holders also release, fail, forget, renew and come late; otherwise they only
    /// complete.
    pub rough: bool,
}

/// A report of a worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Report {
    /// The worker waits.
    Ready,
    /// The outcome of a claim.
    Claimed(ClaimOutcome),
    /// The outcome of an advance.
    Advanced(Advance),
    /// A step was done.
    Done,
    /// The job was done.
    Finished,
    /// The job failed, and why.
    Failed(String),
}

impl Report {
    /// Prints it as one line on standard output; if the reader is gone, the worker ends.
    pub(super) fn tell(&self) {
        let mut line = serde_json::to_string(self).expect("reports have a JSON form");
        line.push('\n');
        let mut output = std::io::stdout().lock();
        if output
            .write_all(line.as_bytes())
            .and_then(|()| output.flush())
            .is_err()
        {
            std::process::exit(3);
        }
    }
}
