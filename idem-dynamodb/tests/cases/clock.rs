//! What is known of the service's clock, and what a wrong one does.

use std::time::Duration;

use idem_conformance::{CaseResult, Context};
use idem_core::{ClaimOutcome, Effect, ErrorKind, IdempotencyStore, Record, Response, StalePolicy};

use super::HOUR;
use crate::support::service::Service;
use crate::support::{self, item, number};

/// A clock that is not known decides nothing.
pub(super) async fn without_a_date_nothing_is_decided(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let service = Service::start(&harness).await?;
    service.hide_clock();
    let store = service.store(cx, &harness, |config| config)?;
    let request = cx.request(&cx.key("one"));
    let error = store.claim(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    assert_eq!(error.effect(), Effect::None);
    assert!(error.to_string().contains("`Date`"), "{error}");
    assert!(store.verify().await.is_err());
    assert_eq!(item(cx, request.key()).await?, None);
    service.set_clock(0);
    store.verify().await?;
    assert!(store.claim(&request).await?.acquired().is_some());
    Ok(())
}

pub(super) async fn a_service_that_answers_slowly_is_refused(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let service = Service::start(&harness).await?;
    let shortest = Duration::from_secs(3);
    let store = service.store(cx, &harness, |config| {
        let config = config.with_timeout(Duration::from_secs(20));
        config.with_max_clock_skew(shortest).expect("valid")
    })?;
    // An answer leaves two seconds and its delay, and a second answer narrows that by less than one.
    let delay = Duration::from_millis(2_100);
    service.slow_down(delay);
    let request = cx.request(&cx.key("one"));
    let error = store.claim(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.effect(), Effect::None);
    assert!(error.to_string().contains("max_clock_skew"), "{error}");
    // One fast answer is enough, and its bounds stay.
    service.slow_down(Duration::ZERO);
    let claim = store.claim(&request).await?.acquired().expect("free");
    service.slow_down(delay);
    store
        .complete(&claim, &Response::new(200, "x"), HOUR)
        .await?;
    Ok(())
}

/// The service itself tells this client a wrong time: the worst that can be.
pub(super) async fn a_clock_ahead_may_end_a_lease_early_and_nothing_else(
    cx: &Context,
) -> CaseResult {
    let harness = support::harness()?;
    let service = Service::start(&harness).await?;
    service.set_clock(3600);
    let ahead = service.store(cx, &harness, |config| config)?;
    let request = |id| {
        cx.request(&cx.key(id))
            .with_lease(HOUR / 2)
            .with_retention(HOUR)
    };
    let [held, done, failing] = ["held", "done", "failing"].map(request);
    let first = cx.claim(&held).await?;
    let sealed = cx.claim(&done).await?;
    cx.store()
        .complete(&sealed, &Response::new(200, "x"), HOUR * 24)
        .await?;
    let failing = failing.with_on_stale(StalePolicy::Fail);
    let late = cx.claim(&failing).await?;
    // It can take a lease for ended that has half an hour left, by the clocks of all others.
    let again = cx.request(held.key());
    let second = ahead.claim(&again).await?.acquired().expect("taken over");
    assert!(second.token() > first.token() && second.is_takeover());
    // It can fail a record whose holder still works.
    let again = cx.request(failing.key());
    assert_eq!(ahead.claim(&again).await?.name(), "failed");
    // It can neither have two owners, nor change what is sealed.
    for (claim, what) in [(&first, "taken over"), (&late, "failed")] {
        let completed = cx
            .store()
            .complete(claim, &Response::new(200, "y"), HOUR)
            .await;
        assert!(completed.unwrap_err().is_claim_lost(), "{what}");
    }
    let again = cx.request(done.key());
    assert_eq!(ahead.claim(&again).await?.name(), "completed");
    ahead
        .complete(&second, &Response::new(200, "z"), HOUR * 24)
        .await?;
    let Some(Record::Completed(record)) = cx.store().get(held.key()).await? else {
        panic!("one holder has completed");
    };
    assert_eq!(record.response.body(), "z");
    assert!(
        record.sealed_at <= record.info.observed_at,
        "no time goes back"
    );
    // The next claim takes a greater token than one that is an hour ahead.
    let released = cx.claim(&request("released")).await?;
    cx.store().release(&released).await?;
    let far = ahead
        .claim(&request("released"))
        .await?
        .acquired()
        .expect("free");
    ahead.release(&far).await?;
    let near = cx.claim(&request("released")).await?;
    assert!(near.token() > far.token() && far.token() > released.token());
    Ok(())
}

pub(super) async fn a_clock_behind_may_keep_a_lease_and_nothing_else(cx: &Context) -> CaseResult {
    let harness = support::harness()?;
    let service = Service::start(&harness).await?;
    service.set_clock(-3600);
    let behind = service.store(cx, &harness, |config| config)?;
    let stale = cx.stale_claim(&cx.request(&cx.key("stale"))).await?;
    // For this client the lease lasts, so the work waits. No other client has to.
    let again = cx.request(stale.key());
    assert_eq!(behind.claim(&again).await?.name(), "in_flight");
    let second = cx.claim(&cx.request(stale.key())).await?;
    assert!(second.token() > stale.token());
    // What it claims is stale for others at once, so its work may be done twice, by one owner each.
    let third = behind.claim(&cx.request(&cx.key("third"))).await?;
    let third = third.acquired().expect("free");
    let fourth = cx.claim(&cx.request(third.key()).with_lease(HOUR)).await?;
    assert!(fourth.token() > third.token());
    let late = behind
        .complete(&third, &Response::new(200, "x"), HOUR)
        .await;
    assert!(late.unwrap_err().is_claim_lost());
    // Over the remains of a release the token grows, although this clock is behind them.
    let released = cx.claim(&cx.request(&cx.key("released"))).await?;
    cx.store().release(&released).await?;
    let next = behind.claim(&cx.request(released.key())).await?;
    let next = next.acquired().expect("free");
    assert!(next.token() > released.token());
    Ok(())
}

/// By the attribute of its TTL, the service deletes an item some time after that instant.
pub(super) async fn the_service_deletes_nothing_that_may_be_needed(cx: &Context) -> CaseResult {
    let store = cx.store();
    let request = |id| {
        cx.request(&cx.key(id))
            .with_lease(HOUR)
            .with_retention(HOUR)
    };
    let [held, done, failed, released] = ["held", "done", "failed", "released"].map(request);
    let held = cx.claim(&held).await?;
    let done = cx.claim(&done).await?;
    store
        .complete(&done, &Response::new(200, "x"), HOUR * 5)
        .await?;
    let short = failed
        .with_on_stale(StalePolicy::Fail)
        .with_lease(cx.short());
    let failed = cx.stale_claim(&short).await?;
    let outcome = store.claim(&cx.request(failed.key())).await?;
    assert!(matches!(outcome, ClaimOutcome::Failed(_)));
    let released = cx.claim(&released).await?;
    store.release(&released).await?;
    let renewed = store.renew(&held, HOUR * 3).await?;
    for claim in [&renewed, &done, &failed, &released] {
        let item = item(cx, claim.key()).await?.expect("there");
        let expires_at = number(&item, "expires_at").expect("a number");
        let ttl = number(&item, "ttl").expect("a number") * 1_000_000;
        let hour = 3_600_000_000;
        assert!(ttl >= expires_at + hour, "{ttl} for {expires_at}");
        assert!(
            ttl >= claim.token().as_i64() + hour,
            "{ttl} for {}",
            claim.token()
        );
    }
    // A token that is far ahead keeps its item for as long.
    let far = released.token().as_i64() + 48 * 3_600_000_000;
    support::set(cx, released.key(), "token", far).await?;
    let next = cx.claim(&cx.request(released.key())).await?;
    assert_eq!(next.token().as_i64(), far + 1);
    store.release(&next).await?;
    let item = item(cx, next.key()).await?.expect("there");
    let ttl = number(&item, "ttl").expect("a number") * 1_000_000;
    assert!(ttl > next.token().as_i64(), "{ttl}");
    Ok(())
}
