//! Law 6: a repeated request gets the same answer.

use std::sync::Arc;

use idem_core::{
    ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, FailedPolicy, Failure, IdempotencyStore,
    Record, Response, StalePolicy,
};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::faults::LosesAnswers;
use crate::secrets::secret;
use crate::{CaseResult, Context, expect, race};

cases! { law 6:
    the_same_attempt_gets_its_own_claim_back,
    the_same_attempt_starts_its_lease_anew,
    the_same_attempt_gets_its_claim_back_after_its_lease,
    the_same_attempt_asking_twice_at_once_is_one_holder,
    the_same_attempt_gets_the_retry_of_a_failure_back,
    the_same_attempt_gets_what_was_sealed,
    another_attempt_is_a_stranger,
    the_same_completion_succeeds_twice,
    a_different_response_is_refused_and_the_first_stands,
    the_same_failure_succeeds_twice,
    a_different_failure_is_refused_and_the_first_stands,
    a_response_and_a_failure_exclude_each_other,
    completions_that_race_with_themselves_all_succeed,
    different_completions_that_race_leave_one,
    a_release_succeeds_twice,
    a_renewal_succeeds_twice,
    a_claim_whose_answer_was_lost_is_recovered,
    a_completion_whose_answer_was_lost_is_recovered,
    a_failure_whose_answer_was_lost_is_recovered,
    a_release_whose_answer_was_lost_is_recovered,
    a_renewal_whose_answer_was_lost_is_recovered,
}

async fn the_same_attempt_gets_its_own_claim_back(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("asked twice"));
    let first = cx.claim(&request).await?;
    for _ in 0..3 {
        let again = expect::acquired(cx.open().await?.claim(&request).await?)?;
        ensure_eq!(again.token(), first.token(), "token");
        ensure_eq!(again.attempt(), first.attempt(), "attempt");
        ensure_eq!(again.attempts(), 1, "attempts");
    }
    cx.store()
        .complete(&first, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

async fn the_same_attempt_starts_its_lease_anew(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("asked twice"));
    let first = cx.claim(&request).await?;
    tokio::time::sleep(cx.short()).await;
    let again = cx.claim(&request).await?;
    ensure!(
        again.lease_ends_at() > first.lease_ends_at(),
        "the lease starts anew"
    );
    let Record::InFlight(record) = expect::record(cx.store().get(request.key()).await?)? else {
        return Err(crate::CaseError::new("not in flight"));
    };
    ensure_eq!(
        record.lease_ends_at,
        again.lease_ends_at(),
        "what is stored"
    );
    let kept = record
        .info
        .expires_at
        .saturating_since(record.lease_ends_at);
    ensure_eq!(kept, LONG, "retention from the end of the lease");
    Ok(())
}

async fn the_same_attempt_gets_its_claim_back_after_its_lease(cx: &Context) -> CaseResult {
    for policy in [StalePolicy::TakeOver, StalePolicy::Fail] {
        let request = cx
            .request(&cx.key(format!("{policy:?}")))
            .with_on_stale(policy);
        let first = cx.stale_claim(&request).await?;
        let again = cx.claim(&request).await?;
        ensure_eq!(again.token(), first.token(), "token");
        ensure_eq!(again.attempts(), 1, "it is no takeover");
        expect::in_flight(cx.store().claim(&cx.request(request.key())).await?)?;
    }
    Ok(())
}

async fn the_same_attempt_asking_twice_at_once_is_one_holder(cx: &Context) -> CaseResult {
    for round in 0..5 {
        let request = cx.request(&cx.key(format!("round {round}")));
        let requests: Vec<ClaimRequest> = vec![request; 8];
        let mut token = None;
        for outcome in race::claims(cx, requests).await? {
            let claim = expect::acquired(outcome)?;
            ensure_eq!(*token.get_or_insert(claim.token()), claim.token(), "token");
            ensure_eq!(claim.attempts(), 1, "attempts");
        }
    }
    Ok(())
}

async fn the_same_attempt_gets_the_retry_of_a_failure_back(cx: &Context) -> CaseResult {
    let key = cx.key("tried again");
    let old = cx.claim(&cx.request(&key)).await?;
    cx.store()
        .fail(&old, &Failure::new("code", secret("message")), LONG)
        .await?;
    let retry = cx.request(&key).with_on_failed(FailedPolicy::Retry);
    let first = cx.claim(&retry).await?;
    let again = cx.claim(&retry).await?;
    ensure_eq!(again.token(), first.token(), "token");
    ensure_eq!(again.attempts(), 2, "attempts");
    Ok(())
}

async fn the_same_attempt_gets_what_was_sealed(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("done"));
    let claim = cx.claim(&request).await?;
    let response = Response::new(200, secret("sealed"));
    cx.store().complete(&claim, &response, LONG).await?;
    let replay = expect::completed(cx.store().claim(&request).await?)?;
    ensure_eq!(replay.response, response, "response");
    Ok(())
}

async fn another_attempt_is_a_stranger(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("mine"));
    cx.hold(&request).await?;
    let mut bytes = *request.attempt().as_bytes();
    for at in [0, 7, 15] {
        bytes[at] ^= 1;
        let rival = request
            .clone()
            .with_attempt(idem_core::AttemptId::from_bytes(bytes));
        expect::in_flight(cx.store().claim(&rival).await?)?;
    }
    Ok(())
}

async fn the_same_completion_succeeds_twice(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("done"))).await?;
    let response = Response::new(200, secret("sealed")).with_header("a", "b");
    cx.store().complete(&claim, &response, LONG).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    let store = cx.open().await?;
    store.complete(&claim, &response, LONG).await?;
    store.complete(&claim, &response, cx.short()).await?;
    store.complete(&claim, &response, LONG * 2).await?;
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(
        after,
        before,
        "the record; the retention given first stands"
    );
    Ok(())
}

async fn a_different_response_is_refused_and_the_first_stands(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("done"))).await?;
    let response = Response::new(200, secret("sealed")).with_header("a", "b");
    cx.store().complete(&claim, &response, LONG).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for other in [
        Response::new(201, secret("sealed")).with_header("a", "b"),
        Response::new(200, secret("StoredResult")).with_header("a", "b"),
        Response::new(200, secret("sealed")).with_header("a", "c"),
        Response::new(200, secret("sealed")),
    ] {
        let refused = cx.store().complete(&claim, &other, LONG).await;
        expect::refused(refused, ErrorKind::AlreadySealed)?;
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn the_same_failure_succeeds_twice(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    let failure = Failure::new("code", secret("message")).with_details("details");
    cx.store().fail(&claim, &failure, LONG).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    cx.open().await?.fail(&claim, &failure, LONG * 2).await?;
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn a_different_failure_is_refused_and_the_first_stands(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    let failure = Failure::new("code", secret("message")).with_details("details");
    cx.store().fail(&claim, &failure, LONG).await?;
    for other in [
        Failure::new("other", secret("message")).with_details("details"),
        Failure::new("code", secret("other")).with_details("details"),
        Failure::new("code", secret("message")),
    ] {
        let refused = cx.store().fail(&claim, &other, LONG).await;
        expect::refused(refused, ErrorKind::AlreadySealed)?;
    }
    let replay = expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
    ensure_eq!(replay.failure, failure, "failure");
    Ok(())
}

async fn a_response_and_a_failure_exclude_each_other(cx: &Context) -> CaseResult {
    let (response, failure) = (
        Response::new(200, secret("x")),
        Failure::new("code", secret("x")),
    );
    let done = cx.claim(&cx.request(&cx.key("done"))).await?;
    cx.store().complete(&done, &response, LONG).await?;
    let refused = cx.store().fail(&done, &failure, LONG).await;
    expect::refused(refused, ErrorKind::AlreadySealed)?;
    expect::completed(cx.store().claim(&cx.request(done.key())).await?)?;
    let failed = cx.claim(&cx.request(&cx.key("failed"))).await?;
    cx.store().fail(&failed, &failure, LONG).await?;
    let refused = cx.store().complete(&failed, &response, LONG).await;
    expect::refused(refused, ErrorKind::AlreadySealed)?;
    expect::failed(cx.store().claim(&cx.request(failed.key())).await?)?;
    Ok(())
}

async fn completions_that_race_with_themselves_all_succeed(cx: &Context) -> CaseResult {
    for round in 0..5 {
        let key = cx.key(format!("round {round}"));
        let claim = cx.claim(&cx.request(&key)).await?;
        race::at_once(cx, vec![claim; 8], |store, asked, claim| async move {
            let response = Response::new(200, secret("the same"));
            race::ask(&asked, || store.complete(&claim, &response, LONG)).await?;
            Ok(())
        })
        .await?;
    }
    Ok(())
}

async fn different_completions_that_race_leave_one(cx: &Context) -> CaseResult {
    for round in 0..5 {
        let key = cx.key(format!("round {round}"));
        let claim = cx.claim(&cx.request(&key)).await?;
        let bodies: Vec<_> = (0..8).map(|at| (claim.clone(), at.to_string())).collect();
        let sealed = race::at_once(cx, bodies, |store, asked, (claim, body)| async move {
            let response = Response::new(200, body.clone());
            let sealed = race::ask(&asked, || store.complete(&claim, &response, LONG)).await;
            match sealed {
                Ok(()) => Ok(Some(body)),
                Err(error) => {
                    expect::refused(Err::<(), _>(error), ErrorKind::AlreadySealed).map(|_| None)
                }
            }
        })
        .await?;
        let sealed: Vec<_> = sealed.into_iter().flatten().collect();
        ensure_eq!(sealed.len(), 1, "completions that succeeded");
        let replay = expect::completed(cx.store().claim(&cx.request(&key)).await?)?;
        ensure_eq!(replay.response.body(), &sealed[0], "what is stored");
    }
    Ok(())
}

async fn a_release_succeeds_twice(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    cx.store().release(&claim).await?;
    cx.open().await?.release(&claim).await?;
    cx.store().release(&claim).await?;
    ensure_eq!(cx.store().get(claim.key()).await?, None, "the key is free");
    let next = cx.claim(&cx.request(claim.key())).await?;
    expect::lost(cx.store().release(&claim).await)?;
    cx.store()
        .complete(&next, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

async fn a_renewal_succeeds_twice(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("renewed"))).await?;
    let first = cx.store().renew(&claim, LONG * 2).await?;
    let second = cx.open().await?.renew(&claim, LONG * 2).await?;
    ensure_eq!(second.token(), claim.token(), "token");
    ensure!(
        second.lease_ends_at() >= first.lease_ends_at(),
        "the lease is not shorter"
    );
    cx.store()
        .complete(&first, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

/// Checks that the answer was lost, with an error that says so.
fn was_lost<T>(answer: Result<T, Error>) -> CaseResult {
    let error = answer
        .err()
        .ok_or_else(|| crate::CaseError::new("the answer arrived"))?;
    ensure!(error.is_retryable(), "{error} is not retryable");
    ensure_eq!(error.effect(), Effect::Unknown, "effect of {error}");
    Ok(())
}

fn lossy(cx: &Context) -> LosesAnswers {
    LosesAnswers::new(Arc::clone(cx.store()))
}

async fn a_claim_whose_answer_was_lost_is_recovered(cx: &Context) -> CaseResult {
    let (store, request) = (lossy(cx), cx.request(&cx.key("lost")));
    store.lose_next(2);
    was_lost(store.claim(&request).await)?;
    was_lost(store.claim(&request).await)?;
    let claim = expect::acquired(store.claim(&request).await?)?;
    ensure_eq!(claim.attempts(), 1, "attempts");
    let rival = store.claim(&cx.request(request.key())).await?;
    ensure!(
        matches!(rival, ClaimOutcome::InFlight(_)),
        "a rival got {}",
        rival.name()
    );
    store
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

async fn a_completion_whose_answer_was_lost_is_recovered(cx: &Context) -> CaseResult {
    let store = lossy(cx);
    let claim = cx.claim(&cx.request(&cx.key("lost"))).await?;
    let response = Response::new(200, secret("x"));
    store.lose_next(1);
    was_lost(store.complete(&claim, &response, LONG).await)?;
    store.complete(&claim, &response, LONG).await?;
    let other = store
        .complete(&claim, &Response::new(200, secret("y")), LONG)
        .await;
    expect::refused(other, ErrorKind::AlreadySealed)?;
    Ok(())
}

async fn a_failure_whose_answer_was_lost_is_recovered(cx: &Context) -> CaseResult {
    let store = lossy(cx);
    let claim = cx.claim(&cx.request(&cx.key("lost"))).await?;
    let failure = Failure::new("code", secret("message"));
    store.lose_next(1);
    was_lost(store.fail(&claim, &failure, LONG).await)?;
    store.fail(&claim, &failure, LONG).await?;
    expect::failed(store.claim(&cx.request(claim.key())).await?)?;
    Ok(())
}

async fn a_release_whose_answer_was_lost_is_recovered(cx: &Context) -> CaseResult {
    let store = lossy(cx);
    let claim = cx.claim(&cx.request(&cx.key("lost"))).await?;
    store.lose_next(1);
    was_lost(store.release(&claim).await)?;
    store.release(&claim).await?;
    cx.hold(&cx.other_request(claim.key())).await?;
    Ok(())
}

async fn a_renewal_whose_answer_was_lost_is_recovered(cx: &Context) -> CaseResult {
    let store = lossy(cx);
    let claim = cx.stale_claim(&cx.request(&cx.key("lost"))).await?;
    store.lose_next(1);
    was_lost(store.renew(&claim, LONG).await)?;
    expect::in_flight(cx.store().claim(&cx.request(claim.key())).await?)?;
    let renewed = store.renew(&claim, LONG).await?;
    ensure_eq!(renewed.token(), claim.token(), "token");
    Ok(())
}
