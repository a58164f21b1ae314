//! Law 14 with concurrent callers: when a connection is cut under many claims, each gets a true
//! answer about itself.

use std::sync::Arc;

use idem_core::{
    AttemptId, ClaimOutcome, ClaimRequest, Effect, IdempotencyStore, Record, Response, Result,
};
use tokio::task::JoinSet;

use super::law14_unknown::{Proxied, SETTLING_LOOKS, SETTLING_PAUSE};
use crate::case::cases;
use crate::context::LONG;
use crate::eventually::eventually;
use crate::failure::{ensure, ensure_eq};
use crate::{CaseError, CaseResult, Context, expect};

cases! { law 14:
    a_crowd_cut_off_is_not_reported_as_undone [Network]: expensive,
    duplicates_in_a_crowd_cut_off_are_told_no_others_answer [Network]: expensive,
}

/// Concurrent claims: enough for a store that batches them.
const CALLERS: usize = 32;

/// The cut comes after each number of messages below this.
const CUTS: u32 = 12;

/// The limit when all earlier cuts fell elsewhere: a connection sends its set-up before a claim, on
/// each connection of a pool.
const MOST_CUTS: u32 = 60;

/// Returns the answers in the order of the requests, all of which are sent at once.
async fn together<T, F>(
    store: &Arc<dyn IdempotencyStore>,
    requests: &[ClaimRequest],
    call: impl Fn(Arc<dyn IdempotencyStore>, ClaimRequest) -> F,
) -> CaseResult<Vec<Result<T>>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    let mut crowd = JoinSet::new();
    for (at, request) in requests.iter().enumerate() {
        let call = call(Arc::clone(store), request.clone());
        crowd.spawn(async move { (at, call.await) });
    }
    let mut returned = Vec::with_capacity(requests.len());
    while let Some(answer) = crowd.join_next().await {
        returned.push(answer?);
    }
    returned.sort_by_key(|(at, _)| *at);
    Ok(returned.into_iter().map(|(_, answer)| answer).collect())
}

async fn claim_together(
    store: &Arc<dyn IdempotencyStore>,
    requests: &[ClaimRequest],
) -> CaseResult<Vec<Result<ClaimOutcome>>> {
    together(store, requests, async |store, request| {
        store.claim(&request).await
    })
    .await
}

/// Returns the records of these requests, read past the proxy.
async fn look_together(cx: &Context, requests: &[ClaimRequest]) -> CaseResult<Vec<Option<Record>>> {
    let looked = together(cx.store(), requests, async |store, request| {
        store.get(request.key()).await
    });
    Ok(looked.await?.into_iter().collect::<Result<_>>()?)
}

/// Returns claims of keys that no caller has claimed.
fn new_claims(cx: &Context, series: &str) -> Vec<ClaimRequest> {
    let request = |number| cx.request(&cx.key(format!("{series}, {number}")));
    (0..CALLERS).map(request).collect()
}

/// Opens and prepares every connection, so that only later claims are on the wire.
async fn warm_up(cx: &Context, proxied: &Proxied, series: &str) -> CaseResult {
    proxied.warm_up(cx, series).await?;
    let claims = new_claims(cx, &format!("{series}, beforehand"));
    until_all_are_answered(cx, &proxied.store, &claims).await?;
    proxied.proxy.quiet().await;
    Ok(())
}

/// Some callers may still get the error of an earlier cut.
async fn until_all_are_answered(
    cx: &Context,
    store: &Arc<dyn IdempotencyStore>,
    claims: &[ClaimRequest],
) -> CaseResult<Vec<Result<ClaimOutcome>>> {
    let answered = || async {
        let returned = claim_together(store, claims).await?;
        Ok(returned.iter().all(Result::is_ok).then_some(returned))
    };
    eventually(cx.profile().max_wait(), "answers without a cut", answered).await
}

async fn a_crowd_cut_off_is_not_reported_as_undone(cx: &Context) -> CaseResult {
    let proxied = Proxied::start(cx).await?;
    let mut hidden = 0;
    for messages in 0..MOST_CUTS {
        if messages >= CUTS && hidden > 0 {
            return Ok(());
        }
        let series = format!("cut after {messages}");
        hidden += cut_among_new_claims(cx, &proxied, &series, messages).await?;
    }
    Err(CaseError::new("no cut fell between a claim and its answer"))
}

/// Returns how many claims took effect although the cut hid the answers from their callers.
async fn cut_among_new_claims(
    cx: &Context,
    proxied: &Proxied,
    series: &str,
    messages: u32,
) -> CaseResult<usize> {
    warm_up(cx, proxied, &format!("warm up, {series}")).await?;
    let requests = new_claims(cx, series);
    let before = proxied.proxy.cuts();
    proxied.proxy.cut_after(messages);
    let returned = claim_together(&proxied.store, &requests).await?;
    proxied.proxy.disarm();
    let mut undone = Vec::new();
    for (request, returned) in requests.iter().zip(&returned) {
        if let Err(error) = returned {
            ensure!(error.is_retryable(), "not retryable: {error}");
            if error.effect() == Effect::None {
                undone.push(request.clone());
            }
        }
    }
    stay_undone(cx, &undone).await?;
    let mut hidden = 0;
    let records = look_together(cx, &requests).await?;
    let again = claim_together(cx.store(), &requests).await?;
    for ((returned, record), again) in returned.iter().zip(records).zip(again) {
        let again = expect::acquired(again?)?;
        ensure_eq!(again.attempts(), 1, "its own claim, asked for again");
        match returned {
            Ok(ClaimOutcome::Acquired(claim)) => {
                ensure_eq!(claim.attempts(), 1, "a key that nobody else has claimed");
                ensure_eq!(claim.token(), again.token(), "token of what was acquired");
            }
            Ok(other) => return Err(CaseError::new(format!("told {}", other.name()))),
            Err(_) => hidden += usize::from(record.is_some()),
        }
    }
    // The store repeated the call itself.
    let recovered = returned.iter().all(Result::is_ok) && proxied.proxy.cuts() > before;
    Ok(hidden + usize::from(recovered))
}

/// A server that has a request may take a moment to act on it.
async fn stay_undone(cx: &Context, undone: &[ClaimRequest]) -> CaseResult {
    if undone.is_empty() {
        return Ok(());
    }
    for _ in 0..SETTLING_LOOKS {
        for record in look_together(cx, undone).await? {
            ensure!(record.is_none(), "told that nothing was done: {record:?}");
        }
        tokio::time::sleep(SETTLING_PAUSE).await;
    }
    Ok(())
}

async fn duplicates_in_a_crowd_cut_off_are_told_no_others_answer(cx: &Context) -> CaseResult {
    let proxied = Proxied::start(cx).await?;
    let done = new_claims(cx, "done");
    for (number, request) in done.iter().enumerate() {
        let claim = cx.claim(request).await?;
        let response = Response::new(200, number.to_string());
        cx.store().complete(&claim, &response, LONG).await?;
    }
    for messages in 0..CUTS {
        cut_among_duplicates(cx, &proxied, &done, messages).await?;
    }
    Ok(())
}

/// The first of these cuts comes before anything is answered, except when a cache answers and the
/// store sends nothing.
async fn cut_among_duplicates(
    cx: &Context,
    proxied: &Proxied,
    done: &[ClaimRequest],
    messages: u32,
) -> CaseResult {
    let duplicate = |request: &ClaimRequest| request.clone().with_attempt(AttemptId::random());
    let duplicates = || done.iter().map(duplicate).collect::<Vec<_>>();
    let series = format!("warm up, cut after {messages}");
    proxied.warm_up(cx, &series).await?;
    let returned = until_all_are_answered(cx, &proxied.store, &duplicates()).await?;
    ensure_eq!(own_answers(&returned)?, CALLERS, "answers without a cut");
    proxied.proxy.quiet().await;

    proxied.proxy.cut_after(messages);
    let returned = claim_together(&proxied.store, &duplicates()).await?;
    proxied.proxy.disarm();
    own_answers(&returned)?;
    let again = claim_together(cx.store(), &duplicates()).await?;
    ensure_eq!(own_answers(&again)?, CALLERS, "answers after the cut");
    Ok(())
}

/// Returns how many have their own result; the others have a retryable error.
fn own_answers(returned: &[Result<ClaimOutcome>]) -> CaseResult<usize> {
    let mut own = 0;
    for (number, returned) in returned.iter().enumerate() {
        match returned {
            Ok(ClaimOutcome::Completed(completed)) => {
                let body = completed.response.body();
                ensure_eq!(body, number.to_string().as_bytes(), "result");
                own += 1;
            }
            Ok(other) => {
                let name = other.name();
                return Err(CaseError::new(format!("{number} was told {name}")));
            }
            Err(error) => ensure!(error.is_retryable(), "not retryable: {error}"),
        }
    }
    Ok(own)
}
