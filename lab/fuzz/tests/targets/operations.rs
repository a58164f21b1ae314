//! The memory store beside the specification, with operations from bytes.

use std::time::{Duration, Instant};

use idem_conformance::history::{Calls, Head, Recorded, Recorder, VERSION};
use idem_conformance::oracle::judge;
use idem_conformance::search::Bounds;
use idem_core::{
    AttemptId, Checkpoint, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, FailedPolicy,
    Failure, Fingerprint, IdempotencyStore, Key, MemoryStore, Response, StalePolicy,
};
use idem_fuzz::Input;

/// The random inputs, which are few because time has to pass in them.
const RANDOM: usize = 300;

/// A lease or retention that ends within an input.
const SHORT: Duration = Duration::from_millis(1);

/// One that does not.
const LONG: Duration = Duration::from_secs(3600);

struct Caller {
    store: Recorded<MemoryStore>,
    claims: Vec<Claim>,
    waits: u32,
}

impl Caller {
    async fn step(&mut self, input: &mut Input<'_>) {
        let kind = input.below(16);
        match kind {
            0..5 => self.claim(input).await,
            5 => self.wait(),
            6 => drop(self.store.fail_abandoned(10).await),
            7 => drop(self.store.delete_expired(10).await),
            8 => drop(self.store.get(&key(input)).await),
            _ => self.hold(kind, input).await,
        }
    }

    async fn claim(&mut self, input: &mut Input<'_>) {
        let key = key(input);
        let choices = input.byte();
        let chosen = |bit: u8| choices & (1 << bit) != 0;
        let request = ClaimRequest::new(key, Fingerprint::raw([choices >> 6]))
            .with_attempt(attempt(choices, input.byte() % 3))
            .with_lease(if chosen(0) { SHORT } else { LONG })
            .with_retention(if chosen(1) { SHORT } else { LONG })
            .with_on_stale(if chosen(2) {
                StalePolicy::Fail
            } else {
                StalePolicy::TakeOver
            })
            .with_on_failed(if chosen(3) {
                FailedPolicy::Retry
            } else {
                FailedPolicy::Replay
            });
        if let Ok(ClaimOutcome::Acquired(claim)) = self.store.claim(&request).await {
            self.claims.push(claim);
        }
    }

    async fn hold(&mut self, kind: usize, input: &mut Input<'_>) {
        if self.claims.is_empty() {
            return;
        }
        let claim = self.claims[input.below(256) % self.claims.len()].clone();
        let choices = input.byte();
        let lasts = if choices & 1 == 0 { LONG } else { SHORT };
        let number = (choices >> 1) % 2;
        match kind {
            9 | 10 => {
                let response = Response::new(200, vec![number]);
                let _ = self.store.complete(&claim, &response, lasts).await;
            }
            11 => {
                let failure = Failure::new(format!("code-{number}"), "");
                let _ = self.store.fail(&claim, &failure, lasts).await;
            }
            12 => drop(self.store.release(&claim).await),
            13 => drop(self.store.renew(&claim, lasts).await),
            14 => {
                let point = Checkpoint::new("step", vec![number]).unwrap();
                let _ = self.store.checkpoint(&claim, &point).await;
            }
            _ => drop(self.store.last_checkpoint(&claim).await),
        }
    }

    /// Lets short leases end, a few times.
    fn wait(&mut self) {
        if self.waits == 3 {
            return;
        }
        self.waits += 1;
        let begun = Instant::now();
        while begun.elapsed() < SHORT * 2 {
            std::hint::spin_loop();
        }
    }
}

/// One attempt makes one request: a repetition has the same terms.
fn attempt(choices: u8, number: u8) -> AttemptId {
    let mut bytes = [1 + number; 16];
    bytes[0] = choices;
    AttemptId::from_bytes(bytes)
}

fn key(input: &mut Input<'_>) -> Key {
    Key::new("s", "o", format!("{}", input.below(2))).unwrap()
}

/// Every answer of the store is one of the specification.
#[test]
fn memory() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.ndjson");
    check!("operations::memory", RANDOM, |bytes: &[u8]| {
        let head = Head {
            v: VERSION,
            cell: "memory".to_owned(),
            seed: 0,
            quantum: 1,
            asks_again: false,
            caches: false,
        };
        let _ = std::fs::remove_file(&path);
        let recorder = Recorder::create(&path, head).unwrap();
        let mut caller = Caller {
            store: Recorded::new(MemoryStore::new(), recorder),
            claims: Vec::new(),
            waits: 0,
        };
        let mut input = Input(bytes);
        for _ in 0..40 {
            if input.is_empty() {
                break;
            }
            runtime.block_on(caller.step(&mut input));
        }
        let history = Calls::read(&path).unwrap().history().unwrap();
        let judgement = judge(&history, Bounds::default());
        assert!(judgement.is_accepted(), "{judgement}");
    });
}
