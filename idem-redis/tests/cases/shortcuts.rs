//! Claims that read first, or are made in a batch, get the same decision as one that is made alone.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    ClaimOutcome, ClaimRequest, FailedPolicy, Failure, Fingerprint, IdempotencyStore, Response,
};
use idem_redis::RedisStore;
use tokio::task::JoinSet;

use super::{HOUR, case};
use crate::support;

pub(super) const NO_SHORTCUT_CHANGES_A_VERDICT: Case =
    case(1, "no_shortcut_changes_a_verdict", |cx| {
        Box::pin(no_shortcut_changes_a_verdict(cx))
    });
pub(super) const ONE_OF_A_CROWD_WINS_WHATEVER_WAS_LEARNT: Case =
    case(1, "one_of_a_crowd_wins_whatever_was_learnt", |cx| {
        Box::pin(one_of_a_crowd_wins_whatever_was_learnt(cx))
    });

const CONCURRENT: usize = 200;
const MOMENT: Duration = Duration::from_millis(1);

/// Claims that the record answers, so that the next one reads first.
async fn record_taken_keys(cx: &Context, store: &RedisStore) -> CaseResult {
    let known = cx.request(&cx.key("known"));
    if let Some(claim) = store.claim(&known).await?.acquired() {
        store
            .complete(&claim, &Response::new(200, "done"), HOUR)
            .await?;
    }
    for _ in 0..30 {
        let outcome = store.claim(&cx.request(known.key())).await?;
        assert_eq!(outcome.name(), "completed");
    }
    Ok(())
}

async fn record_free_keys(cx: &Context, store: &RedisStore, name: &str) -> CaseResult {
    for number in 0..30 {
        let request = cx.request(&cx.key(format!("free {name} {number}")));
        assert_eq!(store.claim(&request).await?.name(), "acquired");
    }
    Ok(())
}

/// The claim, alone or while many others are made.
async fn claim(
    cx: &Context,
    store: &RedisStore,
    request: &ClaimRequest,
    others: Option<&str>,
) -> CaseResult<ClaimOutcome> {
    let mut beside = JoinSet::new();
    for number in 0..others.map_or(0, |_| CONCURRENT) {
        let (store, name) = (store.clone(), others.unwrap_or_default());
        let other = cx.request(&cx.key(format!("beside {name} {number}")));
        beside.spawn(async move { store.claim(&other).await.map(|outcome| outcome.name()) });
    }
    let (own, request) = (store.clone(), request.clone());
    let claimed = tokio::spawn(async move { own.claim(&request).await });
    for outcome in beside.join_all().await {
        assert_eq!(outcome?, "acquired");
    }
    Ok(claimed.await??)
}

/// A key in each state, and the decision about a claim of it.
async fn decisions(
    cx: &Context,
    store: &RedisStore,
    way: &str,
    expects_taken: bool,
    is_concurrent: bool,
) -> CaseResult {
    let states = [
        ("free", "acquired"),
        ("own", "acquired"),
        ("held", "in_flight"),
        ("other request", "conflict"),
        ("stale", "acquired"),
        ("released", "acquired"),
        ("failed", "failed"),
        ("failed, again", "acquired"),
        ("completed", "completed"),
        ("ended", "acquired"),
    ];
    for (state, expected) in states {
        let name = format!("{way} {state}");
        let mut first = cx.request(&cx.key(&name));
        if state == "stale" {
            first = first.with_lease(MOMENT);
        }
        let held = if state == "free" {
            None
        } else {
            store.claim(&first).await?.acquired()
        };
        let mut request = cx.request(first.key());
        if let Some(held) = &held {
            match state {
                "own" => request = first.clone(),
                "other request" => {
                    request = ClaimRequest::new(first.key().clone(), Fingerprint::raw("another"));
                }
                "released" => store.release(held).await?,
                "failed" | "failed, again" => {
                    store
                        .fail(held, &Failure::new("no", "it failed"), HOUR)
                        .await?;
                }
                "completed" => {
                    store.complete(held, &Response::new(200, "x"), HOUR).await?;
                }

                "ended" => {
                    store
                        .complete(held, &Response::new(200, "x"), MOMENT)
                        .await?;
                }

                _ => {}
            }
        }
        if state == "failed, again" {
            request = request.with_on_failed(FailedPolicy::Retry);
        }
        if expects_taken {
            record_taken_keys(cx, store).await?;
        } else {
            record_free_keys(cx, store, &name).await?;
        }
        tokio::time::sleep(2 * MOMENT).await;
        let others = is_concurrent.then_some(name.as_str());
        let outcome = claim(cx, store, &request, others).await?;
        assert_eq!(outcome.name(), expected, "{name}");
        let (Some(held), Some(claim)) = (held, outcome.acquired()) else {
            continue;
        };
        if state == "own" {
            assert_eq!(claim.token(), held.token(), "{name}");
        } else {
            assert!(claim.token() > held.token(), "{name}");
        }
        let attempts = if matches!(state, "stale" | "failed, again") {
            2
        } else {
            1
        };
        assert_eq!(claim.attempts(), attempts, "{name}");
        store
            .complete(&claim, &Response::new(200, "x"), HOUR)
            .await?;
    }
    Ok(())
}

async fn no_shortcut_changes_a_verdict(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    decisions(cx, &store, "free, alone", false, false).await?;
    decisions(cx, &store, "taken, alone", true, false).await?;
    decisions(cx, &store, "free, concurrent", false, true).await?;
    decisions(cx, &store, "taken, concurrent", true, true).await
}

async fn one_of_a_crowd_wins_whatever_was_learnt(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for expects_taken in [false, true] {
        if expects_taken {
            record_taken_keys(cx, &store).await?;
        }
        for round in 0..10 {
            let key = cx.key(format!("{expects_taken} {round}"));
            let mut racers = JoinSet::new();
            for _ in 0..CONCURRENT {
                let (store, request) = (store.clone(), cx.request(&key));
                racers.spawn(async move { store.claim(&request).await });
            }
            let mut won = Vec::new();
            for outcome in racers.join_all().await {
                match outcome? {
                    ClaimOutcome::Acquired(claim) => won.push(claim),
                    outcome => assert_eq!(outcome.name(), "in_flight"),
                }
            }
            assert_eq!(won.len(), 1, "{expects_taken} {round}");
            let kept = store.get(&key).await?.expect("in flight");
            assert_eq!(kept.info().token, won[0].token());
            // The next round begins as this one did.
            if expects_taken {
                record_taken_keys(cx, &store).await?;
            }
        }
    }
    Ok(())
}
