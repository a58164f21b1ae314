//! Law 5, and section 4: the end of a stale claim that may not be taken over.

use idem_core::{
    Claim, ErrorKind, Failed, FailedPolicy, Failure, InFlight, Record, Response, StalePolicy,
};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseResult, Context, expect};

cases! { law 5:
    a_stale_claim_that_must_not_run_again_is_failed_by_the_next_claim,
    a_takeover_needs_both_sides,
    a_live_claim_that_must_not_run_again_is_left_alone,
    an_abandoned_record_is_kept_as_long_as_its_claim_said,
    after_a_claim_failed_the_record_the_late_holder_can_do_nothing,
    after_a_sweep_failed_the_record_the_late_holder_can_do_nothing,
    an_abandoned_record_can_be_retried,
}

const FAIL: StalePolicy = StalePolicy::Fail;
const TAKE_OVER: StalePolicy = StalePolicy::TakeOver;

async fn abandoned(cx: &Context, id: &str) -> CaseResult<Claim> {
    cx.stale_claim(&cx.request(&cx.key(id)).with_on_stale(FAIL))
        .await
}

fn is_abandoned(failed: &Failed, claim: &Claim) -> CaseResult {
    ensure_eq!(failed.failure.code(), Failure::ABANDONED, "code");
    ensure_eq!(failed.info.token, claim.token(), "token");
    ensure_eq!(failed.info.attempts, claim.attempts(), "attempts");
    Ok(())
}

async fn a_stale_claim_that_must_not_run_again_is_failed_by_the_next_claim(
    cx: &Context,
) -> CaseResult {
    let claim = abandoned(cx, "stale").await?;
    for _ in 0..3 {
        let rival = cx.request(claim.key()).with_on_stale(FAIL);
        is_abandoned(&expect::failed(cx.store().claim(&rival).await?)?, &claim)?;
    }
    let record = expect::record(cx.store().get(claim.key()).await?)?;
    ensure!(
        matches!(record, Record::Failed(_)),
        "get tells another state"
    );
    Ok(())
}

async fn a_takeover_needs_both_sides(cx: &Context) -> CaseResult {
    for (at, (old, new)) in [(FAIL, TAKE_OVER), (TAKE_OVER, FAIL), (FAIL, FAIL)]
        .into_iter()
        .enumerate()
    {
        let key = cx.key(format!("mixed {at}"));
        let claim = cx.stale_claim(&cx.request(&key).with_on_stale(old)).await?;
        let outcome = cx
            .store()
            .claim(&cx.request(&key).with_on_stale(new))
            .await?;
        is_abandoned(&expect::failed(outcome)?, &claim)?;
        let willing = cx.request(&key).with_on_stale(TAKE_OVER);
        expect::failed(cx.store().claim(&willing).await?)?;
    }
    let key = cx.key("both");
    cx.leave_stale(&cx.request(&key).with_on_stale(TAKE_OVER))
        .await?;
    cx.hold(&cx.request(&key).with_on_stale(TAKE_OVER)).await?;
    Ok(())
}

async fn a_live_claim_that_must_not_run_again_is_left_alone(cx: &Context) -> CaseResult {
    let claim = cx
        .claim(&cx.request(&cx.key("live")).with_on_stale(FAIL))
        .await?;
    expect::in_flight(cx.store().claim(&cx.request(claim.key())).await?)?;
    cx.store().fail_abandoned(100).await?;
    expect::in_flight(cx.store().claim(&cx.request(claim.key())).await?)?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

async fn an_abandoned_record_is_kept_as_long_as_its_claim_said(cx: &Context) -> CaseResult {
    let by_claim = abandoned(cx, "failed by a claim").await?;
    let by_sweep = abandoned(cx, "failed by a sweep").await?;
    let before = expect::record(cx.store().get(by_claim.key()).await?)?;
    expect::failed(cx.store().claim(&cx.request(by_claim.key())).await?)?;
    cx.store().fail_abandoned(100).await?;
    let after = expect::record(cx.store().get(by_claim.key()).await?)?;
    ensure_eq!(
        after.info().expires_at,
        before.info().expires_at,
        "by a claim"
    );
    for claim in [by_claim, by_sweep] {
        let record = expect::record(cx.store().get(claim.key()).await?)?;
        ensure!(matches!(record, Record::Failed(_)), "not failed");
        let kept = record
            .info()
            .expires_at
            .saturating_since(claim.lease_ends_at());
        ensure_eq!(kept, LONG, "retention from the end of the lease");
    }
    Ok(())
}

async fn late_holder_has_lost(cx: &Context, claim: &Claim) -> CaseResult {
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    let store = cx.store();
    expect::lost(
        store
            .complete(claim, &Response::new(200, secret("late")), LONG)
            .await,
    )?;
    expect::lost(
        store
            .fail(claim, &Failure::new("late", secret("late")), LONG)
            .await,
    )?;
    // The failure recorded for it is not its own either.
    expect::lost(store.fail(claim, &Failure::abandoned(), LONG).await)?;
    expect::refused(store.renew(claim, LONG).await, ErrorKind::ClaimLost)?;
    expect::refused(store.release(claim).await, ErrorKind::ClaimLost)?;
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn after_a_claim_failed_the_record_the_late_holder_can_do_nothing(
    cx: &Context,
) -> CaseResult {
    let claim = abandoned(cx, "late").await?;
    expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
    late_holder_has_lost(cx, &claim).await
}

async fn after_a_sweep_failed_the_record_the_late_holder_can_do_nothing(
    cx: &Context,
) -> CaseResult {
    let claim = abandoned(cx, "late").await?;
    ensure_eq!(cx.store().fail_abandoned(100).await?, 1, "swept");
    late_holder_has_lost(cx, &claim).await?;
    let again = cx.request(claim.key()).with_attempt(claim.attempt());
    is_abandoned(&expect::failed(cx.store().claim(&again).await?)?, &claim)
}

async fn an_abandoned_record_can_be_retried(cx: &Context) -> CaseResult {
    let old = abandoned(cx, "tried again").await?;
    let retry = cx.request(old.key()).with_on_failed(FailedPolicy::Retry);
    // Under any policy, the first claim fails the stale record.
    let outcome = cx.store().claim(&retry.clone().with_on_stale(FAIL)).await?;
    is_abandoned(&expect::failed(outcome)?, &old)?;
    let new = cx.claim(&retry).await?;
    ensure!(new.token() > old.token(), "token");
    ensure_eq!(new.attempts(), 2, "attempts");
    let record = expect::record(cx.store().get(new.key()).await?)?;
    let Record::InFlight(InFlight { on_stale, .. }) = record else {
        return Err(crate::CaseError::new("not in flight"));
    };
    ensure_eq!(on_stale, TAKE_OVER, "the policy of the new claim");
    Ok(())
}
