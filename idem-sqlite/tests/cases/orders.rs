//! A claim that writes first and one that reads first come to the same.

use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    AttemptId, BatchStore, Claim, ClaimOutcome, ClaimRequest, FailedPolicy, Failure,
    IdempotencyStore, Response, StalePolicy,
};
use idem_sqlite::SqliteStore;

use super::case;
use crate::support;

pub(super) const WHAT_THE_TRAFFIC_HAS_TAUGHT_CHANGES_NO_VERDICT: Case =
    case(1, "what_the_traffic_has_taught_changes_no_verdict", |cx| {
        Box::pin(what_the_traffic_has_taught_changes_no_verdict(cx))
    });
pub(super) const CLAIMS_OF_EITHER_ORDER_HAVE_ONE_WINNER: Case =
    case(1, "claims_of_either_order_have_one_winner", |cx| {
        Box::pin(claims_of_either_order_have_one_winner(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// More claims than it takes to change what is expected.
const LESSONS: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    WriteFirst,
    ReadFirst,
}

/// A store that was taught by claims of the same operation.
async fn taught(cx: &Context, order: Order) -> CaseResult<SqliteStore> {
    let store = support::store(cx.namespace()).await?;
    let held = cx.key("lesson");
    for _ in 0..LESSONS {
        let key = match order {
            Order::WriteFirst => {
                let random = u128::from_be_bytes(*AttemptId::random().as_bytes());
                cx.key(format!("lesson-{random}"))
            }
            Order::ReadFirst => held.clone(),
        };
        if let ClaimOutcome::Acquired(claim) = store.claim(&cx.request(&key)).await? {
            store
                .complete(&claim, &Response::new(200, "learnt"), HOUR)
                .await?;
        }
    }
    Ok(store)
}

/// The ways a claim can go: the two orders, those of batches, and that of a caller's transaction.
#[derive(Debug, Clone, Copy)]
enum Way {
    Alone(Order),
    Batch(Order),
    Transaction,
}

async fn claim(store: &SqliteStore, way: Way, request: &ClaimRequest) -> CaseResult<ClaimOutcome> {
    Ok(match way {
        Way::Alone(_) => store.claim(request).await?,
        Way::Batch(_) => {
            let requests = std::slice::from_ref(request);
            let mut answers = store.claim_many(requests).await;
            answers.pop().expect("one answer")?
        }
        Way::Transaction => {
            let mut transaction = store.pool().begin_with("BEGIN IMMEDIATE").await?;
            let outcome = store.claim_in(&mut transaction, request).await?;
            transaction.commit().await?;
            outcome
        }
    })
}

async fn what_the_traffic_has_taught_changes_no_verdict(cx: &Context) -> CaseResult {
    use Order::{ReadFirst, WriteFirst};
    let ways = [
        Way::Alone(WriteFirst),
        Way::Alone(ReadFirst),
        Way::Batch(WriteFirst),
        Way::Batch(ReadFirst),
        Way::Transaction,
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let order = match way {
            Way::Alone(order) | Way::Batch(order) => order,
            Way::Transaction => WriteFirst,
        };
        let prepared = prepared(cx, number).await?;
        for (request, expected) in &prepared {
            // Anew each time, because each claim teaches something.
            let store = taught(cx, order).await?;
            let outcome = claim(&store, way, request).await?;
            assert_eq!(
                &described(&outcome),
                expected,
                "{way:?}, {:?}",
                request.key()
            );
        }
    }
    Ok(())
}

/// The verdict, and of an acquisition whether it is the first since the key was fresh.
fn described(outcome: &ClaimOutcome) -> String {
    match outcome {
        ClaimOutcome::Acquired(claim) => format!("acquired {}", claim.attempts()),
        other => other.name().to_owned(),
    }
}

/// A request for a key in each state, and what it is to be told.
async fn prepared(cx: &Context, number: usize) -> CaseResult<Vec<(ClaimRequest, String)>> {
    let key = |name: &str| cx.key(format!("{name}-{number}"));
    let hold = async |name: &str| cx.claim(&cx.request(&key(name))).await;
    let (store, request) = (cx.store(), |name: &str| cx.request(&key(name)));
    let seal = async |claim: Claim, retention| {
        store
            .complete(&claim, &Response::new(200, "done"), retention)
            .await
    };
    let fail = async |claim: Claim| store.fail(&claim, &Failure::new("no", "no"), HOUR).await;

    seal(hold("completed").await?, HOUR).await?;
    fail(hold("failed").await?).await?;
    fail(hold("retried").await?).await?;
    let _held = hold("held").await?;
    store.release(&hold("released").await?).await?;
    seal(hold("expired").await?, cx.short()).await?;
    for name in ["stale", "stale-fails", "stale-other"] {
        cx.leave_stale(&request(name)).await?;
    }
    let own = request("own");
    let _own = cx.claim(&own).await?;
    cx.until_free(&key("expired")).await?;
    let cases = [
        (request("fresh"), "acquired 1"),
        (request("completed"), "completed"),
        (request("failed"), "failed"),
        (
            request("retried").with_on_failed(FailedPolicy::Retry),
            "acquired 2",
        ),
        (request("held"), "in_flight"),
        (request("released"), "acquired 1"),
        (request("expired"), "acquired 1"),
        (request("stale"), "acquired 2"),
        (
            request("stale-fails").with_on_stale(StalePolicy::Fail),
            "failed",
        ),
        (cx.other_request(&key("stale-other")), "conflict"),
        (cx.other_request(&key("completed")), "conflict"),
        (own, "acquired 1"),
    ];
    Ok(cases
        .map(|(request, told)| (request, told.to_owned()))
        .into())
}

/// Those who read first may see no record and write too late; those who write first may meet one that is gone when they
/// read it, because its holder has released it.
async fn claims_of_either_order_have_one_winner(cx: &Context) -> CaseResult {
    use Order::{ReadFirst, WriteFirst};
    let stores = [taught(cx, WriteFirst).await?, taught(cx, ReadFirst).await?].map(Arc::new);
    for round in 0..60 {
        let key = cx.key(format!("raced-{round}"));
        let mut racers = tokio::task::JoinSet::new();
        for (number, store) in stores.iter().cycle().take(8).enumerate() {
            let (store, request) = (Arc::clone(store), cx.request(&key));
            racers.spawn(async move {
                match number < 6 {
                    true => store.claim(&request).await,
                    false => store.claim_many(&[request]).await.remove(0),
                }
            });
        }
        // In every other round the winner gives up at once, so that there may be several, one after the other.
        let releases = round % 2 == 1;
        let mut tokens = Vec::new();
        while let Some(outcome) = racers.join_next().await {
            if let ClaimOutcome::Acquired(claim) = outcome?? {
                tokens.push(claim.token());
                if releases {
                    cx.store().release(&claim).await?;
                }
            }
        }
        let winners = tokens.len();
        assert!(winners == 1 || releases && winners > 1, "{winners} winners");
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), winners, "each has a token of its own");
    }
    Ok(())
}
