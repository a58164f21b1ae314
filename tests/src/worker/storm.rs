//! A worker's part in a race of processes.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, FailedPolicy, Failure, Fingerprint, IdempotencyStore,
    Response, Result,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Report, Storm};
use crate::CaseResult;
use crate::history::{Recorded, Recorder};

/// How often an operation without an answer is repeated.
const AGAIN: u32 = 20;

/// How long an abandoned record is kept: longer than any storm.
const ABANDONED: Duration = Duration::from_secs(3600);

pub(super) async fn run(store: &Arc<dyn IdempotencyStore>, storm: &Storm) -> CaseResult {
    let recorder = Recorder::create(&storm.history, storm.head.clone())?;
    let mut racer = Racer {
        store: Recorded::new(Arc::clone(store), recorder),
        storm,
        rng: StdRng::seed_from_u64(storm.seed),
    };
    for claim in 0..storm.claims {
        racer.one_claim(claim as usize).await;
        Report::Done.tell();
        if storm.rough {
            racer.pause(3).await;
        }
    }
    Ok(())
}

/// What a holder does with its claim.
#[derive(Debug, Clone, Copy)]
enum Op {
    Complete,
    Fail,
    Release,
    Renew,
}

struct Racer<'a> {
    store: Recorded<Arc<dyn IdempotencyStore>>,
    storm: &'a Storm,
    rng: StdRng,
}

impl Racer<'_> {
    /// Claims a key, and uses it if it is acquired. The key is random, or the next in order, so
    /// that all processes come to each key at about the same time.
    async fn one_claim(&mut self, number: usize) {
        let keys = &self.storm.keys;
        let at = match self.storm.rough {
            true => self.rng.random_range(0..keys.len()),
            false => number % keys.len(),
        };
        let key = &keys[at];
        let retries = self.storm.rough && self.rng.random_bool(0.3);
        let policy = if retries {
            FailedPolicy::Retry
        } else {
            FailedPolicy::Replay
        };
        let request = ClaimRequest::new(key.clone(), Fingerprint::raw(key.hashed()))
            .with_lease(self.storm.lease)
            .with_retention(ABANDONED)
            .with_on_failed(policy);
        for _ in 0..AGAIN {
            match self.store.claim(&request).await {
                Ok(ClaimOutcome::Acquired(claim)) => return self.hold(&claim).await,
                Err(error) if error.is_retryable() => self.pause(5).await,
                _ => return,
            }
        }
    }

    async fn hold(&mut self, claim: &Claim) {
        if !self.storm.rough {
            return self.complete(claim).await;
        }
        match self.rng.random_range(0..100) {
            0..40 => self.complete(claim).await,
            40..55 => self.step(claim, Op::Release).await,
            55..67 => self.step(claim, Op::Fail).await,
            67..77 => {}
            77..90 => {
                self.late().await;
                self.complete(claim).await;
            }
            _ => {
                self.step(claim, Op::Renew).await;
                self.late().await;
                self.complete(claim).await;
            }
        }
    }

    /// Sleeps for about as long as the lease, so that the holder comes just in time or just too
    /// late.
    async fn late(&mut self) {
        let part = self.rng.random_range(0.5..1.8);
        tokio::time::sleep(self.storm.lease.mul_f64(part)).await;
    }

    async fn complete(&mut self, claim: &Claim) {
        self.step(claim, Op::Complete).await;
    }

    async fn step(&mut self, claim: &Claim, op: Op) {
        let text = format!(
            "{op:?} by {} {}",
            self.storm.process,
            self.rng.random::<u32>()
        );
        for _ in 0..AGAIN {
            match self.perform(claim, op, &text).await {
                Err(error) if error.is_retryable() => self.pause(5).await,
                _ => return,
            }
        }
    }

    async fn perform(&self, claim: &Claim, op: Op, text: &str) -> Result<()> {
        let storm = self.storm;
        match op {
            Op::Complete => {
                let response = Response::new(200, text.to_owned());
                self.store.complete(claim, &response, storm.retention).await
            }
            Op::Fail => {
                let failure = Failure::new(text, "");
                self.store.fail(claim, &failure, storm.retention).await
            }
            Op::Release => self.store.release(claim).await,
            Op::Renew => self.store.renew(claim, storm.lease).await.map(drop),
        }
    }

    async fn pause(&mut self, most: u64) {
        let pause = self.rng.random_range(0..=most);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}
