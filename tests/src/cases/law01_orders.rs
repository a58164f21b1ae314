//! Law 1, whatever the store has learned: a claim that writes first and one that reads first have
//! the same outcome.

use std::sync::Arc;

use futures_util::future::try_join_all;
use idem_core::{BatchStore, ClaimOutcome, ClaimRequest, IdempotencyStore, Response};
use rand::RngExt;
use tokio::task::JoinSet;

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::states::described;
use crate::{CaseResult, Context, Promise, race};

cases! { law 1:
    what_the_traffic_has_taught_changes_no_verdict: expensive,
    claims_of_either_order_have_one_winner: expensive,
}

/// More claims than are needed to change the estimate.
const LESSONS: usize = 20;

/// Claims after each tested claim, so that the estimator forgets it.
const REPETITIONS: usize = 2;

/// What the claims of an operation have met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lesson {
    FreshKeys,
    Duplicates,
}

/// The company of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Alone,
    Batch,
    Crowd,
}

/// Shows the store more claims of the operation, all at once: one after the other they would take
/// most of the time of these cases.
async fn teach(
    cx: &Context,
    store: &dyn IdempotencyStore,
    lesson: Lesson,
    lessons: usize,
) -> CaseResult {
    let lessons = (0..lessons).map(|_| async {
        let key = match lesson {
            Lesson::FreshKeys => cx.key(format!("lesson {:032x}", cx.rng().random::<u128>())),
            Lesson::Duplicates => cx.key("lesson"),
        };
        let request = cx.request(&key);
        let claim = race::ask(cx.asked_again(), || store.claim(&request)).await?;
        if let ClaimOutcome::Acquired(claim) = claim {
            let learnt = Response::new(200, secret("learnt"));
            store.complete(&claim, &learnt, LONG).await?;
        }
        CaseResult::Ok(())
    });
    try_join_all(lessons).await.map(drop)
}

async fn claim_in_batch(
    store: &dyn BatchStore,
    request: &ClaimRequest,
) -> CaseResult<ClaimOutcome> {
    let mut answers = store.claim_many(std::slice::from_ref(request)).await;
    ensure_eq!(answers.len(), 1, "answers");
    Ok(answers.remove(0)?)
}

/// Checks the outcomes of claims in every state, after these samples.
async fn verdicts(cx: &Context, lesson: Lesson, way: Way) -> CaseResult {
    let batch = match way {
        Way::Batch => Some(cx.open_batch().await?),
        Way::Alone | Way::Crowd => None,
    };
    let store = match &batch {
        Some(batch) => Arc::clone(batch) as Arc<dyn IdempotencyStore>,
        None => cx.open().await?,
    };
    let series = format!("{lesson:?} {way:?}");
    let expected = cx.claims_in_every_state(&series).await?;
    teach(cx, &*store, lesson, LESSONS).await?;
    for expected in expected {
        let request = &expected.request;
        let outcome = match (way, &batch) {
            (Way::Crowd, _) => cx.claim_in_a_crowd(&store, request).await?,
            (_, Some(batch)) => claim_in_batch(&**batch, request).await?,
            (_, None) => store.claim(request).await?,
        };
        let returned = described(&outcome);
        ensure_eq!(
            returned,
            expected.returned,
            "{lesson:?}, {way:?}: {}",
            request.key().id()
        );
        let lessons = match way {
            Way::Crowd => LESSONS,
            Way::Alone | Way::Batch => REPETITIONS,
        };
        teach(cx, &*store, lesson, lessons).await?;
    }
    Ok(())
}

async fn what_the_traffic_has_taught_changes_no_verdict(cx: &Context) -> CaseResult {
    let mut ways = vec![Way::Alone, Way::Crowd];
    ways.extend(cx.profile().promises(Promise::Batch).then_some(Way::Batch));
    for way in ways {
        for lesson in [Lesson::FreshKeys, Lesson::Duplicates] {
            verdicts(cx, lesson, way).await?;
        }
    }
    Ok(())
}

/// A claim that reads first may see no record and write too late. A claim that writes first may
/// meet a record that it has not seen, or that is gone when it reads it, because its holder has
/// released it.
async fn claims_of_either_order_have_one_winner(cx: &Context) -> CaseResult {
    const ROUNDS: usize = 60;
    const RACERS: usize = 6;
    let stores = [cx.open().await?, cx.open().await?];
    for (store, lesson) in stores.iter().zip([Lesson::FreshKeys, Lesson::Duplicates]) {
        teach(cx, &**store, lesson, LESSONS).await?;
    }
    let batch = match cx.profile().promises(Promise::Batch) {
        true => Some(cx.open_batch().await?),
        false => None,
    };
    for round in 0..ROUNDS {
        let key = cx.key(format!("raced {round}"));
        let mut racers = JoinSet::new();
        for store in stores.iter().cycle().take(RACERS) {
            let (store, request) = (Arc::clone(store), cx.request(&key));
            let asked = Arc::clone(cx.asked_again());
            racers.spawn(async move { race::ask(&asked, || store.claim(&request)).await });
        }
        for batch in batch.iter().flat_map(|batch| [batch, batch]) {
            let (batch, request) = (Arc::clone(batch), cx.request(&key));
            let asked = Arc::clone(cx.asked_again());
            racers.spawn(async move {
                let requests = [request];
                let claim = || async { batch.claim_many(&requests).await.remove(0) };
                race::ask(&asked, claim).await
            });
        }
        // In every other round the winner releases at once, so that there may be several winners in
        // turn.
        let releases = round % 2 == 1;
        let mut tokens = Vec::new();
        while let Some(outcome) = racers.join_next().await {
            if let ClaimOutcome::Acquired(claim) = outcome?? {
                tokens.push(claim.token());
                if releases {
                    race::ask(cx.asked_again(), || cx.store().release(&claim)).await?;
                }
            }
        }
        let winners = tokens.len();
        ensure!(winners == 1 || releases && winners > 1, "{winners} winners");
        tokens.sort_unstable();
        tokens.dedup();
        ensure_eq!(tokens.len(), winners, "tokens of the winners");
    }
    Ok(())
}
