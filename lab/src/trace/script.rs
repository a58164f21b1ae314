//! A script for each kind of transition, on a key of its own.

use std::time::Duration;

use idem_core::{
    AttemptId, BoxError, Checkpoint, Claim, ClaimOutcome, ClaimRequest, FailedPolicy, Failure,
    Fingerprint, IdempotencyStore, Key, Record, Response, StalePolicy,
};
use tokio::time::{Instant, sleep};

use super::TRANSITIONS;

/// The names of the scripts: those of the transitions, in which each ends.
pub const NAMES: [&str; 25] = TRANSITIONS;

const LONG: Duration = Duration::from_secs(3600);

/// What has to end soon: a little longer than a call takes.
const SHORT: Duration = Duration::from_millis(60);

/// How long something that has to happen may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Plays a script, which ends with the transition of that name, and returns its key. Redis deletes
/// records by itself, long after they have expired: no script waits for that.
///
/// # Errors
///
/// Another name, an error of the store, or another answer than the script's.
pub async fn play(store: &dyn IdempotencyStore, name: &str) -> Result<Key, BoxError> {
    let key = Key::new("prove", "trace", name)?;
    let script = Script { store, key };
    script.play(name).await?;
    Ok(script.key)
}

struct Script<'s> {
    store: &'s dyn IdempotencyStore,
    key: Key,
}

type Done = Result<(), BoxError>;

fn other(what: &str) -> BoxError {
    format!("the store answers otherwise: {what}").into()
}

impl Script<'_> {
    fn request(&self) -> ClaimRequest {
        ClaimRequest::new(self.key.clone(), Fingerprint::raw("request"))
            .with_attempt(AttemptId::random())
            .with_lease(LONG)
            .with_retention(LONG)
    }

    async fn acquire(&self, request: &ClaimRequest) -> Result<Claim, BoxError> {
        let outcome = self.store.claim(request).await?;
        let name = outcome.name();
        outcome.acquired().ok_or_else(|| other(name))
    }

    async fn claim(&self) -> Result<Claim, BoxError> {
        self.acquire(&self.request()).await
    }

    async fn wins(&self, request: &ClaimRequest) -> Done {
        self.acquire(request).await.map(drop)
    }

    async fn meets(&self, request: &ClaimRequest, name: &str) -> Done {
        let outcome = self.store.claim(request).await?;
        (outcome.name() == name)
            .then_some(())
            .ok_or_else(|| other(outcome.name()))
    }

    async fn complete(&self, claim: &Claim, retention: Duration) -> Done {
        let response = Response::new(200, "result");
        Ok(self.store.complete(claim, &response, retention).await?)
    }

    async fn fail(&self, claim: &Claim) -> Done {
        let failure = Failure::new("declined", "");
        Ok(self.store.fail(claim, &failure, LONG).await?)
    }

    async fn save(&self, claim: &Claim) -> Done {
        let points = self.store.checkpoints().ok_or("no checkpoints")?;
        let point = Checkpoint::new("step", vec![1])?;
        Ok(points.checkpoint(claim, &point).await?)
    }

    /// Repeats a step until it has happened.
    async fn until(&self, mut step: impl AsyncFnMut() -> Result<bool, BoxError>) -> Done {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            if step().await? {
                return Ok(());
            }
            sleep(SHORT / 4).await;
        }
        Err(other("nothing happens"))
    }

    async fn until_acquired(&self, request: &ClaimRequest) -> Done {
        self.until(async || {
            let outcome = self.store.claim(request).await?;
            Ok(matches!(outcome, ClaimOutcome::Acquired(_)))
        })
        .await
    }

    async fn until_failed(&self, mut step: impl AsyncFnMut() -> Done) -> Done {
        self.until(async || {
            step().await?;
            Ok(matches!(
                self.store.get(&self.key).await?,
                Some(Record::Failed(_))
            ))
        })
        .await
    }

    async fn until_purged(&self) -> Done {
        // This one has to have expired, too, when others are deleted. Redis deletes by itself, and says
        // 0.
        sleep(SHORT * 2).await;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            if self.store.delete_expired(100).await? > 0 {
                break;
            }
            sleep(SHORT / 4).await;
        }
        Ok(())
    }

    async fn play(&self, name: &str) -> Done {
        let at = NAMES.iter().position(|known| *known == name);
        match at.ok_or_else(|| other(name))? {
            at @ 0..=15 => self.writes(at).await,
            at => self.reads(at).await,
        }
    }

    async fn writes(&self, at: usize) -> Done {
        let short = self.request().with_lease(SHORT);
        let fails = short.clone().with_on_stale(StalePolicy::Fail);
        match at {
            0 => self.wins(&self.request()).await?,
            1 => {
                self.store.release(&self.claim().await?).await?;
                self.wins(&self.request()).await?;
            }
            2 => {
                self.complete(&self.claim().await?, SHORT).await?;
                self.until_acquired(&self.request()).await?;
            }
            3 => {
                self.wins(&short.with_retention(SHORT)).await?;
                sleep(SHORT * 3).await;
                self.until_acquired(&self.request()).await?;
            }
            4 => {
                let request = self.request();
                self.wins(&request).await?;
                self.wins(&request).await?;
            }
            5 => {
                self.wins(&short).await?;
                self.until_acquired(&self.request()).await?;
            }
            6 => {
                self.wins(&fails).await?;
                let next = self.request().with_on_stale(StalePolicy::Fail);
                self.until_failed(async || {
                    let outcome = self.store.claim(&next).await?;
                    (outcome.name() != "acquired")
                        .then_some(())
                        .ok_or_else(|| other("acquired"))
                })
                .await?;
            }
            7 => {
                self.fail(&self.claim().await?).await?;
                let retry = self.request().with_on_failed(FailedPolicy::Retry);
                self.wins(&retry).await?;
            }
            8 => self.complete(&self.claim().await?, LONG).await?,
            9 => self.fail(&self.claim().await?).await?,
            10 => drop(self.store.renew(&self.claim().await?, LONG * 2).await?),
            11 => self.store.release(&self.claim().await?).await?,
            12 => self.save(&self.claim().await?).await?,
            13 => {
                self.wins(&fails).await?;
                self.until_failed(async || {
                    self.store.fail_abandoned(100).await?;
                    Ok(())
                })
                .await?;
            }
            14 => {
                self.complete(&self.claim().await?, SHORT).await?;
                self.until_purged().await?;
            }
            _ => {
                self.store.release(&self.claim().await?).await?;
                self.until_purged().await?;
            }
        }
        Ok(())
    }

    async fn reads(&self, at: usize) -> Done {
        let short = self.request().with_lease(SHORT);
        match at {
            16 => {
                self.wins(&self.request()).await?;
                let other = ClaimRequest::new(self.key.clone(), Fingerprint::raw("other"));
                self.meets(&other, "conflict").await?;
            }
            17 => {
                self.wins(&self.request()).await?;
                self.meets(&self.request(), "in_flight").await?;
            }
            18 => {
                self.complete(&self.claim().await?, LONG).await?;
                self.meets(&self.request(), "completed").await?;
            }
            19 => {
                self.fail(&self.claim().await?).await?;
                self.meets(&self.request(), "failed").await?;
            }
            20 => {
                let late = self.acquire(&short).await?;
                self.until_acquired(&self.request()).await?;
                self.refused(&self.complete(&late, LONG).await)?;
            }
            21 => {
                let claim = self.claim().await?;
                self.complete(&claim, LONG).await?;
                self.refused(&self.fail(&claim).await)?;
            }
            22 => {
                let claim = self.claim().await?;
                self.complete(&claim, LONG).await?;
                self.complete(&claim, LONG).await?;
            }
            23 => {
                let claim = self.claim().await?;
                self.store.release(&claim).await?;
                self.store.release(&claim).await?;
            }
            _ => {
                self.complete(&self.claim().await?, LONG).await?;
                self.store.get(&self.key).await?;
            }
        }
        Ok(())
    }

    fn refused(&self, result: &Done) -> Done {
        match result {
            Ok(()) => Err(other("a call that has to be refused was not")),
            Err(_) => Ok(()),
        }
    }
}
