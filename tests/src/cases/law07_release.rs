//! Law 7: release frees the key at once; a recorded failure is replayed instead.

use idem_core::{FailedPolicy, Failure, Response};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseResult, Context, expect};

cases! { law 7:
    a_released_key_is_free_at_once,
    a_released_key_is_free_for_another_request,
    a_released_key_has_no_record,
    a_key_claimed_after_a_release_starts_afresh,
    releasing_one_key_leaves_its_neighbours,
    a_failure_is_replayed_to_everybody,
    a_failure_is_tried_again_where_the_claim_says_so,
    a_failure_that_was_tried_again_can_be_completed,
    a_failure_that_was_tried_again_and_released_leaves_a_free_key,
}

async fn a_released_key_is_free_at_once(cx: &Context) -> CaseResult {
    let key = cx.key("released");
    for _ in 0..3 {
        let claim = cx.claim(&cx.request(&key)).await?;
        cx.store().release(&claim).await?;
        let next = expect::acquired(cx.open().await?.claim(&cx.request(&key)).await?)?;
        cx.store().release(&next).await?;
    }
    Ok(())
}

async fn a_released_key_is_free_for_another_request(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    cx.store().release(&claim).await?;
    cx.hold(&cx.other_request(claim.key())).await?;
    expect::conflict(cx.store().claim(&cx.request(claim.key())).await?)?;
    Ok(())
}

async fn a_released_key_has_no_record(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    cx.store().release(&claim).await?;
    ensure_eq!(cx.store().get(claim.key()).await?, None, "get");
    ensure_eq!(
        cx.open().await?.get(claim.key()).await?,
        None,
        "get elsewhere"
    );
    Ok(())
}

async fn a_key_claimed_after_a_release_starts_afresh(cx: &Context) -> CaseResult {
    let key = cx.key("released");
    cx.leave_stale(&cx.request(&key)).await?;
    let claim = cx.claim(&cx.request(&key)).await?;
    ensure_eq!(claim.attempts(), 2, "after a takeover");
    let old = expect::record(cx.store().get(&key).await?)?;
    cx.store().release(&claim).await?;
    let next = cx.claim(&cx.request(&key)).await?;
    ensure_eq!(next.attempts(), 1, "after a release");
    let new = expect::record(cx.store().get(&key).await?)?;
    ensure!(
        new.info().created_at > old.info().created_at,
        "first seen anew"
    );
    Ok(())
}

async fn releasing_one_key_leaves_its_neighbours(cx: &Context) -> CaseResult {
    let mut claims = Vec::new();
    for at in 0..6 {
        claims.push(
            cx.claim(&cx.request(&cx.key(format!("neighbour {at}"))))
                .await?,
        );
    }
    cx.store().release(&claims[2]).await?;
    for (at, claim) in claims.iter().enumerate() {
        ensure_eq!(
            cx.store().get(claim.key()).await?.is_none(),
            at == 2,
            "key {at}"
        );
    }
    Ok(())
}

async fn a_failure_is_replayed_to_everybody(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    let failure = Failure::new("card.declined", secret("no funds"));
    cx.store().fail(&claim, &failure, LONG).await?;
    for _ in 0..3 {
        let replay = expect::failed(cx.open().await?.claim(&cx.request(claim.key())).await?)?;
        ensure_eq!(replay.failure, failure, "failure");
    }
    Ok(())
}

async fn a_failure_is_tried_again_where_the_claim_says_so(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), LONG)
        .await?;
    let first_seen = expect::record(cx.store().get(claim.key()).await?)?
        .info()
        .created_at;
    expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
    let retry = cx.request(claim.key()).with_on_failed(FailedPolicy::Retry);
    let again = cx.claim(&retry).await?;
    ensure_eq!(again.attempts(), 2, "attempts");
    let record = expect::record(cx.store().get(claim.key()).await?)?;
    ensure_eq!(record.info().created_at, first_seen, "first seen");
    let rival = cx.request(claim.key()).with_on_failed(FailedPolicy::Retry);
    expect::in_flight(cx.store().claim(&rival).await?)?;
    Ok(())
}

async fn a_failure_that_was_tried_again_can_be_completed(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), LONG)
        .await?;
    let retry = cx.request(claim.key()).with_on_failed(FailedPolicy::Retry);
    let again = cx.claim(&retry).await?;
    cx.store()
        .complete(&again, &Response::new(200, secret("at last")), LONG)
        .await?;
    for request in [retry, cx.request(claim.key())] {
        let replay = expect::completed(cx.store().claim(&request).await?)?;
        ensure_eq!(replay.response.body(), &secret("at last"), "body");
    }
    Ok(())
}

async fn a_failure_that_was_tried_again_and_released_leaves_a_free_key(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), LONG)
        .await?;
    let retry = cx.request(claim.key()).with_on_failed(FailedPolicy::Retry);
    let again = cx.claim(&retry).await?;
    cx.store().release(&again).await?;
    ensure_eq!(cx.store().get(claim.key()).await?, None, "get");
    cx.hold(&cx.other_request(claim.key())).await?;
    Ok(())
}
