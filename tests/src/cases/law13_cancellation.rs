//! Law 13: dropping any future at any poll leaves the key free, or held by one claim until its
//! lease ends.

use idem_core::{
    ClaimOutcome, ErrorKind, Failure, IdempotencyStore, Record, Response, StalePolicy,
};
use rand::RngExt;

use crate::cancel::{plan, polled};
use crate::case::cases;
use crate::context::LONG;
use crate::eventually::eventually;
use crate::failure::{ensure, ensure_eq};
use crate::race::again;
use crate::secrets::secret;
use crate::{CaseError, CaseResult, Context, expect, race};

cases! { law 13:
    a_dropped_claim_is_recovered_by_its_attempt,
    a_dropped_claim_frees_its_key_after_the_lease,
    a_dropped_completion_is_stored_or_not,
    a_dropped_completion_and_another_leave_what_was_told,
    a_dropped_failure_is_stored_or_not,
    a_dropped_release_can_be_repeated,
    a_dropped_renewal_can_be_repeated,
    a_dropped_takeover_leaves_one_holder,
    a_dropped_look_changes_nothing,
    a_dropped_purge_deletes_nothing_live,
    a_dropped_sweep_leaves_the_rest_to_the_next,
    a_handle_works_after_a_hundred_drops,
}

async fn a_dropped_claim_is_recovered_by_its_attempt(cx: &Context) -> CaseResult {
    for polls in plan() {
        let request = cx.request(&cx.key(format!("{polls} polls")));
        let finished = polled(cx.store().claim(&request), polls)
            .await
            .transpose()?;
        let claim = again(cx, || cx.store().claim(&request)).await?;
        let claim = expect::acquired(claim)?;
        ensure_eq!(claim.attempts(), 1, "attempts after {polls} polls");
        expect::in_flight(cx.store().claim(&cx.request(request.key())).await?)?;
        cx.store()
            .complete(&claim, &Response::new(200, secret("x")), LONG)
            .await?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the claim never finished by itself"))
}

async fn a_dropped_claim_frees_its_key_after_the_lease(cx: &Context) -> CaseResult {
    for polls in plan() {
        let request = cx
            .request(&cx.key(format!("{polls} polls")))
            .with_lease(cx.short());
        let finished = polled(cx.store().claim(&request), polls)
            .await
            .transpose()?;
        let rival = cx.request(request.key());
        let ask = || async { Ok(again(cx, || cx.store().claim(&rival)).await?.acquired()) };
        let claim = eventually(cx.profile().max_wait(), "a rival acquires the key", ask).await?;
        cx.store()
            .complete(&claim, &Response::new(200, secret("x")), LONG)
            .await?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the claim never finished by itself"))
}

async fn a_dropped_completion_is_stored_or_not(cx: &Context) -> CaseResult {
    for polls in plan() {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("{polls} polls"))))
            .await?;
        let response = Response::new(200, vec![7; 3000]).with_header("a", "b");
        let completing = cx.store().complete(&claim, &response, LONG);
        let finished = polled(completing, polls).await.transpose()?;
        let record = expect::record(cx.store().get(claim.key()).await?)?;
        match record.response() {
            Some(stored) => ensure!(*stored == response, "half a response is stored"),
            None => ensure!(
                matches!(record, Record::InFlight(_)),
                "neither sealed nor open"
            ),
        }
        ensure!(
            finished.is_none() || record.response().is_some(),
            "told, but not stored"
        );
        again(cx, || cx.store().complete(&claim, &response, LONG)).await?;
        let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
        ensure!(replay.response == response, "another response is replayed");
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the completion never finished by itself"))
}

async fn a_dropped_completion_and_another_leave_what_was_told(cx: &Context) -> CaseResult {
    for polls in plan() {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("{polls} polls"))))
            .await?;
        let (first, second) = (
            Response::new(200, secret("first")),
            Response::new(200, secret("second")),
        );
        let finished = polled(cx.store().complete(&claim, &first, LONG), polls)
            .await
            .transpose()?;
        let complete = || cx.store().complete(&claim, &second, LONG);
        let stands = match race::ask(cx.asked_again(), complete).await {
            Ok(()) => second,
            Err(error) if error.kind() == ErrorKind::AlreadySealed => first,
            Err(error) => return Err(error.into()),
        };
        let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
        ensure_eq!(
            replay.response.body(),
            stands.body(),
            "what stands after {polls} polls"
        );
        if finished.is_some() {
            let body = replay.response.body();
            ensure_eq!(body, &secret("first"), "what was acknowledged");
            return Ok(());
        }
    }
    Err(CaseError::new("the completion never finished by itself"))
}

async fn a_dropped_failure_is_stored_or_not(cx: &Context) -> CaseResult {
    for polls in plan() {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("{polls} polls"))))
            .await?;
        let failure = Failure::new("code", secret("message")).with_details(vec![7; 3000]);
        let finished = polled(cx.store().fail(&claim, &failure, LONG), polls)
            .await
            .transpose()?;
        again(cx, || cx.store().fail(&claim, &failure, LONG)).await?;
        let replay = expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
        ensure!(replay.failure == failure, "another failure is replayed");
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the failure never finished by itself"))
}

async fn a_dropped_release_can_be_repeated(cx: &Context) -> CaseResult {
    for polls in plan() {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("{polls} polls"))))
            .await?;
        let finished = polled(cx.store().release(&claim), polls)
            .await
            .transpose()?;
        again(cx, || cx.store().release(&claim)).await?;
        let next = cx.claim(&cx.other_request(claim.key())).await?;
        ensure!(next.token() > claim.token(), "the token has to grow");
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the release never finished by itself"))
}

async fn a_dropped_renewal_can_be_repeated(cx: &Context) -> CaseResult {
    for polls in plan() {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("{polls} polls"))))
            .await?;
        let finished = polled(cx.store().renew(&claim, LONG * 2), polls)
            .await
            .transpose()?;
        let renewed = again(cx, || cx.store().renew(&claim, LONG * 3)).await?;
        ensure!(
            renewed.lease_granted() > LONG * 2,
            "the lease is the longer one"
        );
        cx.store()
            .complete(&renewed, &Response::new(200, secret("x")), LONG)
            .await?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the renewal never finished by itself"))
}

async fn a_dropped_takeover_leaves_one_holder(cx: &Context) -> CaseResult {
    for polls in plan() {
        let key = cx.key(format!("{polls} polls"));
        let old = cx.stale_claim(&cx.request(&key)).await?;
        let request = cx.request(&key);
        let finished = polled(cx.store().claim(&request), polls)
            .await
            .transpose()?;
        let response = Response::new(200, secret("late"));
        let complete = || cx.store().complete(&old, &response, LONG);
        let late = race::ask(cx.asked_again(), complete).await;
        let outcome = again(cx, || cx.store().claim(&request)).await?;
        match (late, outcome) {
            (Ok(()), ClaimOutcome::Completed(_)) => {}
            (Err(error), ClaimOutcome::Acquired(new)) if error.is_claim_lost() => {
                ensure!(new.token() > old.token(), "the token has to grow");
                ensure_eq!(new.attempts(), 2, "attempts");
            }
            (late, outcome) => {
                let text = format!("old holder: {late:?}, new one: {}", outcome.name());
                return Err(CaseError::new(text));
            }
        }
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the takeover never finished by itself"))
}

async fn a_dropped_look_changes_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("looked at"))).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for polls in plan() {
        let finished = polled(cx.store().get(claim.key()), polls)
            .await
            .transpose()?;
        let after = expect::unobserved(cx.store().get(claim.key()).await?);
        ensure_eq!(after, before, "the record after {polls} polls");
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("get never finished by itself"))
}

async fn a_dropped_purge_deletes_nothing_live(cx: &Context) -> CaseResult {
    let live = cx.claim(&cx.request(&cx.key("live"))).await?;
    for polls in plan() {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("{polls} polls"))))
            .await?;
        cx.store()
            .complete(&claim, &Response::new(200, secret("x")), cx.short())
            .await?;
        cx.until_free(claim.key()).await?;
        let finished = polled(cx.store().delete_expired(100), polls)
            .await
            .transpose()?;
        race::ask(cx.asked_again(), || cx.store().delete_expired(100)).await?;
        expect::in_flight(cx.store().claim(&cx.request(live.key())).await?)?;
        let request = cx.request(claim.key());
        let claimed = again(cx, || cx.store().claim(&request)).await?;
        let _held = expect::acquired(claimed)?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the purge never finished by itself"))
}

async fn a_dropped_sweep_leaves_the_rest_to_the_next(cx: &Context) -> CaseResult {
    for polls in plan() {
        let key = cx.key(format!("{polls} polls"));
        cx.leave_stale(&cx.request(&key).with_on_stale(StalePolicy::Fail))
            .await?;
        let finished = polled(cx.store().fail_abandoned(100), polls)
            .await
            .transpose()?;
        // A dropped call may still be at work, and hold its records.
        let again = || race::ask(cx.asked_again(), || cx.store().fail_abandoned(100));
        let ask = || async {
            again().await?;
            let record = expect::record(cx.store().get(&key).await?)?;
            Ok(matches!(record, Record::Failed(_)).then_some(()))
        };
        eventually(cx.profile().max_wait(), "the record is failed", ask).await?;
        ensure_eq!(again().await?, 0, "failed again");
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the sweep never finished by itself"))
}

async fn a_handle_works_after_a_hundred_drops(cx: &Context) -> CaseResult {
    let (store, mut rng) = (cx.open().await?, cx.rng());
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let response = Response::new(200, secret("x"));
    for drops in 0..100 {
        let polls = rng.random_range(0..6);
        let request = cx.request(&cx.key(format!("dropped {drops}")));
        match drops % 5 {
            0 => drop(polled(store.claim(&request), polls).await),
            1 => drop(polled(store.renew(&claim, LONG), polls).await),
            2 => drop(polled(store.get(claim.key()), polls).await),
            3 => drop(polled(store.fail_abandoned(10), polls).await),
            _ => drop(polled(store.delete_expired(10), polls).await),
        }
    }
    let request = cx.request(&cx.key("after all"));
    let after = expect::acquired(store.claim(&request).await?)?;
    store.complete(&after, &response, LONG).await?;
    again(cx, || store.complete(&claim, &response, LONG)).await?;
    expect::completed(store.claim(&cx.request(claim.key())).await?)?;
    Ok(())
}
