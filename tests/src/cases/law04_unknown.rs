//! Law 4 for a record whose request nobody knows: it is that of every request, and says so.

use idem_core::backend::StoredResult;
use idem_core::{
    ClaimOutcome, ClaimRequest, FailedPolicy, Failure, Fingerprint, IdempotencyStoreExt, Key,
    Response, StalePolicy,
};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::race::ask;
use crate::secrets::secret;
use crate::{CaseResult, Context, expect};

cases! { law 4:
    an_adopted_result_is_that_of_every_request,
    an_adoption_leaves_existing_records_as_they_are,
    adoptions_of_one_key_at_once_store_one_result,
    a_killed_adoption_refuses_requests_until_it_is_repeated,
    an_adopted_record_is_fresh_after_its_retention,
}

/// Claims as a request that may do whatever a claim may.
async fn claimed_as(cx: &Context, request: ClaimRequest) -> CaseResult<ClaimOutcome> {
    let request = request.with_on_failed(FailedPolicy::Retry);
    let request = request.with_on_stale(StalePolicy::Fail);
    let told = expect::conflict(cx.open().await?.claim(&request).await?)?;
    ensure!(told.info.fingerprint.is_unknown(), "a claim says so");
    Ok(cx.open().await?.claim_matching(&request).await?)
}

/// Claims as two requests that differ; the answers are the same.
async fn matched(cx: &Context, key: &Key) -> CaseResult<ClaimOutcome> {
    let outcome = claimed_as(cx, cx.request(key)).await?;
    let other = claimed_as(cx, cx.other_request(key)).await?;
    ensure_eq!(other.name(), outcome.name(), "the other");
    Ok(outcome)
}

async fn an_adopted_result_is_that_of_every_request(cx: &Context) -> CaseResult {
    let response = Response::new(201, secret("old")).with_header("x-old", "1");
    let failure = Failure::new("declined", secret("old"));
    for result in [
        StoredResult::Response(response),
        StoredResult::Failure(failure),
    ] {
        let key = cx.key(format!("{result:?}").split('(').next().unwrap_or_default());
        ensure!(cx.store().adopt(&key, &result, LONG).await?, "the first");
        let before = expect::unobserved(cx.store().get(&key).await?);
        let (info, replayed) = match matched(cx, &key).await? {
            ClaimOutcome::Completed(it) => (it.info, StoredResult::Response(it.response)),
            other => {
                let it = expect::failed(other)?;
                (it.info, StoredResult::Failure(it.failure))
            }
        };
        ensure_eq!(replayed, result, "the replay");
        ensure!(info.fingerprint.is_unknown(), "the replay says so");
        ensure!(!cx.store().adopt(&key, &result, LONG).await?, "the second");
        let after = expect::unobserved(cx.store().get(&key).await?);
        ensure_eq!(after, before, "the record");
    }
    Ok(())
}

async fn an_adoption_leaves_existing_records_as_they_are(cx: &Context) -> CaseResult {
    let (held, done) = (cx.key("held"), cx.key("done"));
    cx.hold(&cx.request(&held)).await?;
    let claim = cx.claim(&cx.request(&done)).await?;
    let own = Response::new(200, secret("own"));
    cx.store().complete(&claim, &own, LONG).await?;
    let old = StoredResult::Response(Response::new(200, "old"));
    for key in [held, done] {
        let before = expect::unobserved(cx.store().get(&key).await?);
        ensure!(!cx.store().adopt(&key, &old, LONG).await?, "it was stored");
        let after = expect::unobserved(cx.store().get(&key).await?);
        ensure_eq!(after, before, "the record");
        let other = cx.other_request(&key);
        expect::conflict(cx.store().claim_matching(&other).await?)?;
    }
    Ok(())
}

async fn adoptions_of_one_key_at_once_store_one_result(cx: &Context) -> CaseResult {
    let key = cx.key("old");
    let mut imports = tokio::task::JoinSet::new();
    for number in 0..4 {
        let (store, again, key) = (cx.open().await?, cx.asked_again().clone(), key.clone());
        let result = StoredResult::Response(Response::new(200, format!("{}", number % 2)));
        imports.spawn(async move {
            let stored = ask(&again, || store.adopt(&key, &result, LONG)).await;
            stored.map(|stored| stored.then_some(result))
        });
    }
    let results = imports.join_all().await.into_iter();
    let results: Vec<_> = results.collect::<idem_core::Result<_>>()?;
    let kept = cx.store().response(&key).await?.map(StoredResult::Response);
    let mut stored = results.into_iter().flatten().peekable();
    ensure!(stored.peek().is_some(), "none was stored");
    ensure!(stored.all(|result| Some(result) == kept), "a lost result");
    Ok(())
}

/// The process dies between claim and completion.
async fn a_killed_adoption_refuses_requests_until_it_is_repeated(cx: &Context) -> CaseResult {
    let key = cx.key("old");
    let remains = ClaimRequest::new(key.clone(), Fingerprint::UNKNOWN);
    cx.leave_stale(&remains).await?;
    expect::in_flight(matched(cx, &key).await?)?;
    let old = StoredResult::Response(Response::new(200, secret("old")));
    ensure!(cx.store().adopt(&key, &old, LONG).await?, "the repetition");
    expect::completed(matched(cx, &key).await?)?;
    Ok(())
}

async fn an_adopted_record_is_fresh_after_its_retention(cx: &Context) -> CaseResult {
    let key = cx.key("old");
    let old = StoredResult::Response(Response::new(200, "old"));
    cx.store().adopt(&key, &old, cx.short()).await?;
    cx.until_free(&key).await?;
    let claim = cx.store().claim_matching(&cx.request(&key)).await?;
    ensure_eq!(expect::acquired(claim)?.attempts(), 1, "a fresh key");
    Ok(())
}
