//! Law 15: answering a duplicate writes nothing. A backend's own tests check its own counters.
//! tests.

use idem_core::{FailedPolicy, Failure, Response, StalePolicy};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::ensure_eq;
use crate::secrets::secret;
use crate::{CaseResult, Context, expect, race};

cases! { law 15:
    two_hundred_replays_change_nothing: expensive,
    two_hundred_losers_in_flight_change_nothing: expensive,
    two_hundred_replays_of_a_failure_change_nothing: expensive,
    two_hundred_conflicts_change_nothing: expensive,
    two_hundred_looks_change_nothing: expensive,
    replays_beside_each_other_change_nothing,
}

const DUPLICATES: usize = 200;

async fn two_hundred_replays_change_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("done"))).await?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for _ in 0..DUPLICATES {
        let duplicate = cx
            .request(claim.key())
            .with_lease(LONG * 3)
            .with_retention(LONG * 5);
        expect::completed(cx.store().claim(&duplicate).await?)?;
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn two_hundred_losers_in_flight_change_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for _ in 0..DUPLICATES {
        let duplicate = cx
            .request(claim.key())
            .with_lease(LONG * 3)
            .with_on_stale(StalePolicy::Fail);
        expect::in_flight(cx.store().claim(&duplicate).await?)?;
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn two_hundred_replays_of_a_failure_change_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), LONG)
        .await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for _ in 0..DUPLICATES {
        expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn two_hundred_conflicts_change_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("used"))).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for _ in 0..DUPLICATES {
        let rival = cx
            .other_request(claim.key())
            .with_on_failed(FailedPolicy::Retry);
        expect::conflict(cx.store().claim(&rival).await?)?;
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn two_hundred_looks_change_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for _ in 0..DUPLICATES {
        let seen = expect::unobserved(cx.store().get(claim.key()).await?);
        ensure_eq!(seen, before, "the record");
    }
    Ok(())
}

async fn replays_beside_each_other_change_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("done"))).await?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    let duplicates = (0..16).map(|_| cx.request(claim.key())).collect();
    for outcome in race::claims(cx, duplicates).await? {
        let replay = expect::completed(outcome)?;
        let seen = expect::unobserved(Some(idem_core::Record::Completed(replay)));
        ensure_eq!(seen, before, "what a duplicate was told");
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}
