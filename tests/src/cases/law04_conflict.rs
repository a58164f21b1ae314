//! Law 4: another fingerprint on a live record is a conflict; nothing runs, nothing changes.

use idem_core::{
    Claim, ClaimRequest, FailedPolicy, Failure, Fingerprint, Record, Response, StalePolicy,
};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseResult, Context, expect};

cases! { law 4:
    another_request_conflicts_with_a_claim_in_flight,
    another_request_conflicts_with_a_completed_key,
    another_request_conflicts_with_a_failed_key,
    another_request_may_not_retry_a_failure,
    a_stale_claim_conflicts_and_is_not_taken_over,
    a_stale_claim_that_must_not_run_again_conflicts_and_is_not_failed,
    the_holder_completes_as_if_there_had_been_no_conflict,
    the_same_digest_under_another_scheme_conflicts,
    fingerprints_that_differ_in_one_bit_conflict,
    the_same_attempt_with_another_fingerprint_conflicts,
    an_expired_record_conflicts_with_nobody,
}

/// Checks that the request conflicts, receives true information, and leaves the record unchanged.
async fn conflicts(cx: &Context, rival: &ClaimRequest) -> CaseResult {
    let before = cx.store().get(rival.key()).await?;
    let conflict = expect::conflict(cx.open().await?.claim(rival).await?)?;
    let after = cx.store().get(rival.key()).await?;
    ensure_eq!(
        expect::unobserved(after),
        expect::unobserved(before.clone()),
        "the record"
    );
    let before = expect::record(before)?;
    let returned = conflict.info;
    ensure_eq!(
        returned.fingerprint,
        before.info().fingerprint,
        "fingerprint told"
    );
    ensure_eq!(returned.token, before.info().token, "token told");
    ensure_eq!(returned.attempts, before.info().attempts, "attempts told");
    ensure_eq!(
        returned.expires_at,
        before.info().expires_at,
        "end of retention told"
    );
    ensure!(
        returned.fingerprint != *rival.fingerprint(),
        "a conflict with itself"
    );
    Ok(())
}

async fn held(cx: &Context) -> CaseResult<Claim> {
    cx.claim(&cx.request(&cx.key("used"))).await
}

async fn another_request_conflicts_with_a_claim_in_flight(cx: &Context) -> CaseResult {
    let claim = held(cx).await?;
    conflicts(cx, &cx.other_request(claim.key())).await?;
    let short = cx.other_request(claim.key()).with_lease(cx.short());
    conflicts(cx, &short.with_on_stale(StalePolicy::Fail)).await
}

async fn another_request_conflicts_with_a_completed_key(cx: &Context) -> CaseResult {
    let claim = held(cx).await?;
    let response = Response::new(200, secret("first"));
    cx.store().complete(&claim, &response, LONG).await?;
    conflicts(cx, &cx.other_request(claim.key())).await?;
    let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
    ensure_eq!(replay.response, response, "replay after a conflict");
    Ok(())
}

async fn another_request_conflicts_with_a_failed_key(cx: &Context) -> CaseResult {
    let claim = held(cx).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), LONG)
        .await?;
    conflicts(cx, &cx.other_request(claim.key())).await
}

async fn another_request_may_not_retry_a_failure(cx: &Context) -> CaseResult {
    let claim = held(cx).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), LONG)
        .await?;
    let retry = cx
        .other_request(claim.key())
        .with_on_failed(FailedPolicy::Retry);
    conflicts(cx, &retry).await?;
    expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
    Ok(())
}

async fn a_stale_claim_conflicts_and_is_not_taken_over(cx: &Context) -> CaseResult {
    let key = cx.key("stale");
    let claim = cx.stale_claim(&cx.request(&key)).await?;
    conflicts(cx, &cx.other_request(&key)).await?;
    conflicts(cx, &cx.other_request(&key).with_on_stale(StalePolicy::Fail)).await?;
    let taken = cx.claim(&cx.request(&key)).await?;
    ensure!(taken.token() > claim.token(), "the same request takes over");
    Ok(())
}

async fn a_stale_claim_that_must_not_run_again_conflicts_and_is_not_failed(
    cx: &Context,
) -> CaseResult {
    let key = cx.key("stale");
    let fail = StalePolicy::Fail;
    let claim = cx
        .stale_claim(&cx.request(&key).with_on_stale(fail))
        .await?;
    conflicts(cx, &cx.other_request(&key)).await?;
    conflicts(cx, &cx.other_request(&key).with_on_stale(fail)).await?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("late")), LONG)
        .await?;
    Ok(())
}

async fn the_holder_completes_as_if_there_had_been_no_conflict(cx: &Context) -> CaseResult {
    let claim = held(cx).await?;
    for _ in 0..3 {
        expect::conflict(cx.store().claim(&cx.other_request(claim.key())).await?)?;
    }
    let claim = cx.store().renew(&claim, LONG * 2).await?;
    expect::conflict(cx.store().claim(&cx.other_request(claim.key())).await?)?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("mine")), LONG)
        .await?;
    let record = expect::record(cx.store().get(claim.key()).await?)?;
    ensure!(matches!(record, Record::Completed(_)), "not completed");
    Ok(())
}

async fn the_same_digest_under_another_scheme_conflicts(cx: &Context) -> CaseResult {
    let key = cx.key("1");
    let (raw, json) = (Fingerprint::raw("1"), Fingerprint::json("1")?);
    ensure_eq!(raw.digest(), json.digest(), "digests");
    cx.hold(&ClaimRequest::new(key.clone(), raw)).await?;
    let returned = expect::conflict(cx.store().claim(&ClaimRequest::new(key, json)).await?)?;
    ensure_eq!(returned.info.fingerprint, raw, "fingerprint told");
    Ok(())
}

async fn fingerprints_that_differ_in_one_bit_conflict(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("bits"));
    cx.hold(&request).await?;
    for byte in 0..Fingerprint::BYTES {
        let mut bytes = request.fingerprint().to_bytes();
        bytes[byte] ^= 1 << (byte % 8);
        let other = Fingerprint::from_bytes(&bytes)?;
        let rival = ClaimRequest::new(request.key().clone(), other);
        expect::conflict(cx.store().claim(&rival).await?)?;
    }
    Ok(())
}

async fn the_same_attempt_with_another_fingerprint_conflicts(cx: &Context) -> CaseResult {
    let claim = held(cx).await?;
    let rival = cx.other_request(claim.key()).with_attempt(claim.attempt());
    conflicts(cx, &rival).await
}

async fn an_expired_record_conflicts_with_nobody(cx: &Context) -> CaseResult {
    let claim = held(cx).await?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("old")), cx.short())
        .await?;
    cx.until_free(claim.key()).await?;
    let other = cx.other_request(claim.key());
    let new = cx.claim(&other).await?;
    ensure_eq!(new.attempts(), 1, "a fresh key");
    expect::conflict(cx.store().claim(&cx.request(claim.key())).await?)?;
    Ok(())
}
