//! Traffic: callers that race on a few keys at a time, as carelessly as real ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use idem_core::{
    AttemptId, Checkpoint, Claim, ClaimOutcome, ClaimRequest, ErrorKind, FailedPolicy, Failure,
    Fingerprint, IdempotencyStore, Key, Response, StalePolicy,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::history::monotonic;

/// What the callers do.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The seed of every choice. Schedules are not repeated by it.
    pub seed: u64,
    /// The callers.
    pub callers: u64,
    /// The steps of each caller.
    pub steps: u64,
    /// The keys that are used at the same time.
    pub keys: u64,
    /// When keys are left for others, so that the search stays short.
    pub turn: Turn,
    /// The longest lease. Retentions are up to four times as long.
    pub lease: Duration,
    /// How long three of four results are kept instead, so that they outlive a fault.
    pub kept: Option<Duration>,
    /// From how many turns before a caller sometimes takes a key.
    pub back: u64,
    /// Whether callers delete expired records.
    pub purges: bool,
    /// How long a call may take before its caller drops it.
    pub patience: Duration,
}

/// When keys are left for others.
#[derive(Debug, Clone, Copy)]
pub enum Turn {
    /// After this number of steps for each key, in one process.
    Steps(u64),
    /// After this time, in every process of the machine.
    Time(Duration),
}

impl Turn {
    fn generation(self, step: u64, keys: u64) -> u64 {
        match self {
            Self::Steps(steps) => step / (keys * steps).max(1),
            Self::Time(time) => Self::generation_at(monotonic(), time),
        }
    }

    /// Returns the generation of keys at this instant of the machine's clock, in microseconds.
    #[must_use]
    pub fn generation_at(micros: i64, time: Duration) -> u64 {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        u64::try_from(micros).unwrap_or_default() / time
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 0,
            callers: 6,
            steps: 300,
            keys: 10,
            turn: Turn::Steps(16),
            lease: Duration::from_millis(20),
            kept: None,
            back: 0,
            purges: true,
            // Every store of the suite answers in less, so one that does not is broken, whatever it
            // answers later.
            patience: Duration::from_secs(5),
        }
    }
}

/// Returns a seed, that of the variable `IDEM_SEED` or a random one, and prints it.
#[must_use]
pub fn seed() -> u64 {
    let seed = std::env::var("IDEM_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(rand::random);
    println!("IDEM_SEED={seed}");
    seed
}

/// How long a caller waits after an error under faults, and after many: a store that is down is not
/// asked all the time, because each outcome that nobody knows makes the search longer.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Runs all callers to their end, and returns how many calls had no answer in time or panicked.
/// Errors of the store are part of the history, not of the run.
pub async fn drive(store: Arc<dyn IdempotencyStore>, plan: Plan) -> usize {
    run(store, plan, None).await
}

/// Runs all callers until `stop` is set, also when the store does not answer in time: faults are
/// done to it. Returns how many calls were dropped for that.
pub async fn drive_until(
    store: Arc<dyn IdempotencyStore>,
    plan: Plan,
    stop: Arc<AtomicBool>,
) -> usize {
    run(store, plan, Some(stop)).await
}

async fn run(store: Arc<dyn IdempotencyStore>, plan: Plan, stop: Option<Arc<AtomicBool>>) -> usize {
    let step = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for caller in 0..plan.callers {
        let caller = Caller {
            store: Arc::clone(&store),
            plan,
            random: StdRng::seed_from_u64(plan.seed.wrapping_mul(1_000_003) + caller),
            step: Arc::clone(&step),
            claims: Vec::new(),
            attempts: Vec::new(),
            stop: stop.clone(),
            pause: PAUSE,
            late: 0,
        };
        tasks.push(tokio::spawn(caller.run()));
    }
    let mut late = 0;
    for task in tasks {
        late += task.await.unwrap_or(1);
    }
    late
}

/// Returns every key of a generation.
pub fn keys_of(generation: u64, keys: u64) -> impl Iterator<Item = Key> {
    (0..keys).filter_map(move |number| spelled(generation, number))
}

/// Returns a key of a generation. Different keys that a careless store confuses are neighbours.
fn spelled(generation: u64, number: u64) -> Option<Key> {
    let id = format!("k{generation}");
    let long = "x".repeat(Key::MAX_ID_BYTES - id.len() - 1);
    let (scope, operation, id) = match number % 10 {
        0 => ("prove", "traffic", id),
        1 => ("prove", "traffic", id.to_uppercase()),
        2 => ("prove", "traffic", format!("{id} ")),
        3 => ("prove2", "traffic", id),
        4 => ("prove", "traffic2", id),
        5 => ("pro", "vetraffic", id),
        6 => ("prove", "traffic", format!("{id}\u{e9}")),
        7 => ("prove", "traffic", format!("{id}e\u{301}")),
        8 => ("prove", "traffic", format!("{id}{long}a")),
        _ => ("prove", "traffic", format!("{id}{long}b")),
    };
    Key::new(scope, operation, id).ok()
}

/// Returns one of a few responses under a claim, which a careless store changes.
fn response(claim: &Claim, number: u8) -> Response {
    let token = claim.token().as_i64();
    let response = match token % 4 {
        0 => Response::new(200, format!("{token} {number}")),
        1 => Response::new(40_000, vec![0, 255, 0xC3, number]),
        2 => Response::new(200, vec![number; 70_000]),
        _ => Response::new(201, ""),
    };
    response
        .with_header("z-last", format!("{token} {number}"))
        .with_header("a-first", "1")
        .with_header("z-last", "2")
}

struct Caller {
    store: Arc<dyn IdempotencyStore>,
    plan: Plan,
    random: StdRng,
    /// The steps of all callers, from which the keys follow.
    step: Arc<AtomicU64>,
    /// Claims that it acquired, also long ago.
    claims: Vec<Claim>,
    /// The latest requests, which it may repeat.
    attempts: Vec<ClaimRequest>,
    /// Ends it.
    stop: Option<Arc<AtomicBool>>,
    /// How long it waits after the next error.
    pause: Duration,
    /// The calls without an answer in time.
    late: usize,
}

impl Caller {
    async fn run(mut self) -> usize {
        for _ in 0..self.plan.steps {
            let stop = self.stop.as_ref();
            if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                break;
            }
            let step = self.step.fetch_add(1, Ordering::Relaxed);
            let mut generation = self.plan.turn.generation(step, self.plan.keys);
            if self.plan.back > 0 && self.random.random_bool(0.125) {
                let back = self.random.random_range(0..=self.plan.back);
                generation = generation.saturating_sub(back);
            }
            let number = self.random.random_range(0..self.plan.keys.max(1));
            let Some(key) = spelled(generation, number) else {
                continue;
            };
            match tokio::time::timeout(self.plan.patience, self.step(&key)).await {
                Ok(Err(Trouble)) if self.stop.is_some() => {
                    tokio::time::sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
                Ok(_) => self.pause = PAUSE,
                Err(_) => {
                    self.late += 1;
                    // It would wait for most of the rest, too.
                    if self.stop.is_none() {
                        break;
                    }
                }
            }
        }
        self.late
    }

    async fn step(&mut self, key: &Key) -> Result<(), Trouble> {
        match self.random.random_range(0..100) {
            0..45 => self.claim(key).await?,
            45..90 => self.hold().await?,
            90..96 => of(self.store.get(key).await)?,
            96..98 => of(self.store.fail_abandoned(50).await)?,
            _ if self.plan.purges => of(self.store.delete_expired(50).await)?,
            _ => {}
        }
        if self.random.random_bool(0.1) {
            let pause = self.some_time();
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }

    async fn claim(&mut self, key: &Key) -> Result<(), Trouble> {
        let again = self
            .attempts
            .iter()
            .rev()
            .find(|request| request.key() == key)
            .cloned();
        let repeats = self.random.random_bool(0.2);
        let request = match again.filter(|_| repeats) {
            Some(request) => request,
            None => self.request(key),
        };
        self.attempts.push(request.clone());
        if self.attempts.len() > 4 {
            self.attempts.remove(0);
        }
        let cut = self.random.random_bool(0.02);
        let claiming = self.store.claim(&request);
        let mut outcome = match cut {
            true => tokio::time::timeout(Duration::ZERO, claiming).await.ok(),
            false => Some(claiming.await),
        };
        // Some claims are repeated at once, as by a caller that got no answer.
        if outcome.is_some() && self.random.random_bool(0.1) {
            outcome = Some(self.store.claim(&request).await);
        }
        match outcome {
            Some(Ok(ClaimOutcome::Acquired(claim))) => {
                for _ in 0..self.random.random_range(0..3) {
                    // An answer to it says nothing about the claim.
                    let _ = self.checkpoint(&claim).await;
                }
                self.claims.push(claim);
                if self.claims.len() > 6 {
                    // Its lease ends: nobody comes back to it.
                    drop(self.claims.remove(0));
                }
                Ok(())
            }
            Some(Ok(_)) | None => Ok(()),
            Some(Err(error)) => of::<()>(Err(error)),
        }
    }

    fn request(&mut self, key: &Key) -> ClaimRequest {
        // The same text under two schemes is two requests.
        let fingerprint = match self.random.random_range(0..30) {
            0 => Fingerprint::raw("2"),
            1 => Fingerprint::json("1").unwrap_or_else(|_| Fingerprint::raw("2")),
            _ => Fingerprint::raw("1"),
        };
        let stale = match self.random.random_bool(0.7) {
            true => StalePolicy::TakeOver,
            false => StalePolicy::Fail,
        };
        let failed = match self.random.random_bool(0.3) {
            true => FailedPolicy::Retry,
            false => FailedPolicy::Replay,
        };
        ClaimRequest::new(key.clone(), fingerprint)
            .with_attempt(AttemptId::random())
            .with_lease(self.some_time())
            .with_retention(self.retention())
            .with_on_stale(stale)
            .with_on_failed(failed)
    }

    /// Does something with a claim, which may be long lost.
    async fn hold(&mut self) -> Result<(), Trouble> {
        if self.claims.is_empty() {
            return Ok(());
        }
        let at = self.random.random_range(0..self.claims.len());
        let claim = self.claims[at].clone();
        let retention = self.retention();
        let number: u8 = self.random.random_range(0..2);
        let lease = self.some_time();
        let failure = Failure::new(format!("code-{number}"), "made up");
        let response = response(&claim, number);
        let what = self.random.random_range(0..100);
        // Some are repeated at once, as by a caller that got no answer.
        let times = 1 + u32::from(self.random.random_bool(0.3));
        for _ in 0..times {
            match what {
                0..35 => of(self.store.complete(&claim, &response, retention).await)?,
                35..50 => of(self.store.fail(&claim, &failure, retention).await)?,
                50..70 => of(self.store.release(&claim).await)?,
                70..85 => of(self.store.renew(&claim, lease).await)?,
                _ => self.checkpoint(&claim).await?,
            }
        }
        Ok(())
    }

    /// Stores a checkpoint, or reads the latest.
    async fn checkpoint(&mut self, claim: &Claim) -> Result<(), Trouble> {
        let number: u8 = self.random.random_range(0..4);
        let saves = self.random.random_bool(0.5);
        let Some(checkpoints) = self.store.checkpoints() else {
            return Ok(());
        };
        // The last one is longer than a TEXT column.
        let length = if number == 3 { 70_000 } else { 1 };
        match Checkpoint::new("step", vec![number; length]) {
            Ok(checkpoint) if saves => of(checkpoints.checkpoint(claim, &checkpoint).await),
            _ => of(checkpoints.last_checkpoint(claim).await),
        }
    }

    /// Returns how long a result is kept.
    fn retention(&mut self) -> Duration {
        match self.plan.kept {
            Some(kept) if self.random.random_bool(0.75) => kept,
            _ => self.some_time() * 4,
        }
    }

    /// Returns a lease or a pause of whole milliseconds.
    fn some_time(&mut self) -> Duration {
        let most = u64::try_from(self.plan.lease.as_millis())
            .unwrap_or(u64::MAX)
            .max(2);
        Duration::from_millis(self.random.random_range(1..most))
    }
}

/// An error that is not the answer to a caller's own lateness: the store is in trouble.
struct Trouble;

/// Errors of the store are in the history; here they only slow its caller down.
fn of<T>(result: idem_core::Result<T>) -> Result<(), Trouble> {
    match result {
        Err(error)
            if !matches!(
                error.kind(),
                ErrorKind::ClaimLost | ErrorKind::AlreadySealed
            ) =>
        {
            Err(Trouble)
        }
        _ => Ok(()),
    }
}
