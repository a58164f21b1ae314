//! Runs in a transaction, and results that the work commits: whatever happens to the commit.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use idem_core::engine::{Transactional, as_store, transaction_ended};
use idem_core::{
    BoxError, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Idempotency,
    IdempotencyStore, MemoryStore, Outcome, Record, Response, Result, RunError,
};

use super::support::{Effects, Fault, MINUTES, Scripted, calm, idem, key};

/// A database beside a scripted store: rows and completion of a transaction take effect at its
/// commit. A claim in a transaction is seen at once, which these cases do not mind.
#[derive(Debug, Clone)]
struct Shelf {
    records: MemoryStore,
    store: Scripted,
    rows: Arc<Mutex<Vec<u32>>>,
    /// What the next seal finds.
    ended: Arc<Mutex<Option<Effect>>>,
}

#[derive(Debug, Default)]
struct Open {
    rows: Vec<u32>,
    claim: Option<Claim>,
    seal: Option<(Claim, Response, Duration)>,
}

impl Shelf {
    fn new() -> Self {
        let records = MemoryStore::new();
        Self {
            store: Scripted::over(records.clone()),
            records,
            rows: Arc::default(),
            ended: Arc::default(),
        }
    }

    fn rows(&self) -> Vec<u32> {
        self.rows.lock().unwrap().clone()
    }

    fn idem(&self) -> Idempotency {
        idem(&self.store, calm())
    }

    fn failure(&self) -> Option<String> {
        match self.store.peek() {
            Some(Record::Failed(failed)) => Some(failed.failure.code().to_owned()),
            _ => None,
        }
    }

    /// Writes a row in a transaction of the engine's, or in one of the work's.
    async fn run(&self, is_engines: bool, bodies: &Effects) -> Ran {
        let idem = self.idem();
        if is_engines {
            let work = async |mut tx: Tx, _| {
                tx.rows.push(bodies.happen());
                Ok(7)
            };
            return idem.run_in(self, key(), &1, work).await;
        }
        let work = async |work: idem_core::Work| {
            let body = async |mut tx: Tx| {
                tx.rows.push(bodies.happen());
                Ok(7)
            };
            work.commit(self, body).await
        };
        idem.run(key(), &1, work).await
    }
}

type Ran = Result<Outcome<u32>, RunError<BoxError, u32>>;
type Tx = idem_core::engine::Tx<Open>;

impl Transactional for Shelf {
    type Transaction = Open;

    fn is_of(&self, store: &dyn IdempotencyStore) -> bool {
        as_store::<Scripted>(store).is_some()
    }

    async fn begin(&self) -> Result<Open> {
        Ok(Open::default())
    }

    async fn claim(&self, open: &mut Open, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let outcome = self.records.claim(request).await?;
        if let ClaimOutcome::Acquired(claim) = &outcome {
            open.claim = Some(claim.clone());
        }
        Ok(outcome)
    }

    async fn seal(
        &self,
        open: &mut Open,
        claim: &Claim,
        to: &Response,
        kept: Duration,
    ) -> Result<()> {
        if let Some(effect) = self.ended.lock().unwrap().take() {
            if effect == Effect::Unknown {
                // The work has committed its claim.
                open.claim = None;
            }
            return Err(transaction_ended(effect));
        }
        // A store accepts the same completion twice.
        let record = self.records.get(claim.key()).await?;
        if !matches!(record, Some(Record::Completed(it)) if it.response == *to) {
            let _ = self.records.renew(claim, MINUTES).await?;
        }
        open.seal = Some((claim.clone(), to.clone(), kept));
        Ok(())
    }

    async fn commit(&self, open: Open) -> Result<()> {
        let commit = async {
            if let Some((claim, response, kept)) = &open.seal {
                self.records.complete(claim, response, *kept).await?;
            }
            self.rows.lock().unwrap().extend(&open.rows);
            Ok(())
        };
        let committed = self.store.act("commit", commit).await;
        if let (Err(error), Some(claim)) = (&committed, &open.claim)
            && error.effect() == Effect::None
        {
            self.records.release(claim).await?;
        }
        committed
    }

    async fn roll_back(&self, open: Open) {
        if let Some(claim) = open.claim {
            self.records.release(&claim).await.unwrap();
        }
    }

    fn is_retryable(&self, _: &(dyn StdError + 'static)) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_looked_up_when_its_answer_is_lost() {
    for is_engines in [true, false] {
        for (faults, bodies) in [
            (&[][..], 1),
            (&[Fault::Down, Fault::Contended], 3),
            (&[Fault::LostAnswer], 1),
            (&[Fault::Silence], 1),
        ] {
            let (shelf, counted) = (Shelf::new(), Effects::default());
            shelf.store.next("commit", faults);
            let case = format!("{faults:?}, by the engine: {is_engines}");
            let outcome = shelf.run(is_engines, &counted).await.unwrap();
            assert_eq!(outcome, Outcome::Fresh(7), "{case}");
            assert_eq!(
                (shelf.rows(), counted.count()),
                (vec![bodies], bodies),
                "{case}"
            );
            let again = shelf.run(is_engines, &counted).await.unwrap();
            assert_eq!(again.into_replayed(), Some(7), "{case}");
            assert_eq!(shelf.rows(), [bodies], "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_nobody_can_look_up_is_said_to_be_unknown() {
    for is_engines in [true, false] {
        let (shelf, counted) = (Shelf::new(), Effects::default());
        shelf.store.next("commit", &[Fault::LostAnswer]);
        shelf.store.always("renew", Fault::Down);
        let effect = match shelf.run(is_engines, &counted).await.unwrap_err() {
            RunError::NotStored { value: 7, source } if is_engines => source.effect(),
            RunError::Work(error) if !is_engines => {
                error.downcast_ref().map_or(Effect::None, Error::effect)
            }
            error => panic!("{error:?}"),
        };
        assert_eq!((effect, counted.count()), (Effect::Unknown, 1));
        shelf.store.heal();
        let again = shelf.run(is_engines, &counted).await.unwrap();
        assert_eq!((again.into_replayed(), shelf.rows()), (Some(7), vec![1]));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_after_a_commit_of_the_work() {
    let (shelf, counted) = (Shelf::new(), Effects::default());
    shelf.run(false, &counted).await.unwrap();
    tokio::time::sleep(2 * MINUTES).await;
    let calls = ["claim", "commit", "renew", "complete", "fail", "release"];
    assert_eq!(
        calls.map(|call| shelf.store.calls(call)),
        [1, 1, 0, 0, 0, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_work_that_commits_again_writes_its_rows_once() {
    for (how, fault, limit, is_committed) in [
        ("beside the first", Fault::Late, MINUTES, true),
        ("after a refusal", Fault::Broken, MINUTES, true),
        (
            "after an unknown end",
            Fault::LostAnswer,
            MINUTES * 9,
            false,
        ),
        (
            "after a drop",
            Fault::Silence,
            Duration::from_millis(1),
            false,
        ),
    ] {
        let shelf = Shelf::new();
        shelf.store.next("commit", &[fault]);
        shelf.store.always("renew", Fault::Down);
        let work = async |work: idem_core::Work| {
            let body = async |mut tx: Tx| {
                tx.rows.push(1);
                Ok(7_u32)
            };
            let commit = || tokio::time::timeout(limit, work.commit(&shelf, body));
            if how == "beside the first" {
                let (one, two) = tokio::join!(commit(), commit());
                return one?.or(two?);
            }
            assert!(!matches!(commit().await, Ok(Ok(_))), "{how}");
            commit().await?
        };
        let ran = shelf.idem().run(key(), &1, work).await;
        assert_eq!(shelf.rows(), [1], "{how}");
        assert_eq!(ran.is_ok(), is_committed, "{how}: {ran:?}");
        shelf.store.heal();
        let again = shelf.run(false, &Effects::default()).await.unwrap();
        assert_eq!((again.into_replayed(), shelf.rows()), (Some(7), vec![1]));
    }
}

#[tokio::test]
async fn a_claim_that_was_taken_over_is_not_committed() {
    let shelf = Shelf::new();
    let work = async |work: idem_core::Work| {
        let claim = work.claim().unwrap();
        shelf.records.release(&claim).await?;
        let other = ClaimRequest::new(key().clone(), idem_core::Fingerprint::raw("other"));
        let other = shelf.records.claim(&other).await?;
        assert_ne!(other.acquired().unwrap().token(), claim.token());
        let body = async |mut tx: Tx| {
            tx.rows.push(1);
            Ok(7_u32)
        };
        work.commit(&shelf, body).await
    };
    match shelf.idem().run(key(), &1, work).await {
        Err(RunError::Work(error)) => {
            assert!(
                error.downcast_ref().is_some_and(Error::is_claim_lost),
                "{error:?}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(shelf.rows().is_empty());
}

/// With an unknown effect the work may have committed rows: the key is failed, so that no retry
/// repeats them.
#[tokio::test]
async fn a_transaction_that_the_work_has_ended_is_not_sealed() {
    for is_engines in [true, false] {
        for (effect, failure) in [
            (Effect::None, None),
            (Effect::Unknown, Some(Failure::NOT_STORED)),
        ] {
            let (shelf, counted) = (Shelf::new(), Effects::default());
            *shelf.ended.lock().unwrap() = Some(effect);
            match shelf.run(is_engines, &counted).await {
                Err(RunError::Work(error)) => {
                    let kind = error.downcast_ref().map(Error::kind);
                    assert_eq!(kind, Some(ErrorKind::Misconfigured), "{error:?}");
                }
                other => panic!("{other:?}"),
            }
            assert_eq!((shelf.failure().as_deref(), counted.count()), (failure, 1));
            let again = shelf.run(is_engines, &counted).await;
            assert_eq!(again.is_ok(), failure.is_none(), "{again:?}");
        }
    }
}
