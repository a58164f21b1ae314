//! Law 5: a later acquisition has a greater token, and after it the old holder can do nothing.

use std::time::Duration;

use idem_core::{
    AttemptId, Claim, ErrorKind, FailedPolicy, Failure, FencingToken, Record, Response,
};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseResult, Context, expect};

cases! { law 5:
    the_token_grows_with_a_takeover,
    the_token_grows_with_a_release,
    the_token_grows_with_expiry,
    the_token_grows_with_a_purge,
    the_token_grows_with_the_retry_of_a_failure,
    expired_lease_is_taken_over_once,
    after_a_takeover_the_old_holder_can_do_nothing,
    after_a_takeover_and_completion_the_old_holder_can_do_nothing,
    after_the_retry_of_a_failure_the_old_holder_can_do_nothing,
    after_release_and_a_new_claim_the_old_holder_can_do_nothing,
    after_release_the_holder_can_seal_nothing,
    after_the_retention_the_holder_can_do_nothing,
    the_right_token_with_another_attempt_is_refused,
    the_right_attempt_with_another_token_is_refused,
    a_claim_on_a_key_that_was_never_claimed_is_refused,
    a_late_holder_may_complete,
    a_late_holder_may_fail,
    a_late_holder_may_release,
    a_late_holder_may_renew,
    a_renewed_claim_is_not_taken_over,
    a_renewal_never_shortens_the_lease,
    a_renewal_extends_the_retention_by_as_much,
    a_sealed_claim_can_be_neither_released_nor_renewed,
}

/// Checks that every step of the claim is refused and changes nothing.
async fn can_do_nothing(cx: &Context, claim: &Claim) -> CaseResult {
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    let store = cx.open().await?;
    expect::lost(
        store
            .complete(claim, &Response::new(200, secret("old")), LONG)
            .await,
    )?;
    expect::lost(
        store
            .fail(claim, &Failure::new("old", secret("old")), LONG)
            .await,
    )?;
    expect::lost(store.renew(claim, LONG * 2).await)?;
    expect::lost(store.release(claim).await)?;
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record after all was refused");
    Ok(())
}

async fn may_still_complete(cx: &Context, claim: &Claim) -> CaseResult {
    let response = Response::new(200, secret("new"));
    cx.store().complete(claim, &response, LONG).await?;
    let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
    ensure_eq!(replay.response, response, "replay");
    ensure_eq!(replay.info.token, claim.token(), "token");
    Ok(())
}

async fn the_token_grows_with_a_takeover(cx: &Context) -> CaseResult {
    let key = cx.key("taken over");
    let mut last = cx.stale_claim(&cx.request(&key)).await?;
    for attempts in 2..5 {
        let next = cx.stale_claim(&cx.request(&key)).await?;
        ensure!(next.token() > last.token(), "token after a takeover");
        ensure_eq!(next.attempts(), attempts, "attempts");
        ensure!(next.is_takeover(), "it is a takeover");
        last = next;
    }
    Ok(())
}

async fn the_token_grows_with_a_release(cx: &Context) -> CaseResult {
    let key = cx.key("released");
    let mut last = None;
    for _ in 0..20 {
        let claim = cx.claim(&cx.request(&key)).await?;
        ensure!(Some(claim.token()) > last, "token after a release");
        last = Some(claim.token());
        cx.store().release(&claim).await?;
    }
    Ok(())
}

async fn the_token_grows_with_expiry(cx: &Context) -> CaseResult {
    let key = cx.key("expired");
    let claim = cx.claim(&cx.request(&key)).await?;
    cx.store()
        .complete(&claim, &Response::new(200, ""), cx.short())
        .await?;
    cx.until_free(&key).await?;
    let next = cx.claim(&cx.request(&key)).await?;
    ensure!(next.token() > claim.token(), "token after expiry");
    ensure_eq!(next.attempts(), 1, "a fresh key");
    Ok(())
}

async fn the_token_grows_with_a_purge(cx: &Context) -> CaseResult {
    let key = cx.key("purged");
    let claim = cx.claim(&cx.request(&key)).await?;
    cx.store()
        .complete(&claim, &Response::new(200, ""), cx.short())
        .await?;
    cx.until_free(&key).await?;
    cx.store().delete_expired(100).await?;
    let next = cx.claim(&cx.request(&key)).await?;
    ensure!(next.token() > claim.token(), "token after expiry and purge");
    cx.store().release(&next).await?;
    cx.store().delete_expired(100).await?;
    let last = cx.claim(&cx.request(&key)).await?;
    ensure!(last.token() > next.token(), "token after release and purge");
    Ok(())
}

async fn the_token_grows_with_the_retry_of_a_failure(cx: &Context) -> CaseResult {
    let key = cx.key("tried again");
    let mut last = cx.claim(&cx.request(&key)).await?;
    for attempts in 2..6 {
        cx.store()
            .fail(&last, &Failure::new("code", secret("message")), LONG)
            .await?;
        let next = cx
            .claim(&cx.request(&key).with_on_failed(FailedPolicy::Retry))
            .await?;
        ensure!(next.token() > last.token(), "token after a retry");
        ensure_eq!(next.attempts(), attempts, "attempts");
        last = next;
    }
    Ok(())
}

async fn expired_lease_is_taken_over_once(cx: &Context) -> CaseResult {
    let key = cx.key("stale");
    let old = cx.stale_claim(&cx.request(&key)).await?;
    let new = cx.claim(&cx.request(&key)).await?;
    ensure!(new.token() > old.token(), "token");
    for _ in 0..3 {
        let loser = expect::in_flight(cx.store().claim(&cx.request(&key)).await?)?;
        ensure_eq!(loser.info.token, new.token(), "holder");
    }
    Ok(())
}

async fn after_a_takeover_the_old_holder_can_do_nothing(cx: &Context) -> CaseResult {
    let key = cx.key("stale");
    let old = cx.stale_claim(&cx.request(&key)).await?;
    let new = cx.claim(&cx.request(&key)).await?;
    can_do_nothing(cx, &old).await?;
    may_still_complete(cx, &new).await
}

async fn after_a_takeover_and_completion_the_old_holder_can_do_nothing(cx: &Context) -> CaseResult {
    let key = cx.key("stale");
    let old = cx.stale_claim(&cx.request(&key)).await?;
    let new = cx.claim(&cx.request(&key)).await?;
    let response = Response::new(200, secret("the same from both"));
    cx.store().complete(&new, &response, LONG).await?;
    expect::lost(cx.store().complete(&old, &response, LONG).await)?;
    can_do_nothing(cx, &old).await
}

async fn after_the_retry_of_a_failure_the_old_holder_can_do_nothing(cx: &Context) -> CaseResult {
    let key = cx.key("tried again");
    let old = cx.claim(&cx.request(&key)).await?;
    let failure = Failure::new("code", secret("message"));
    cx.store().fail(&old, &failure, LONG).await?;
    let new = cx
        .claim(&cx.request(&key).with_on_failed(FailedPolicy::Retry))
        .await?;
    expect::lost(cx.store().fail(&old, &failure, LONG).await)?;
    can_do_nothing(cx, &old).await?;
    may_still_complete(cx, &new).await
}

async fn after_release_and_a_new_claim_the_old_holder_can_do_nothing(cx: &Context) -> CaseResult {
    let key = cx.key("released");
    let old = cx.claim(&cx.request(&key)).await?;
    cx.store().release(&old).await?;
    let new = cx.claim(&cx.request(&key)).await?;
    can_do_nothing(cx, &old).await?;
    may_still_complete(cx, &new).await
}

async fn after_release_the_holder_can_seal_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    cx.store().release(&claim).await?;
    expect::lost(
        cx.store()
            .complete(&claim, &Response::new(200, ""), LONG)
            .await,
    )?;
    expect::lost(
        cx.store()
            .fail(&claim, &Failure::new("c", secret("m")), LONG)
            .await,
    )?;
    expect::lost(cx.store().renew(&claim, LONG).await)?;
    ensure_eq!(
        cx.store().get(claim.key()).await?,
        None,
        "the key stays free"
    );
    Ok(())
}

async fn after_the_retention_the_holder_can_do_nothing(cx: &Context) -> CaseResult {
    let key = cx.key("forgotten");
    let request = cx
        .request(&key)
        .with_lease(cx.short())
        .with_retention(cx.short());
    let claim = cx.claim(&request).await?;
    cx.until_free(&key).await?;
    can_do_nothing(cx, &claim).await?;
    let new = cx.claim(&cx.request(&key)).await?;
    can_do_nothing(cx, &claim).await?;
    may_still_complete(cx, &new).await
}

fn forged(claim: &Claim, token: FencingToken, attempt: AttemptId) -> Claim {
    let ends_at = claim.lease_ends_at();
    Claim::new(
        claim.key().clone(),
        token,
        attempt,
        claim.attempts(),
        ends_at,
        ends_at,
    )
}

async fn the_right_token_with_another_attempt_is_refused(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    can_do_nothing(cx, &forged(&claim, claim.token(), AttemptId::random())).await?;
    can_do_nothing(cx, &forged(&claim, claim.token(), AttemptId::NIL)).await?;
    may_still_complete(cx, &claim).await
}

async fn the_right_attempt_with_another_token_is_refused(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    for other in [-1, 1] {
        let token = FencingToken::from_i64(claim.token().as_i64() + other);
        can_do_nothing(cx, &forged(&claim, token, claim.attempt())).await?;
    }
    may_still_complete(cx, &claim).await
}

async fn a_claim_on_a_key_that_was_never_claimed_is_refused(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let (token, attempt) = (claim.token(), claim.attempt());
    let ends_at = claim.lease_ends_at();
    let never = Claim::new(cx.key("never"), token, attempt, 1, ends_at, ends_at);
    can_do_nothing(cx, &never).await?;
    ensure_eq!(
        cx.store().get(never.key()).await?,
        None,
        "nothing was made up"
    );
    may_still_complete(cx, &claim).await
}

async fn a_late_holder_may_complete(cx: &Context) -> CaseResult {
    let claim = cx.stale_claim(&cx.request(&cx.key("late"))).await?;
    may_still_complete(cx, &claim).await
}

async fn a_late_holder_may_fail(cx: &Context) -> CaseResult {
    let claim = cx.stale_claim(&cx.request(&cx.key("late"))).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), LONG)
        .await?;
    expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
    Ok(())
}

async fn a_late_holder_may_release(cx: &Context) -> CaseResult {
    let claim = cx.stale_claim(&cx.request(&cx.key("late"))).await?;
    cx.store().release(&claim).await?;
    ensure_eq!(cx.store().get(claim.key()).await?, None, "after release");
    cx.hold(&cx.other_request(claim.key())).await?;
    Ok(())
}

async fn a_late_holder_may_renew(cx: &Context) -> CaseResult {
    let claim = cx.stale_claim(&cx.request(&cx.key("late"))).await?;
    let renewed = cx.store().renew(&claim, LONG).await?;
    ensure_eq!(renewed.token(), claim.token(), "token");
    ensure_eq!(renewed.attempt(), claim.attempt(), "attempt");
    ensure_eq!(renewed.attempts(), claim.attempts(), "attempts");
    expect::in_flight(cx.store().claim(&cx.request(claim.key())).await?)?;
    may_still_complete(cx, &renewed).await
}

async fn a_renewed_claim_is_not_taken_over(cx: &Context) -> CaseResult {
    let key = cx.key("kept alive");
    let claim = cx.claim(&cx.request(&key).with_lease(cx.short())).await?;
    let renewed = cx.store().renew(&claim, LONG).await?;
    ensure!(
        renewed.lease_ends_at() > claim.lease_ends_at(),
        "the lease is longer"
    );
    ensure!(
        renewed.lease_granted() > LONG / 2,
        "what was asked for is granted"
    );
    tokio::time::sleep(cx.short() + Duration::from_millis(20)).await;
    let loser = expect::in_flight(cx.store().claim(&cx.request(&key)).await?)?;
    ensure_eq!(
        loser.lease_ends_at,
        renewed.lease_ends_at(),
        "end of the lease"
    );
    // The claim from before the renewal is the same claim.
    may_still_complete(cx, &claim).await
}

async fn a_renewal_never_shortens_the_lease(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("long"))).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    let renewed = cx.store().renew(&claim, cx.short()).await?;
    ensure_eq!(
        renewed.lease_ends_at(),
        claim.lease_ends_at(),
        "end of the lease"
    );
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn a_renewal_extends_the_retention_by_as_much(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("long"))).await?;
    let before = expect::record(cx.store().get(claim.key()).await?)?;
    let renewed = cx.store().renew(&claim, LONG * 3).await?;
    let after = expect::record(cx.store().get(claim.key()).await?)?;
    let moved = renewed
        .lease_ends_at()
        .saturating_since(claim.lease_ends_at());
    ensure!(moved > LONG, "the lease is longer");
    let kept = after
        .info()
        .expires_at
        .saturating_since(before.info().expires_at);
    ensure_eq!(kept, moved, "what the retention moved by");
    ensure_eq!(
        after.info().created_at,
        before.info().created_at,
        "first seen"
    );
    Ok(())
}

async fn a_sealed_claim_can_be_neither_released_nor_renewed(cx: &Context) -> CaseResult {
    let done = cx.claim(&cx.request(&cx.key("done"))).await?;
    cx.store()
        .complete(&done, &Response::new(200, secret("x")), LONG)
        .await?;
    let failed = cx.claim(&cx.request(&cx.key("failed"))).await?;
    cx.store()
        .fail(&failed, &Failure::new("c", secret("m")), LONG)
        .await?;
    for claim in [&done, &failed] {
        let before = expect::unobserved(cx.store().get(claim.key()).await?);
        expect::refused(cx.store().release(claim).await, ErrorKind::ClaimLost)?;
        expect::refused(
            cx.store().renew(claim, LONG * 2).await,
            ErrorKind::ClaimLost,
        )?;
        let after = expect::unobserved(cx.store().get(claim.key()).await?);
        ensure!(
            !matches!(after, None | Some(Record::InFlight(_))),
            "it is open again"
        );
        ensure_eq!(after, before, "the record");
    }
    Ok(())
}
