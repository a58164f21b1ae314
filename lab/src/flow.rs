//! Flow: the traffic of a service at scale. Most keys are fresh, see two to six calls and never
//! come back; the rest is the careless traffic of [`crate::traffic`] on a few keys.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use idem_core::{
    AttemptId, BoxError, Claim, ClaimOutcome, ClaimRequest, Failure, Fingerprint, IdempotencyStore,
    Key, Response, StalePolicy,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::history::{Calls, name};

/// The least and the greatest lease of a fresh key, in milliseconds. Faults last longer.
const LEASE: std::ops::Range<u64> = 40..400;

/// How long results are kept: longer than every segment, so that a lost one is missed.
const RETENTION: Duration = Duration::from_secs(3_600);

/// How long a caller waits after an error, in most cases of a store that is down.
const PAUSE: Duration = Duration::from_millis(20);

/// A process that misses this many keys in a row has used no later ones: it has fewer callers.
const MISSED: u64 = 1_000;

/// The fresh keys of one process, which its callers share.
#[derive(Debug)]
pub struct Flow {
    store: Arc<dyn IdempotencyStore>,
    seed: u64,
    next: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Flow {
    /// Creates the keys of a process. No two processes of a run may have the same seed.
    #[must_use]
    pub fn new(store: Arc<dyn IdempotencyStore>, seed: u64, stop: Arc<AtomicBool>) -> Self {
        Self {
            store,
            seed,
            next: AtomicU64::new(0),
            stop,
        }
    }

    /// Uses fresh keys until it is stopped. Errors of the store are part of the history.
    pub async fn run(self: Arc<Self>, caller: u64) {
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_mul(1_000_003) ^ caller);
        while !self.stop.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(key) = key(self.seed, number) else {
                return;
            };
            self.life(&mut random, &key).await;
        }
    }

    /// Gives a key its whole life: racers at the same time, one result, and late duplicates.
    async fn life(&self, random: &mut StdRng, key: &Key) {
        let racers = random.random_range(1..=3);
        let requests: Vec<ClaimRequest> = (0..racers).map(|_| request(random, key)).collect();
        let outcomes = join_all(requests.iter().map(|request| self.store.claim(request))).await;
        if outcomes.iter().all(Result::is_err) {
            tokio::time::sleep(PAUSE).await;
        }
        if let Some(claim) = outcomes.into_iter().flatten().find_map(acquired) {
            self.end(random, &claim).await;
        } else if random.random_bool(0.5) {
            // The answer was lost: the same attempt asks again.
            let again = self.store.claim(&requests[0]).await;
            if let Some(claim) = again.ok().and_then(acquired) {
                self.end(random, &claim).await;
            }
        }
        for _ in 0..random.random_range(1..=2) {
            let late = self.store.claim(&request(random, key)).await;
            if let Some(claim) = late.ok().and_then(acquired) {
                self.end(random, &claim).await;
            }
        }
    }

    /// Ends a claim, in most cases by a result.
    async fn end(&self, random: &mut StdRng, claim: &Claim) {
        let token = claim.token();
        match random.random_range(0..100) {
            0..80 => {
                let response = Response::new(200, format!("{token}"));
                let _ = self.store.complete(claim, &response, RETENTION).await;
                if random.random_bool(0.05) {
                    // Its answer was lost, so it asks again.
                    let _ = self.store.complete(claim, &response, RETENTION).await;
                }
            }
            80..87 => {
                let failure = Failure::new("declined", format!("{token}"));
                let _ = self.store.fail(claim, &failure, RETENTION).await;
            }
            87..94 => drop(self.store.release(claim).await),
            94..97 => {
                let _ = self.store.renew(claim, Duration::from_millis(100)).await;
                let response = Response::new(201, format!("{token}"));
                let _ = self.store.complete(claim, &response, RETENTION).await;
            }
            // Its caller died.
            _ => {}
        }
    }
}

/// Returns the fresh keys that processes with these seeds used, as their histories in the folder
/// say.
///
/// # Errors
///
/// Those of the files.
pub fn used(folder: &Path, seeds: &[u64]) -> Result<Vec<Key>, BoxError> {
    let calls = Calls::read(folder)?;
    let used = calls.seen.iter().map(|seen| seen.invocation.k.as_str());
    let used: HashSet<&str> = used.collect();
    let mut keys = Vec::new();
    for seed in seeds {
        let mut missed = 0;
        for key in (0..).map_while(|number| key(*seed, number)) {
            if used.contains(name(&key).as_str()) {
                keys.push(key);
                missed = 0;
            } else {
                // A caller that was killed left out its number, but the others went on.
                missed += 1;
            }
            if missed > MISSED {
                break;
            }
        }
    }
    Ok(keys)
}

/// Returns a process' fresh key of this number.
fn key(seed: u64, number: u64) -> Option<Key> {
    Key::new("prove", "flow", format!("{seed:x}-{number}")).ok()
}

fn acquired(outcome: ClaimOutcome) -> Option<Claim> {
    match outcome {
        ClaimOutcome::Acquired(claim) => Some(claim),
        _ => None,
    }
}

fn request(random: &mut StdRng, key: &Key) -> ClaimRequest {
    let fingerprint = match random.random_range(0..50) {
        0 => Fingerprint::raw("2"),
        _ => Fingerprint::raw("1"),
    };
    let stale = match random.random_bool(0.8) {
        true => StalePolicy::TakeOver,
        false => StalePolicy::Fail,
    };
    ClaimRequest::new(key.clone(), fingerprint)
        .with_attempt(AttemptId::random())
        .with_lease(Duration::from_millis(random.random_range(LEASE)))
        .with_retention(RETENTION)
        .with_on_stale(stale)
}
