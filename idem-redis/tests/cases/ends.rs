//! Claims that are ended in a batch end as one that is ended alone.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    BatchStore, Claim, ClaimRequest, ErrorKind, Failure, Finish, IdempotencyStore, Record,
    Response, Result,
};
use idem_redis::RedisStore;
use tokio::task::JoinSet;

use super::{HOUR, case};
use crate::support;

pub(super) const NO_SHORTCUT_CHANGES_HOW_A_CLAIM_ENDS: Case =
    case(5, "no_shortcut_changes_how_a_claim_ends", |cx| {
        Box::pin(no_shortcut_changes_how_a_claim_ends(cx))
    });

const CONCURRENT: usize = 32;
const MOMENT: Duration = Duration::from_millis(1);

/// The ways in which a claim is ended.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Alone,
    /// While many others are ended.
    Concurrent,
    /// With another one in `finish_many`.
    Many,
}

/// The ends of a claim; each is repeated with the first.
fn ends(claim: &Claim) -> [Finish; 3] {
    let claim = || claim.clone();
    [
        Finish::Complete {
            claim: claim(),
            response: Response::new(200, "done"),
            retention: HOUR,
        },
        Finish::Fail {
            claim: claim(),
            failure: Failure::new("no", "it failed"),
            retention: HOUR,
        },
        Finish::Release { claim: claim() },
    ]
}

async fn finish(store: &RedisStore, end: &Finish) -> Result<()> {
    match end {
        Finish::Complete {
            claim,
            response,
            retention,
        } => store.complete(claim, response, *retention).await,
        Finish::Fail {
            claim,
            failure,
            retention,
        } => store.fail(claim, failure, *retention).await,
        Finish::Release { claim } => store.release(claim).await,
    }
}

async fn finish_in(
    cx: &Context,
    store: &RedisStore,
    way: Way,
    name: &str,
    end: &Finish,
) -> CaseResult<Result<()>> {
    if way == Way::Many {
        let other = cx
            .claim(&cx.request(&cx.key(format!("with {name}"))))
            .await?;
        let [_, _, release] = ends(&other);
        let mut done = store.finish_many(&[release, end.clone()]).await;
        let own = done.pop().ok_or("no answer")?;
        done.pop().ok_or("no answer")??;
        return Ok(own);
    }
    let mut beside = JoinSet::new();
    if way == Way::Concurrent {
        for number in 0..CONCURRENT {
            let (store, request) = (
                store.clone(),
                cx.request(&cx.key(format!("beside {name} {number}"))),
            );
            beside.spawn(async move {
                let claim = store.claim(&request).await?.acquired();
                let claim = claim.ok_or_else(|| idem_core::Error::corrupt("not acquired"))?;
                finish(&store, &ends(&claim)[number % 3]).await
            });
        }
    }
    let (own, end) = (store.clone(), end.clone());
    let ended = tokio::spawn(async move {
        // By then the others end their claims.
        tokio::time::sleep(MOMENT).await;
        finish(&own, &end).await
    });
    for other in beside.join_all().await {
        other?;
    }
    Ok(ended.await?)
}

/// Returns the state of the key's record, after a check that nothing else has changed.
async fn state(store: &RedisStore, request: &ClaimRequest) -> CaseResult<&'static str> {
    let Some(record) = store.get(request.key()).await? else {
        return Ok("absent");
    };
    assert_eq!(record.info().metadata, *request.metadata());
    assert_eq!(record.info().fingerprint, *request.fingerprint());
    Ok(match record {
        Record::InFlight(_) => "in flight",
        Record::Completed(record) => {
            assert_eq!(record.response, Response::new(200, "done"));
            "completed"
        }
        Record::Failed(_) => "failed",
    })
}

async fn no_shortcut_changes_how_a_claim_ends(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let states = ["completed", "failed", "absent"];
    for way in [Way::Alone, Way::Concurrent, Way::Many] {
        for first in 0..3 {
            for before in ["held", "stale", "ended", "lost"] {
                let name = format!("{way:?} {first} {before}");
                let mut request = cx.request(&cx.key(&name));
                if before != "held" {
                    request = request.with_lease(MOMENT);
                }
                if before == "ended" {
                    request = request.with_retention(MOMENT);
                }
                let claim = store.claim(&request).await?.acquired().ok_or("not fresh")?;
                tokio::time::sleep(5 * MOMENT).await;
                if before == "lost" {
                    request = cx.request(request.key());
                    let taken = store.claim(&request).await?;
                    assert_eq!(taken.name(), "acquired", "{name}");
                }
                let ends = ends(&claim);
                let done = finish_in(cx, &store, way, &name, &ends[first]).await?;
                if matches!(before, "ended" | "lost") {
                    assert_eq!(done.unwrap_err().kind(), ErrorKind::ClaimLost, "{name}");
                    let expected = if before == "lost" {
                        "in flight"
                    } else {
                        "absent"
                    };
                    assert_eq!(state(&store, &request).await?, expected, "{name}");
                    continue;
                }
                done?;
                assert_eq!(state(&store, &request).await?, states[first], "{name}");
                for (second, end) in ends.iter().enumerate() {
                    let again = format!("{name} {second}");
                    let done = finish_in(cx, &store, way, &again, end).await?;
                    let kind = done.map_err(|error| error.kind());
                    let expected = match (first, second) {
                        _ if first == second => Ok(()),
                        (0 | 1, 0 | 1) => Err(ErrorKind::AlreadySealed),
                        _ => Err(ErrorKind::ClaimLost),
                    };
                    assert_eq!(kind, expected, "{again}");
                    assert_eq!(state(&store, &request).await?, states[first], "{again}");
                }
            }
        }
    }
    Ok(())
}
