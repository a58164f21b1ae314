//! Laws 5 and 8 with thousands of records: deletions and sweeps beside calls of the same keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idem_core::{Claim, ClaimRequest, Failure, IdempotencyStore, Record, Response, StalePolicy};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::ensure_eq;
use crate::secrets::secret;
use crate::{CaseError, CaseResult, Context, expect, race};

cases! { LAW08, law 8:
    thousands_are_purged_beside_calls_of_the_same_keys: expensive,
}

cases! { LAW05, law 5:
    sweeps_beside_late_holders_count_what_they_failed: expensive,
}

/// Callers at a time.
const CALLERS: usize = 16;

/// Keys of a caller, at least one, and all if the store is fast enough to make them in this time.
const EACH: usize = 128;
const FILL: Duration = Duration::from_secs(2);

/// The requests of each caller.
fn requests(cx: &Context, name: &str) -> Vec<Vec<ClaimRequest>> {
    let key = |caller, at| cx.key(format!("{name} {caller} {at}"));
    let each = |caller| (0..EACH).map(move |at| (caller, at));
    let of = |caller| each(caller).map(|(caller, at)| cx.request(&key(caller, at)));
    (0..CALLERS).map(|caller| of(caller).collect()).collect()
}

async fn claim(
    store: &Arc<dyn IdempotencyStore>,
    asked: &AtomicU64,
    request: &ClaimRequest,
) -> CaseResult<Claim> {
    expect::acquired(race::ask(asked, || store.claim(request)).await?)
}

/// Completes keys with a retention that ends soon, and returns them by caller.
async fn expired(cx: &Context, soon: Duration) -> CaseResult<Vec<Vec<ClaimRequest>>> {
    let begun = Instant::now();
    let filled = race::at_once(cx, requests(cx, "done"), |store, asked, mine| async move {
        let mut done = Vec::new();
        for request in mine {
            let claim = claim(&store, &asked, &request).await?;
            complete_for(&store, &asked, &claim, soon).await?;
            done.push(request);
            if begun.elapsed() > FILL {
                break;
            }
        }
        Ok(done)
    });
    let filled = filled.await?;
    for last in filled.iter().filter_map(|done| done.last()) {
        cx.until_free(last.key()).await?;
    }
    Ok(filled)
}

/// Completes with a retention that ends soon, perhaps before the store has its answer: if the store
/// asks the server again, the record has expired, or a purge has deleted it.
async fn complete_for(
    store: &Arc<dyn IdempotencyStore>,
    asked: &AtomicU64,
    claim: &Claim,
    soon: Duration,
) -> CaseResult {
    let (begun, response) = (Instant::now(), Response::new(200, secret("for a while")));
    match race::ask(asked, || store.complete(claim, &response, soon)).await {
        Err(error) if error.is_claim_lost() && begun.elapsed() >= soon => Ok(()),
        completed => Ok(completed?),
    }
}

/// What a caller did with a key that was fresh again.
enum Left {
    Held(Claim),
    Completed(Claim),
    /// With a retention that may have ended.
    Gone,
}

async fn thousands_are_purged_beside_calls_of_the_same_keys(cx: &Context) -> CaseResult {
    let soon = cx.short();
    let filled = expired(cx, soon).await?;
    let attempt = |request: &ClaimRequest| cx.request(request.key());
    let calls = filled.iter().map(|mine| mine.iter().map(attempt).collect());
    let calls: Vec<Vec<ClaimRequest>> = calls.collect();
    let purgers = vec![Vec::new(); 3];
    let working = Arc::new(AtomicUsize::new(calls.len()));
    let lanes = calls.into_iter().chain(purgers).collect();
    let left = race::at_once(cx, lanes, |store, asked, mine: Vec<ClaimRequest>| {
        let working = Arc::clone(&working);
        async move {
            if mine.is_empty() {
                while working.load(Ordering::Relaxed) > 0 {
                    race::ask(&asked, || store.delete_expired(50)).await?;
                    tokio::task::yield_now().await;
                }
                return Ok(Vec::new());
            }
            let left = use_again(&store, &asked, mine, soon).await;
            working.fetch_sub(1, Ordering::Relaxed);
            left
        }
    });
    for left in left.await?.into_iter().flatten() {
        let (claim, is_held) = match left {
            Left::Held(claim) => (claim, true),
            Left::Completed(claim) => (claim, false),
            Left::Gone => continue,
        };
        let record = expect::record(cx.store().get(claim.key()).await?)?;
        ensure_eq!(record.info().token, claim.token(), "token");
        ensure_eq!(matches!(record, Record::InFlight(_)), is_held, "in flight");
    }
    Ok(())
}

/// Claims each key anew, and renews, completes for long, or completes for a short time.
async fn use_again(
    store: &Arc<dyn IdempotencyStore>,
    asked: &AtomicU64,
    requests: Vec<ClaimRequest>,
    soon: Duration,
) -> CaseResult<Vec<Left>> {
    let response = Response::new(200, secret("new"));
    let mut left = Vec::new();
    for (at, request) in requests.into_iter().enumerate() {
        let begun = Instant::now();
        // Without the renewal the record would expire soon.
        let lease = soon * 20;
        let request = match at % 3 {
            0 => request.with_lease(lease).with_retention(soon),
            _ => request,
        };
        let claim = claim(store, asked, &request).await?;
        left.push(match at % 3 {
            0 => match race::ask(asked, || store.renew(&claim, LONG)).await {
                Ok(renewed) => Left::Held(renewed),
                // On a slow machine it expired before.
                Err(error) if error.is_claim_lost() && begun.elapsed() >= lease => Left::Gone,
                Err(error) => return Err(error.into()),
            },
            1 => {
                race::ask(asked, || store.complete(&claim, &response, LONG)).await?;
                Left::Completed(claim)
            }
            _ => {
                complete_for(store, asked, &claim, soon).await?;
                Left::Gone
            }
        });
    }
    Ok(left)
}

async fn sweeps_beside_late_holders_count_what_they_failed(cx: &Context) -> CaseResult {
    let begun = Instant::now();
    let soon = cx.short();
    let claims = race::at_once(cx, requests(cx, "stale"), |store, asked, mine| async move {
        let mut claims = Vec::new();
        for request in mine {
            let request = request.with_lease(soon).with_on_stale(StalePolicy::Fail);
            claims.push(claim(&store, &asked, &request).await?);
            if begun.elapsed() > FILL {
                break;
            }
        }
        Ok(claims)
    });
    let claims = claims.await?;
    for last in claims.iter().filter_map(|claims| claims.last()) {
        cx.until_stale(last.key()).await?;
    }
    let swept = Arc::new(AtomicU64::new(0));
    let sweepers = vec![Vec::new(); 3];
    let working = Arc::new(AtomicUsize::new(claims.len()));
    let lanes = claims.iter().cloned().chain(sweepers).collect();
    let late = race::at_once(cx, lanes, |store, asked, mine: Vec<Claim>| {
        let (swept, working) = (Arc::clone(&swept), Arc::clone(&working));
        async move {
            if mine.is_empty() {
                while working.load(Ordering::Relaxed) > 0 {
                    let failed = race::ask(&asked, || store.fail_abandoned(20)).await?;
                    swept.fetch_add(failed, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
                return Ok(0);
            }
            let completed = complete_late(&store, &asked, &mine).await;
            working.fetch_sub(1, Ordering::Relaxed);
            completed
        }
    });
    let completed: u64 = late.await?.into_iter().sum();
    loop {
        let failed = race::ask(cx.asked_again(), || cx.store().fail_abandoned(1_000)).await?;
        swept.fetch_add(failed, Ordering::Relaxed);
        if failed == 0 {
            break;
        }
    }
    let (mut abandoned, mut kept) = (0, 0);
    for claim in claims.iter().flatten() {
        match expect::record(cx.store().get(claim.key()).await?)? {
            Record::Failed(failed) if failed.failure.code() == Failure::ABANDONED => abandoned += 1,
            Record::Completed(_) => kept += 1,
            _ => return Err(CaseError::new("a record is neither failed nor completed")),
        }
    }
    ensure_eq!(kept, completed, "completions");
    ensure_eq!(swept.load(Ordering::Relaxed), abandoned, "failed by sweeps");
    Ok(())
}

/// Completes each claim that no sweep has failed. Returns how many.
async fn complete_late(
    store: &Arc<dyn IdempotencyStore>,
    asked: &AtomicU64,
    claims: &[Claim],
) -> CaseResult<u64> {
    let response = Response::new(200, secret("late"));
    let mut completed = 0;
    for claim in claims {
        match race::ask(asked, || store.complete(claim, &response, LONG)).await {
            Ok(()) => completed += 1,
            Err(error) if error.is_claim_lost() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(completed)
}
