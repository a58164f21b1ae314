//! Law 8: when retention ends the key is fresh, deleted or not; nothing live is ever deleted.

use std::sync::Arc;

use idem_core::{Claim, Failure, Record, Response, StalePolicy};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseResult, Context, expect, race};

cases! { law 8:
    a_completed_key_is_fresh_after_its_retention,
    a_replayed_key_is_fresh_after_its_retention,
    a_failed_key_is_fresh_after_its_retention,
    an_abandoned_key_is_fresh_after_lease_and_retention,
    a_swept_key_is_fresh_after_its_retention,
    an_expired_key_is_fresh_for_another_request,
    retention_counts_from_the_completion,
    retention_counts_from_the_failure,
    a_stale_record_is_kept_until_its_retention_ends,
    nothing_live_is_purged,
    purge_deletes_what_has_expired_and_counts_it [ExactPurge],
    a_purged_key_is_fresh,
    a_renewed_claim_is_not_purged,
    a_key_claimed_anew_is_not_purged,
    purge_beside_racing_claims_takes_no_live_record,
}

async fn completed(
    cx: &Context,
    id: &str,
    body: &str,
    kept: std::time::Duration,
) -> CaseResult<Claim> {
    let claim = cx.claim(&cx.request(&cx.key(id))).await?;
    cx.store()
        .complete(&claim, &Response::new(200, secret(body)), kept)
        .await?;
    Ok(claim)
}

/// Checks that the key is as if never claimed.
async fn is_fresh(cx: &Context, old: &Claim) -> CaseResult {
    cx.until_free(old.key()).await?;
    ensure_eq!(cx.store().get(old.key()).await?, None, "get");
    let new = cx.claim(&cx.request(old.key())).await?;
    ensure_eq!(new.attempts(), 1, "attempts of a fresh key");
    ensure!(new.token() > old.token(), "the token has to grow");
    cx.store()
        .complete(&new, &Response::new(200, secret("new")), LONG)
        .await?;
    let replay = expect::completed(cx.store().claim(&cx.request(old.key())).await?)?;
    ensure_eq!(replay.response.body(), &secret("new"), "body");
    Ok(())
}

async fn a_completed_key_is_fresh_after_its_retention(cx: &Context) -> CaseResult {
    let claim = completed(cx, "done", "old", cx.short()).await?;
    is_fresh(cx, &claim).await
}

/// A store that remembers a replayed result has to forget it in time.
async fn a_replayed_key_is_fresh_after_its_retention(cx: &Context) -> CaseResult {
    let handles = [Arc::clone(cx.store()), cx.open().await?];
    for at in 0..handles.len() {
        let kept = cx.short() * 5;
        let claim = completed(cx, &format!("done {at}"), "old", kept).await?;
        for store in &handles {
            // On a slow machine this is too late for a replay: the key is fresh already.
            let _ = store.get(claim.key()).await?;
            if let Some(early) = store.claim(&cx.request(claim.key())).await?.acquired() {
                store.release(&early).await?;
            }
        }
        cx.until_free(claim.key()).await?;
        for store in &handles {
            ensure_eq!(store.get(claim.key()).await?, None, "get");
        }
        let new = expect::acquired(handles[at].claim(&cx.request(claim.key())).await?)?;
        ensure!(new.token() > claim.token(), "the token has to grow");
    }
    Ok(())
}

async fn a_failed_key_is_fresh_after_its_retention(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), cx.short())
        .await?;
    is_fresh(cx, &claim).await
}

async fn an_abandoned_key_is_fresh_after_lease_and_retention(cx: &Context) -> CaseResult {
    for policy in [StalePolicy::TakeOver, StalePolicy::Fail] {
        let request = cx
            .request(&cx.key(format!("{policy:?}")))
            .with_on_stale(policy);
        let request = request.with_lease(cx.short()).with_retention(cx.short());
        let claim = cx.claim(&request).await?;
        is_fresh(cx, &claim).await?;
    }
    Ok(())
}

async fn a_swept_key_is_fresh_after_its_retention(cx: &Context) -> CaseResult {
    let request = cx
        .request(&cx.key("swept"))
        .with_on_stale(StalePolicy::Fail);
    let request = request
        .with_lease(cx.short())
        .with_retention(cx.short() * 3);
    let claim = cx.claim(&request).await?;
    let key = claim.key();
    let sweep = || async {
        Ok(
            (cx.store().fail_abandoned(10).await? == 1 || cx.store().get(key).await?.is_none())
                .then_some(()),
        )
    };
    crate::eventually::eventually(cx.profile().max_wait(), "it is swept", sweep).await?;
    is_fresh(cx, &claim).await
}

async fn an_expired_key_is_fresh_for_another_request(cx: &Context) -> CaseResult {
    let claim = completed(cx, "done", "old", cx.short()).await?;
    cx.until_free(claim.key()).await?;
    let other = cx.other_request(claim.key());
    let new = cx.claim(&other).await?;
    ensure_eq!(new.attempts(), 1, "attempts of a fresh key");
    let record = expect::record(cx.store().get(claim.key()).await?)?;
    ensure_eq!(
        record.info().fingerprint,
        *other.fingerprint(),
        "fingerprint"
    );
    ensure!(matches!(record, Record::InFlight(_)), "not in flight");
    Ok(())
}

async fn retention_counts_from_the_completion(cx: &Context) -> CaseResult {
    // The claim's own retention is for an abandoned record; a completion sets its own.
    let request = cx.request(&cx.key("done")).with_retention(LONG * 7);
    let claim = cx.claim(&request).await?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    let Record::Completed(record) = expect::record(cx.store().get(claim.key()).await?)? else {
        return Err(crate::CaseError::new("not completed"));
    };
    ensure_eq!(
        record.info.expires_at.saturating_since(record.sealed_at),
        LONG,
        "retention"
    );
    ensure!(
        record.info.remaining() <= LONG,
        "more than the retention is left"
    );
    ensure!(
        record.info.remaining() > LONG / 2,
        "the retention did not start at completion"
    );
    Ok(())
}

async fn retention_counts_from_the_failure(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("failed")).with_retention(cx.short());
    let claim = cx.claim(&request).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), LONG * 2)
        .await?;
    let replay = expect::failed(cx.store().claim(&request).await?)?;
    ensure_eq!(
        replay.info.expires_at.saturating_since(replay.sealed_at),
        LONG * 2,
        "retention"
    );
    Ok(())
}

async fn a_stale_record_is_kept_until_its_retention_ends(cx: &Context) -> CaseResult {
    let claim = cx.stale_claim(&cx.request(&cx.key("stale"))).await?;
    cx.store().delete_expired(100).await?;
    let Record::InFlight(record) = expect::record(cx.store().get(claim.key()).await?)? else {
        return Err(crate::CaseError::new("not in flight"));
    };
    ensure!(record.is_stale(), "not stale");
    ensure_eq!(
        record
            .info
            .expires_at
            .saturating_since(record.lease_ends_at),
        LONG,
        "retention"
    );
    expect::conflict(cx.store().claim(&cx.other_request(claim.key())).await?)?;
    Ok(())
}

async fn nothing_live_is_purged(cx: &Context) -> CaseResult {
    let live = cx.claim(&cx.request(&cx.key("live"))).await?;
    let failing = cx
        .request(&cx.key("stale, to fail"))
        .with_on_stale(StalePolicy::Fail);
    let failed = cx.claim(&cx.request(&cx.key("failed"))).await?;
    cx.store()
        .fail(&failed, &Failure::new("code", secret("message")), LONG)
        .await?;
    let claims = [
        cx.stale_claim(&cx.request(&cx.key("stale"))).await?,
        cx.stale_claim(&failing).await?,
        completed(cx, "done", "x", LONG).await?,
        failed,
        live,
    ];
    let mut before = Vec::new();
    for claim in &claims {
        before.push(expect::unobserved(cx.store().get(claim.key()).await?));
    }
    ensure_eq!(cx.store().delete_expired(100).await?, 0, "purged");
    for (claim, before) in claims.iter().zip(before) {
        let after = expect::unobserved(cx.store().get(claim.key()).await?);
        ensure!(before.is_some(), "no record of {}", claim.key().id());
        ensure_eq!(after, before, "the record of {}", claim.key().id());
    }
    Ok(())
}

/// Claims all keys first and completes them then, so that no claim meets an expired record.
async fn expired(cx: &Context, count: usize) -> CaseResult<Vec<Claim>> {
    let mut claims = Vec::new();
    for at in 0..count {
        claims.push(
            cx.claim(&cx.request(&cx.key(format!("expired {at}"))))
                .await?,
        );
    }
    for claim in &claims {
        cx.store()
            .complete(claim, &Response::new(200, secret("x")), cx.short())
            .await?;
    }
    for claim in &claims {
        cx.until_free(claim.key()).await?;
    }
    Ok(claims)
}

async fn purge_deletes_what_has_expired_and_counts_it(cx: &Context) -> CaseResult {
    let live = completed(cx, "live", "x", LONG).await?;
    expired(cx, 7).await?;
    ensure_eq!(cx.store().delete_expired(100).await?, 7, "purged");
    ensure_eq!(cx.store().delete_expired(100).await?, 0, "purged again");
    expect::completed(cx.store().claim(&cx.request(live.key())).await?)?;
    Ok(())
}

async fn a_purged_key_is_fresh(cx: &Context) -> CaseResult {
    let claims = expired(cx, 3).await?;
    cx.store().delete_expired(100).await?;
    for claim in &claims {
        is_fresh(cx, claim).await?;
    }
    Ok(())
}

async fn a_renewed_claim_is_not_purged(cx: &Context) -> CaseResult {
    let key = cx.key("renewed");
    let request = cx
        .request(&key)
        .with_lease(cx.short() * 4)
        .with_retention(cx.short() * 4);
    let claim = cx.claim(&request).await?;
    let claim = cx.store().renew(&claim, LONG).await?;
    let other = cx.request(&cx.key("not renewed"));
    let other = other
        .with_lease(cx.short() * 4)
        .with_retention(cx.short() * 4);
    cx.hold(&other).await?;
    cx.until_free(other.key()).await?;
    cx.store().delete_expired(100).await?;
    expect::in_flight(cx.store().claim(&cx.request(&key)).await?)?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

async fn a_key_claimed_anew_is_not_purged(cx: &Context) -> CaseResult {
    let claims = expired(cx, 3).await?;
    let new = cx.claim(&cx.request(claims[1].key())).await?;
    cx.store().delete_expired(100).await?;
    let record = expect::record(cx.store().get(new.key()).await?)?;
    ensure_eq!(record.info().token, new.token(), "token");
    cx.store()
        .complete(&new, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

async fn purge_beside_racing_claims_takes_no_live_record(cx: &Context) -> CaseResult {
    let keys: Vec<_> = expired(cx, 24)
        .await?
        .iter()
        .map(|claim| claim.key().clone())
        .collect();
    let moves: Vec<_> = (0..4)
        .flat_map(|part| {
            let mine = keys.iter().skip(part).step_by(4);
            let requests: Vec<_> = mine.map(|key| cx.request(key)).collect();
            [Some(requests), None]
        })
        .collect();
    let claims = race::at_once(cx, moves, |store, asked, requests| async move {
        let mut claims = Vec::new();
        for request in requests.iter().flatten() {
            let outcome = race::ask(&asked, || store.claim(request)).await?;
            claims.push(expect::acquired(outcome)?);
            tokio::task::yield_now().await;
        }
        for _ in 0..if requests.is_none() { 8 } else { 0 } {
            race::ask(&asked, || store.delete_expired(5)).await?;
            tokio::task::yield_now().await;
        }
        Ok(claims)
    })
    .await?;
    for claim in claims.iter().flatten() {
        let record = expect::record(cx.store().get(claim.key()).await?)?;
        ensure_eq!(record.info().token, claim.token(), "token");
    }
    ensure_eq!(claims.iter().flatten().count(), keys.len(), "claims");
    Ok(())
}
