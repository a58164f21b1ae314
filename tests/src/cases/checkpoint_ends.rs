//! Checkpoints: when they end, and what is refused. Laws 5, 7, 8 and 11.

use idem_core::{
    Checkpoint, Claim, ClaimRequest, ErrorKind, FailedPolicy, Failure, Response, StalePolicy,
};

use super::checkpoint::{last_is, point};
use crate::case::cases;
use crate::context::LONG;
use crate::expect::points;
use crate::failure::ensure_eq;
use crate::secrets::secret;
use crate::{CaseError, CaseResult, Context, expect};

cases! { LAW05, law 5:
    a_sealed_claim_has_no_checkpoint [Checkpoints],
    after_a_sweep_failed_the_record_it_has_no_checkpoint [Checkpoints],
    after_a_claim_failed_the_record_it_has_no_checkpoint [Checkpoints],
}

cases! { LAW07, law 7:
    a_released_claim_has_no_checkpoint [Checkpoints],
    a_released_key_begins_without_a_checkpoint [Checkpoints],
    a_retried_failure_begins_without_a_checkpoint [Checkpoints],
}

cases! { LAW08, law 8:
    an_expired_key_begins_without_a_checkpoint [Checkpoints],
    after_the_retention_the_holder_can_store_no_checkpoint [Checkpoints],
    a_key_fresh_after_its_completion_begins_without_a_checkpoint [Checkpoints],
    a_checkpoint_does_not_keep_its_record [Checkpoints],
}

cases! { LAW11, law 11:
    a_checkpoint_over_the_limit_is_refused [Checkpoints],
    an_error_of_a_checkpoint_shows_nothing_of_it [Checkpoints],
}

async fn a_sealed_claim_has_no_checkpoint(cx: &Context) -> CaseResult {
    let done = cx.claim(&cx.request(&cx.key("done"))).await?;
    points(cx.store())?.checkpoint(&done, &point("one")).await?;
    let response = Response::new(200, secret("x"));
    cx.store().complete(&done, &response, LONG).await?;
    let failed = cx.claim(&cx.request(&cx.key("failed"))).await?;
    points(cx.store())?
        .checkpoint(&failed, &point("one"))
        .await?;
    cx.store()
        .fail(&failed, &Failure::new("c", secret("m")), LONG)
        .await?;
    for claim in [&done, &failed] {
        let before = expect::unobserved(cx.store().get(claim.key()).await?);
        expect::lost(points(cx.store())?.checkpoint(claim, &point("late")).await)?;
        expect::lost(points(cx.store())?.last_checkpoint(claim).await)?;
        let after = expect::unobserved(cx.store().get(claim.key()).await?);
        ensure_eq!(after, before, "the record");
    }
    Ok(())
}

/// Returns a stale claim with a checkpoint that must not run again.
async fn abandoned(cx: &Context, id: &str) -> CaseResult<Claim> {
    let request = cx.request(&cx.key(id)).with_on_stale(StalePolicy::Fail);
    let claim = cx.stale_claim(&request).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("old"))
        .await?;
    Ok(claim)
}

/// Checks that the record is failed and replayed as abandoned, and that its retry begins without a
/// checkpoint.
async fn is_gone(cx: &Context, old: &Claim) -> CaseResult {
    let replay = expect::failed(cx.store().claim(&cx.request(old.key())).await?)?;
    ensure_eq!(replay.failure.code(), Failure::ABANDONED, "code");
    expect::lost(points(cx.store())?.checkpoint(old, &point("late")).await)?;
    expect::lost(points(cx.store())?.last_checkpoint(old).await)?;
    let retry = cx.request(old.key()).with_on_failed(FailedPolicy::Retry);
    let new = cx.claim(&retry).await?;
    last_is(cx, &new, None).await
}

async fn after_a_sweep_failed_the_record_it_has_no_checkpoint(cx: &Context) -> CaseResult {
    let old = abandoned(cx, "swept").await?;
    ensure_eq!(cx.store().fail_abandoned(10).await?, 1, "swept");
    is_gone(cx, &old).await
}

async fn after_a_claim_failed_the_record_it_has_no_checkpoint(cx: &Context) -> CaseResult {
    let old = abandoned(cx, "met").await?;
    expect::failed(cx.store().claim(&cx.request(old.key())).await?)?;
    is_gone(cx, &old).await
}

async fn a_released_claim_has_no_checkpoint(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("one"))
        .await?;
    cx.store().release(&claim).await?;
    expect::lost(points(cx.store())?.checkpoint(&claim, &point("late")).await)?;
    expect::lost(points(cx.store())?.last_checkpoint(&claim).await)?;
    ensure_eq!(cx.store().get(claim.key()).await?, None, "a record");
    Ok(())
}

async fn a_released_key_begins_without_a_checkpoint(cx: &Context) -> CaseResult {
    for (id, other) in [("same", false), ("other", true)] {
        let first = cx.request(&cx.key(id));
        let claim = cx.claim(&first).await?;
        points(cx.store())?
            .checkpoint(&claim, &point("old"))
            .await?;
        cx.store().release(&claim).await?;
        let next = match other {
            true => cx.other_request(claim.key()),
            false => cx.request(claim.key()),
        };
        let new = cx.claim(&next).await?;
        last_is(cx, &new, None).await?;
        points(cx.store())?.checkpoint(&new, &point("new")).await?;
        last_is(cx, &new, Some(&point("new"))).await?;
    }
    // Also for the attempt that released it.
    let request = cx.request(&cx.key("again"));
    let claim = cx.claim(&request).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("old"))
        .await?;
    cx.store().release(&claim).await?;
    last_is(cx, &cx.claim(&request).await?, None).await
}

async fn a_retried_failure_begins_without_a_checkpoint(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("old"))
        .await?;
    cx.store()
        .fail(&claim, &Failure::new("c", secret("m")), LONG)
        .await?;
    let retry = cx.request(claim.key()).with_on_failed(FailedPolicy::Retry);
    let new = cx.claim(&retry).await?;
    ensure_eq!(new.attempts(), 2, "attempts");
    last_is(cx, &new, None).await?;
    // The same attempt claims again: that is not another retry.
    points(cx.store())?.checkpoint(&new, &point("new")).await?;
    let same = cx.claim(&retry).await?;
    last_is(cx, &same, Some(&point("new"))).await
}

/// Returns a claim with a checkpoint whose record expires soon, and its request. A slow machine
/// gets more time.
async fn expiring(cx: &Context) -> CaseResult<(ClaimRequest, Claim)> {
    for factor in [1, 4, 16, 64] {
        let request = cx.request(&cx.key(format!("{factor}")));
        let soon = cx.short() * factor;
        let request = request.with_lease(soon).with_retention(soon);
        let claim = cx.claim(&request).await?;
        match points(cx.store())?.checkpoint(&claim, &point("old")).await {
            Ok(()) => return Ok((request, claim)),
            Err(error) => expect::lost(Err::<(), _>(error)).map(drop)?,
        }
    }
    Err(CaseError::new("no checkpoint was stored in time"))
}

async fn an_expired_key_begins_without_a_checkpoint(cx: &Context) -> CaseResult {
    let (request, old) = expiring(cx).await?;
    cx.until_free(old.key()).await?;
    // Also for the attempt itself: its record is gone.
    let new = cx.claim(&request.with_lease(LONG)).await?;
    ensure_eq!(new.attempts(), 1, "attempts");
    last_is(cx, &new, None).await
}

async fn after_the_retention_the_holder_can_store_no_checkpoint(cx: &Context) -> CaseResult {
    let (_, old) = expiring(cx).await?;
    cx.until_free(old.key()).await?;
    expect::lost(points(cx.store())?.checkpoint(&old, &point("late")).await)?;
    expect::lost(points(cx.store())?.last_checkpoint(&old).await)?;
    ensure_eq!(cx.store().get(old.key()).await?, None, "a record");
    Ok(())
}

async fn a_key_fresh_after_its_completion_begins_without_a_checkpoint(cx: &Context) -> CaseResult {
    let old = cx.claim(&cx.request(&cx.key("done"))).await?;
    points(cx.store())?.checkpoint(&old, &point("old")).await?;
    let response = Response::new(200, secret("x"));
    cx.store().complete(&old, &response, cx.short()).await?;
    cx.until_free(old.key()).await?;
    let new = cx.claim(&cx.request(old.key())).await?;
    last_is(cx, &new, None).await
}

async fn a_checkpoint_does_not_keep_its_record(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("short"));
    let request = request.with_lease(cx.short()).with_retention(cx.short());
    let claim = cx.claim(&request).await?;
    let started = std::time::Instant::now();
    loop {
        match points(cx.store())?
            .checkpoint(&claim, &point("again"))
            .await
        {
            Ok(()) if started.elapsed() < cx.profile().max_wait() => {}
            result => return expect::lost(result).map(drop),
        }
        tokio::time::sleep(cx.short() / 8).await;
    }
}

async fn a_checkpoint_over_the_limit_is_refused(cx: &Context) -> CaseResult {
    let limit = cx.store().limits().max_result_bytes;
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("one"))
        .await?;
    for bytes in [limit, limit - "name".len() - 1] {
        let large = Checkpoint::new("name", vec![7; bytes])?;
        let refused = points(cx.store())?.checkpoint(&claim, &large).await;
        expect::refused(refused, ErrorKind::InvalidInput)?;
    }
    last_is(cx, &claim, Some(&point("one"))).await
}

async fn an_error_of_a_checkpoint_shows_nothing_of_it(cx: &Context) -> CaseResult {
    let key = idem_core::Key::new("secret-tenant", "pay", "secret-id")?;
    let claim = cx.claim(&cx.request(&key)).await?;
    cx.store().release(&claim).await?;
    let secret = Checkpoint::new("secret-name", "secret-data")?;
    for error in [
        expect::lost(points(cx.store())?.checkpoint(&claim, &secret).await)?,
        expect::lost(points(cx.store())?.last_checkpoint(&claim).await)?,
    ] {
        let shown = format!("{error} {error:?}");
        ensure_eq!(shown.contains("secret"), false, "shown: {shown}");
        ensure_eq!(error.backend().is_empty(), false, "no backend: {shown}");
        ensure_eq!(error.operation().is_empty(), false, "no operation: {shown}");
    }
    Ok(())
}
