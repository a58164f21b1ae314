//! Law 16: `delete_expired` and `fail_abandoned` work in bounded batches beside live traffic.

use idem_core::{Claim, Failure, Record, Response, StalePolicy};

use crate::case::cases;
use crate::context::LONG;
use crate::eventually::eventually;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseResult, Context, expect, race};

cases! { law 16:
    purge_keeps_to_its_limit [ExactPurge],
    sweep_keeps_to_its_limit,
    sweep_fails_only_what_may_not_be_taken_over,
    sweep_twice_finds_nothing_more,
    a_swept_record_is_replayed_as_a_failure,
    purges_beside_each_other_delete_each_record_once [ExactPurge]: expensive,
    sweeps_beside_each_other_fail_each_record_once: expensive,
    sweep_beside_late_holders_leaves_one_verdict,
}

/// Claims all keys first and completes them then, so that no claim meets an expired record.
async fn expired(cx: &Context, count: usize) -> CaseResult {
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
    Ok(())
}

async fn stale(cx: &Context, count: usize, policy: StalePolicy) -> CaseResult<Vec<Claim>> {
    let mut claims = Vec::new();
    for at in 0..count {
        let request = cx.request(&cx.key(format!("{policy:?} {at}")));
        let request = request.with_on_stale(policy).with_lease(cx.short());
        claims.push(cx.claim(&request).await?);
    }
    for claim in &claims {
        cx.until_stale(claim.key()).await?;
    }
    Ok(claims)
}

async fn purge_keeps_to_its_limit(cx: &Context) -> CaseResult {
    expired(cx, 10).await?;
    for purged in [4, 4, 2, 0] {
        ensure_eq!(
            cx.store().delete_expired(4).await?,
            purged,
            "purged, four at most"
        );
    }
    Ok(())
}

async fn sweep_keeps_to_its_limit(cx: &Context) -> CaseResult {
    let claims = stale(cx, 10, StalePolicy::Fail).await?;
    let mut left = claims.len();
    for swept in [4, 4, 2, 0] {
        ensure_eq!(
            cx.store().fail_abandoned(4).await?,
            swept,
            "swept, four at most"
        );
        left -= usize::try_from(swept)?;
        let mut open = 0;
        for claim in &claims {
            let record = expect::record(cx.store().get(claim.key()).await?)?;
            open += usize::from(matches!(record, Record::InFlight(_)));
        }
        ensure_eq!(open, left, "records left");
    }
    Ok(())
}

async fn sweep_fails_only_what_may_not_be_taken_over(cx: &Context) -> CaseResult {
    let open = stale(cx, 3, StalePolicy::TakeOver).await?;
    let closed = stale(cx, 2, StalePolicy::Fail).await?;
    let live = cx.request(&cx.key("live")).with_on_stale(StalePolicy::Fail);
    let live = cx.claim(&live).await?;
    let done = cx.request(&cx.key("done")).with_on_stale(StalePolicy::Fail);
    let done = cx.claim(&done.with_lease(cx.short())).await?;
    cx.store()
        .complete(&done, &Response::new(200, secret("x")), LONG)
        .await?;
    ensure_eq!(cx.store().fail_abandoned(100).await?, 2, "swept");
    for claim in open.iter().chain([&live]) {
        cx.store()
            .complete(claim, &Response::new(200, secret("late")), LONG)
            .await?;
    }
    for claim in &closed {
        expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
    }
    expect::completed(cx.store().claim(&cx.request(done.key())).await?)?;
    Ok(())
}

async fn sweep_twice_finds_nothing_more(cx: &Context) -> CaseResult {
    let claims = stale(cx, 3, StalePolicy::Fail).await?;
    ensure_eq!(cx.store().fail_abandoned(100).await?, 3, "swept");
    let before = expect::unobserved(cx.store().get(claims[0].key()).await?);
    ensure_eq!(
        cx.open().await?.fail_abandoned(100).await?,
        0,
        "swept again"
    );
    let after = expect::unobserved(cx.store().get(claims[0].key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn a_swept_record_is_replayed_as_a_failure(cx: &Context) -> CaseResult {
    let claims = stale(cx, 1, StalePolicy::Fail).await?;
    let before = expect::record(cx.store().get(claims[0].key()).await?)?;
    ensure_eq!(cx.store().fail_abandoned(100).await?, 1, "swept");
    let replay = expect::failed(cx.store().claim(&cx.request(claims[0].key())).await?)?;
    ensure_eq!(replay.failure.code(), Failure::ABANDONED, "code");
    ensure_eq!(replay.info.token, claims[0].token(), "token");
    ensure_eq!(
        replay.info.expires_at,
        before.info().expires_at,
        "end of retention"
    );
    expect::conflict(cx.store().claim(&cx.other_request(claims[0].key())).await?)?;
    Ok(())
}

async fn purges_beside_each_other_delete_each_record_once(cx: &Context) -> CaseResult {
    const RECORDS: usize = 40;
    expired(cx, RECORDS).await?;
    let purged = race::at_once(cx, vec![(); 6], |store, asked, ()| async move {
        let mut total = 0;
        for _ in 0..10 {
            total += race::ask(&asked, || store.delete_expired(7)).await?;
        }
        Ok(total)
    })
    .await?;
    // A deletion may skip records that another one works on.
    let rest = cx.store().delete_expired(100).await?;
    ensure_eq!(
        purged.iter().sum::<u64>() + rest,
        RECORDS as u64,
        "purged by all together"
    );
    Ok(())
}

async fn sweeps_beside_each_other_fail_each_record_once(cx: &Context) -> CaseResult {
    const RECORDS: usize = 40;
    let claims = stale(cx, RECORDS, StalePolicy::Fail).await?;
    let swept = race::at_once(cx, vec![(); 6], |store, asked, ()| async move {
        let mut total = 0;
        for _ in 0..10 {
            total += race::ask(&asked, || store.fail_abandoned(7)).await?;
        }
        Ok(total)
    })
    .await?;
    let rest = cx.store().fail_abandoned(100).await?;
    ensure_eq!(
        swept.iter().sum::<u64>() + rest,
        RECORDS as u64,
        "swept by all together"
    );
    for claim in &claims {
        let record = expect::record(cx.store().get(claim.key()).await?)?;
        ensure!(matches!(record, Record::Failed(_)), "not failed");
    }
    Ok(())
}

async fn sweep_beside_late_holders_leaves_one_verdict(cx: &Context) -> CaseResult {
    let claims = stale(cx, 12, StalePolicy::Fail).await?;
    let mut moves: Vec<_> = claims.iter().cloned().map(Some).collect();
    moves.extend([None, None]);
    let sealed = race::at_once(cx, moves, |store, asked, claim| async move {
        let Some(claim) = claim else {
            return Ok(race::ask(&asked, || store.fail_abandoned(5)).await? > 100);
        };
        let response = Response::new(200, secret("late"));
        match race::ask(&asked, || store.complete(&claim, &response, LONG)).await {
            Ok(()) => Ok(true),
            Err(error) => expect::lost(Err::<(), _>(error)).map(|_| false),
        }
    })
    .await?;
    let settled = || async { Ok((cx.store().fail_abandoned(100).await? == 0).then_some(())) };
    eventually(cx.profile().max_wait(), "nothing is left to sweep", settled).await?;
    for (claim, sealed) in claims.iter().zip(sealed) {
        let record = expect::record(cx.store().get(claim.key()).await?)?;
        ensure_eq!(
            record.response().is_some(),
            sealed,
            "what is stored is what was told"
        );
        ensure!(!matches!(record, Record::InFlight(_)), "still open");
    }
    Ok(())
}
