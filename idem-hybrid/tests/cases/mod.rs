//! Cases that only the hybrid store has: hits happen, and faults strike.

use std::sync::Arc;
use std::time::{Duration, Instant};

use idem_conformance::{Case, CaseError, CaseFuture, CaseResult, Context};
use idem_core::{ClaimRequest, Response};
use idem_hybrid::CacheMetrics;

use super::support::{Metered, State, harness};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the cases of this state.
pub(crate) fn of(state: State) -> &'static [Case] {
    match state {
        State::Local | State::Tiered | State::Healthy => &[DUPLICATES_ARE_HITS, OTHERS_ARE_TOLD],
        State::Down | State::Slow => &[A_DEAD_CACHE_IS_LEFT_ALONE],
        State::Killed => &[A_CACHE_THAT_DIES_IS_USED_AGAIN],
        State::Flushed | State::Evicting => &[ENTRIES_ARE_LOST],
        State::Garbage | State::Mixed => &[WRONG_ENTRIES_ARE_NOTICED],
    }
}

const DUPLICATES_ARE_HITS: Case = case(15, "duplicates_are_hits", |cx| Box::pin(hits(cx)));
const OTHERS_ARE_TOLD: Case = case(10, "an_invalidation_reaches_other_handles", |cx| {
    Box::pin(invalidated(cx))
});
const A_DEAD_CACHE_IS_LEFT_ALONE: Case = case(16, "a_dead_cache_is_left_alone", |cx| {
    Box::pin(until(cx, |seen| {
        seen.errors >= 5 && seen.skipped > 20 && seen.hits == 0
    }))
});
const A_CACHE_THAT_DIES_IS_USED_AGAIN: Case = case(16, "a_cache_that_dies_is_used_again", |cx| {
    Box::pin(until(cx, |seen| seen.errors > 2 && seen.hits > 20))
});
const ENTRIES_ARE_LOST: Case = case(16, "entries_are_lost_and_come_back", |cx| {
    Box::pin(until(cx, |seen| {
        seen.hits > 20 && seen.misses > 5 && seen.promoted > 5
    }))
});
const WRONG_ENTRIES_ARE_NOTICED: Case = case(16, "wrong_entries_are_noticed", |cx| {
    Box::pin(until(cx, |seen| seen.hits > 20 && seen.errors > 20))
});

const fn case(law: u8, name: &'static str, run: for<'a> fn(&'a Context) -> CaseFuture<'a>) -> Case {
    Case {
        law,
        name,
        needs: &[],
        expensive: false,
        run,
    }
}

async fn open(cx: &Context) -> CaseResult<Arc<dyn Metered>> {
    Ok(harness(cx)?.metered(cx.namespace()).await?)
}

/// A request whose key is completed, in this many keys.
async fn completed(
    cx: &Context,
    store: &dyn Metered,
    keys: usize,
) -> CaseResult<Vec<ClaimRequest>> {
    let mut requests = Vec::new();
    for at in 0..keys {
        let request = cx.request(&cx.key(format!("done {at}")));
        let claim = store.claim(&request).await?.acquired();
        let claim = claim.ok_or_else(|| CaseError::new("a fresh key"))?;
        store.complete(&claim, &body(&request), HOUR).await?;
        requests.push(cx.request(request.key()));
    }
    Ok(requests)
}

fn body(request: &ClaimRequest) -> Response {
    Response::new(200, request.key().hashed())
}

/// Checks that a duplicate gets the response of its key, whatever the cache does.
async fn replay(store: &dyn Metered, request: &ClaimRequest) -> CaseResult {
    match store.claim(request).await? {
        idem_core::ClaimOutcome::Completed(replay) if replay.response == body(request) => Ok(()),
        other => Err(CaseError::new(format!(
            "not its response, but {}",
            other.name()
        ))),
    }
}

/// Repeats until the counts are as wanted.
async fn until(cx: &Context, wanted: fn(CacheMetrics) -> bool) -> CaseResult {
    let store = open(cx).await?;
    let requests = completed(cx, &*store, 4).await?;
    let started = Instant::now();
    while !wanted(store.metrics()) {
        for request in &requests {
            replay(&*store, request).await?;
        }
        if started.elapsed() > cx.profile().max_wait() {
            return Err(CaseError::new(format!("in vain: {:?}", store.metrics())));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

async fn hits(cx: &Context) -> CaseResult {
    let store = open(cx).await?;
    let requests = completed(cx, &*store, 10).await?;
    for _ in 0..5 {
        for request in &requests {
            replay(&*store, request).await?;
        }
        store.settled().await;
    }
    let seen = store.metrics();
    // On a busy machine a call may exceed its budget.
    if seen.hits < 35 || seen.promoted < 8 {
        return Err(CaseError::new(format!("too few hits: {seen:?}")));
    }
    Ok(())
}

/// The effect of one handle's invalidation on another of the same cache; the record is still in the
/// database, so it is promoted anew.
async fn invalidated(cx: &Context) -> CaseResult {
    let harness = harness(cx)?;
    let one = harness.metered(cx.namespace()).await?;
    let two = harness.metered(cx.namespace()).await?;
    let requests = completed(cx, &*one, 1).await?;
    replay(&*one, &requests[0]).await?;
    one.settled().await;
    one.invalidate(requests[0].key()).await?;
    let before = two.metrics();
    replay(&*two, &requests[0]).await?;
    if two.metrics().hits != before.hits {
        return Err(CaseError::new("an invalidated entry is served"));
    }
    Ok(())
}
