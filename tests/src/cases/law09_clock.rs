//! Law 9: the store's clock decides every expiry.

use std::time::Duration;

use idem_core::{ClaimOutcome, Record, Response, StalePolicy};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::profile::libfaketime;
use crate::secrets::secret;
use crate::worker::{Report, Step, Worker};
use crate::{CaseError, CaseResult, Context, expect};

cases! { law 9:
    instants_of_a_claim_fit_together,
    instants_of_a_result_fit_together,
    two_handles_tell_one_time,
    a_lease_given_through_one_handle_holds_for_another,
    what_expires_for_one_handle_expires_for_another,
    tokens_follow_the_clock,
    a_client_an_hour_ahead_changes_nothing [SharedBetweenProcesses, ServerClock, FakeTime],
    a_client_an_hour_behind_changes_nothing [SharedBetweenProcesses, ServerClock, FakeTime],
}

/// Much more than a round trip, much less than a lease.
const TOLERANCE: Duration = Duration::from_secs(60);

async fn instants_of_a_claim_fit_together(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let Record::InFlight(record) = expect::record(cx.store().get(claim.key()).await?)? else {
        return Err(CaseError::new("not in flight"));
    };
    let (info, lease_ends_at) = (&record.info, record.lease_ends_at);
    ensure!(
        info.created_at <= info.observed_at,
        "first seen in the future"
    );
    let since = info.observed_at.saturating_since(info.created_at);
    ensure!(since < TOLERANCE, "first seen {since:?} ago");
    let lease = lease_ends_at.saturating_since(info.created_at);
    ensure!(lease <= LONG, "a lease of {lease:?}");
    ensure!(lease > LONG - TOLERANCE, "a lease of {lease:?}");
    ensure_eq!(
        info.expires_at.saturating_since(lease_ends_at),
        LONG,
        "retention"
    );
    ensure_eq!(
        claim.lease_ends_at(),
        lease_ends_at,
        "the holder's end of lease"
    );
    Ok(())
}

async fn instants_of_a_result_fit_together(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("done"))).await?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
    ensure!(
        replay.info.created_at <= replay.sealed_at,
        "sealed before it was claimed"
    );
    ensure!(
        replay.sealed_at <= replay.info.observed_at,
        "sealed in the future"
    );
    ensure!(
        replay.sealed_at < claim.lease_ends_at(),
        "sealed after the lease"
    );
    let kept = replay.info.remaining();
    ensure!(kept <= LONG && kept > LONG - TOLERANCE, "kept for {kept:?}");
    Ok(())
}

async fn two_handles_tell_one_time(cx: &Context) -> CaseResult {
    let handles = [cx.open().await?, cx.open().await?, cx.open().await?];
    let claim = cx.claim(&cx.request(&cx.key("watched"))).await?;
    let mut last = None;
    for at in 0..60 {
        let record = expect::record(handles[at % 3].get(claim.key()).await?)?;
        let now = record.info().observed_at;
        ensure!(Some(now) >= last, "time went back");
        let passed = now.saturating_since(last.unwrap_or(now));
        ensure!(passed < TOLERANCE, "time jumped by {passed:?}");
        last = Some(now);
    }
    Ok(())
}

async fn a_lease_given_through_one_handle_holds_for_another(cx: &Context) -> CaseResult {
    for at in 0..6 {
        let key = cx.key(format!("held {at}"));
        let (mine, theirs) = (cx.open().await?, cx.open().await?);
        let claim = expect::acquired(mine.claim(&cx.request(&key)).await?)?;
        let loser = expect::in_flight(theirs.claim(&cx.request(&key)).await?)?;
        ensure!(!loser.is_stale(), "a lease of minutes is stale");
        let left = loser.lease_remaining();
        ensure!(left <= LONG && left > LONG - TOLERANCE, "{left:?} are left");
        let renewed = theirs.renew(&claim, LONG + TOLERANCE * 2).await?;
        ensure!(
            renewed.lease_granted() > LONG,
            "renewed to {:?}",
            renewed.lease_granted()
        );
        mine.complete(&renewed, &Response::new(200, secret("x")), LONG)
            .await?;
        expect::completed(theirs.claim(&cx.request(&key)).await?)?;
    }
    Ok(())
}

async fn what_expires_for_one_handle_expires_for_another(cx: &Context) -> CaseResult {
    for at in 0..4 {
        let key = cx.key(format!("forgotten {at}"));
        let (mine, theirs) = (cx.open().await?, cx.open().await?);
        let claim = expect::acquired(mine.claim(&cx.request(&key)).await?)?;
        mine.complete(&claim, &Response::new(200, secret("x")), cx.short())
            .await?;
        cx.until_free(&key).await?;
        ensure_eq!(mine.get(&key).await?, None, "for the one");
        ensure_eq!(theirs.get(&key).await?, None, "for the other");
        let new = expect::acquired(theirs.claim(&cx.request(&key)).await?)?;
        ensure!(new.token() > claim.token(), "the token has to grow");
    }
    Ok(())
}

async fn tokens_follow_the_clock(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("first"))).await?;
    let record = expect::record(cx.store().get(claim.key()).await?)?;
    let now = record.info().created_at.as_micros();
    let apart = Duration::from_micros(now.abs_diff(claim.token().as_i64()));
    ensure!(
        apart < TOLERANCE,
        "the first token is {apart:?} from the store's clock"
    );
    Ok(())
}

/// Starts a worker whose machine has a wrong clock.
async fn deceived(cx: &Context, offset: &str, steps: Vec<Step>) -> CaseResult<Worker> {
    let library = libfaketime().ok_or_else(|| CaseError::new("libfaketime is gone"))?;
    let environment = [
        ("LD_PRELOAD", library.display().to_string()),
        ("FAKETIME", offset.to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    Worker::start_with(cx, steps, &environment).await
}

async fn claimed(worker: &mut Worker) -> CaseResult<ClaimOutcome> {
    match worker.report().await? {
        Report::Claimed(outcome) => Ok(outcome),
        other => Err(CaseError::new(format!("no outcome, but {other:?}"))),
    }
}

async fn a_wrong_clock_changes_nothing(cx: &Context, offset: &str) -> CaseResult {
    let [held, done, theirs, swept] = ["held", "done", "theirs", "swept"].map(|id| cx.key(id));
    let mine = cx.claim(&cx.request(&held)).await?;
    let sealed = cx.claim(&cx.request(&done)).await?;
    cx.store()
        .complete(&sealed, &Response::new(200, secret("x")), LONG)
        .await?;
    let short = cx.request(&swept).with_on_stale(StalePolicy::Fail);
    cx.leave_stale(&short).await?;
    cx.pass_clock_skew().await;
    let keys = [&held, &done, &swept, &theirs];
    let steps = keys.map(|key| Step::Claim(cx.request(key))).into_iter();
    let mut worker = deceived(cx, offset, steps.chain([Step::Hang]).collect()).await?;
    let loser = expect::in_flight(claimed(&mut worker).await?)?;
    ensure_eq!(
        loser.info.token,
        mine.token(),
        "holder told to the deceived"
    );
    expect::completed(claimed(&mut worker).await?)?;
    expect::failed(claimed(&mut worker).await?)?;
    let claim = expect::acquired(claimed(&mut worker).await?)?;
    let loser = expect::in_flight(cx.store().claim(&cx.request(&theirs)).await?)?;
    let left = loser.lease_remaining();
    ensure!(
        left <= LONG + cx.profile().clock_skew() && left > LONG - TOLERANCE,
        "{left:?} of the lease are left"
    );
    ensure_eq!(
        loser.lease_ends_at,
        claim.lease_ends_at(),
        "end of the lease"
    );
    worker.kill().await?;
    cx.store()
        .complete(&mine, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

async fn a_client_an_hour_ahead_changes_nothing(cx: &Context) -> CaseResult {
    a_wrong_clock_changes_nothing(cx, "+1h").await
}

async fn a_client_an_hour_behind_changes_nothing(cx: &Context) -> CaseResult {
    a_wrong_clock_changes_nothing(cx, "-1h").await
}
