//! Checkpoints: repeated, raced, dropped, and left by killed processes. Laws 1, 6, 12, 13 and 15.

use std::sync::Arc;

use idem_core::{Checkpoint, Effect, IdempotencyStore, Response};

use super::checkpoint::{last_is, point};
use crate::cancel::{plan, polled};
use crate::case::cases;
use crate::context::LONG;
use crate::eventually::eventually;
use crate::expect::points;
use crate::failure::{ensure, ensure_eq};
use crate::faults::LosesAnswers;
use crate::race::again;
use crate::secrets::secret;
use crate::worker::{Report, Step, Worker};
use crate::{CaseError, CaseResult, Context, expect, race};

cases! { LAW01, law 1:
    racing_checkpoints_leave_one_of_them_whole [Checkpoints],
    a_checkpoint_that_races_a_takeover_is_received_or_refused [Checkpoints]: expensive,
    a_checkpoint_that_races_the_completion_is_not_in_its_way [Checkpoints],
}

cases! { LAW06, law 6:
    the_last_of_several_checkpoints_counts [Checkpoints],
    the_same_checkpoint_succeeds_twice [Checkpoints],
    the_same_attempt_finds_its_checkpoint [Checkpoints],
    a_renewal_leaves_the_checkpoint [Checkpoints],
    a_checkpoint_whose_answer_was_lost_is_recovered [Checkpoints],
}

cases! { LAW12, law 12:
    what_a_killed_process_left_is_received_by_its_successor [Checkpoints, SharedBetweenProcesses],
    a_checkpoint_is_there_after_reopening [Checkpoints, Durable],
}

cases! { LAW13, law 13:
    a_dropped_checkpoint_leaves_it_or_the_one_before [Checkpoints],
    a_dropped_look_at_a_checkpoint_changes_nothing [Checkpoints],
}

cases! { LAW15, law 15:
    two_hundred_looks_at_a_checkpoint_change_nothing [Checkpoints]: expensive,
}

async fn racing_checkpoints_leave_one_of_them_whole(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let data = |at: usize| vec![u8::try_from(at % 256).unwrap_or_default(); 1 + at * 97];
    let items: Vec<_> = (0..64)
        .map(|at| Ok((claim.clone(), Checkpoint::new(at.to_string(), data(at))?)))
        .collect::<CaseResult<_>>()?;
    race::at_once(cx, items, |store, asked, (claim, point)| async move {
        let points = points(&store)?;
        Ok(race::ask(&asked, || points.checkpoint(&claim, &point)).await?)
    })
    .await?;
    let last = points(cx.store())?.last_checkpoint(&claim).await?;
    let last = last.ok_or_else(|| CaseError::new("no checkpoint"))?;
    let at: usize = last.name().parse()?;
    ensure_eq!(last.data(), &data(at), "data of checkpoint {at}");
    Ok(())
}

async fn a_checkpoint_that_races_a_takeover_is_received_or_refused(cx: &Context) -> CaseResult {
    for round in 0..12 {
        let key = cx.key(format!("round {round}"));
        let old = cx.stale_claim(&cx.request(&key)).await?;
        points(cx.store())?
            .checkpoint(&old, &point("before"))
            .await?;
        let request = cx.request(&key);
        let sides = vec![None, Some(request.clone())];
        let returned = race::at_once(cx, sides, |store, asked, side| {
            let old = old.clone();
            async move {
                let points = points(&store)?;
                if let Some(request) = side {
                    // The worker continues from the checkpoint that it finds first.
                    let outcome = race::ask(&asked, || store.claim(&request)).await?;
                    let new = expect::acquired(outcome)?;
                    return Ok(points.last_checkpoint(&new).await?);
                }
                let late = point("late");
                match race::ask(&asked, || points.checkpoint(&old, &late)).await {
                    Ok(()) => Ok(Some(late)),
                    Err(error) => expect::lost(Err::<(), _>(error)).map(|_| Some(point("before"))),
                }
            }
        })
        .await?;
        ensure_eq!(
            returned[1],
            returned[0],
            "what the takeover found, and should have"
        );
        let new = cx.claim(&request).await?;
        last_is(cx, &new, returned[1].as_ref()).await?;
    }
    Ok(())
}

async fn a_checkpoint_that_races_the_completion_is_not_in_its_way(cx: &Context) -> CaseResult {
    for round in 0..6 {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("round {round}"))))
            .await?;
        let sides = (0..8).map(|at| (at, claim.clone())).collect();
        race::at_once(cx, sides, |store, asked, (at, claim)| async move {
            if at == 3 {
                let response = Response::new(200, secret("done"));
                race::ask(&asked, || store.complete(&claim, &response, LONG)).await?;
                return Ok(());
            }
            let (points, point) = (points(&store)?, point(&at.to_string()));
            match race::ask(&asked, || points.checkpoint(&claim, &point)).await {
                Ok(()) => Ok(()),
                Err(error) => expect::lost(Err::<(), _>(error)).map(drop),
            }
        })
        .await?;
        let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
        ensure_eq!(
            replay.response,
            Response::new(200, secret("done")),
            "the response"
        );
    }
    Ok(())
}

async fn the_last_of_several_checkpoints_counts(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let other = cx.open().await?;
    for (at, name) in ["one", "two", "one", "a longer name", "x"]
        .iter()
        .enumerate()
    {
        let store = if at % 2 == 0 { cx.store() } else { &other };
        points(store)?.checkpoint(&claim, &point(name)).await?;
        for store in [cx.store(), &other] {
            let last = points(store)?.last_checkpoint(&claim).await?;
            ensure_eq!(last, Some(point(name)), "the last checkpoint");
        }
    }
    Ok(())
}

async fn the_same_checkpoint_succeeds_twice(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    for _ in 0..3 {
        points(cx.store())?
            .checkpoint(&claim, &point("one"))
            .await?;
        points(&cx.open().await?)?
            .checkpoint(&claim, &point("one"))
            .await?;
    }
    last_is(cx, &claim, Some(&point("one"))).await
}

async fn the_same_attempt_finds_its_checkpoint(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("held"));
    let claim = cx.claim(&request).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("one"))
        .await?;
    let again = cx.claim(&request).await?;
    last_is(cx, &again, Some(&point("one"))).await?;
    // After its lease, too.
    let late = cx.request(&cx.key("late")).with_lease(cx.short());
    let claim = cx.claim(&late).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("two"))
        .await?;
    cx.until_stale(claim.key()).await?;
    let again = cx.claim(&late).await?;
    ensure_eq!(again.attempts(), 1, "attempts");
    last_is(cx, &again, Some(&point("two"))).await
}

async fn a_renewal_leaves_the_checkpoint(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("one"))
        .await?;
    let renewed = cx.store().renew(&claim, LONG * 2).await?;
    last_is(cx, &renewed, Some(&point("one"))).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("two"))
        .await?;
    let record = cx.store().get(claim.key()).await?;
    let Some(idem_core::Record::InFlight(record)) = record else {
        return Err(CaseError::new("not in flight"));
    };
    ensure_eq!(
        record.lease_ends_at,
        renewed.lease_ends_at(),
        "end of the lease"
    );
    Ok(())
}

async fn a_checkpoint_whose_answer_was_lost_is_recovered(cx: &Context) -> CaseResult {
    let store = LosesAnswers::new(Arc::clone(cx.store()));
    let claim = cx.claim(&cx.request(&cx.key("lost"))).await?;
    store.lose_next(1);
    let error = points(&store)?
        .checkpoint(&claim, &point("one"))
        .await
        .err();
    let error = error.ok_or_else(|| CaseError::new("the answer arrived"))?;
    ensure_eq!(error.effect(), Effect::Unknown, "effect of {error}");
    points(&store)?.checkpoint(&claim, &point("one")).await?;
    last_is(cx, &claim, Some(&point("one"))).await?;
    store
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

async fn what_a_killed_process_left_is_received_by_its_successor(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("left")).with_lease(cx.short());
    let left = point("left by the dead");
    let steps = vec![
        Step::Claim(request.clone()),
        Step::Checkpoint {
            name: left.name().to_owned(),
            data: left.data().to_vec(),
        },
        Step::Hang,
    ];
    let mut worker = Worker::start(cx, steps).await?;
    let Report::Claimed(outcome) = worker.report().await? else {
        return Err(CaseError::new("no outcome"));
    };
    expect::acquired(outcome).map(drop)?;
    let report = worker.report().await?;
    ensure!(matches!(report, Report::Done), "not stored, but {report:?}");
    worker.kill().await?;
    let rival = cx.request(request.key());
    let ask = || async { Ok(cx.store().claim(&rival).await?.acquired()) };
    let new = eventually(cx.profile().max_wait(), "the key is free", ask).await?;
    ensure_eq!(new.attempts(), 2, "attempts");
    last_is(cx, &new, Some(&left)).await
}

async fn a_checkpoint_is_there_after_reopening(cx: &Context) -> CaseResult {
    let claim = {
        let store = cx.open().await?;
        let claim = expect::acquired(store.claim(&cx.request(&cx.key("held"))).await?)?;
        points(&store)?.checkpoint(&claim, &point("one")).await?;
        claim
    };
    let reopened = cx.open().await?;
    let last = points(&reopened)?.last_checkpoint(&claim).await?;
    ensure_eq!(last, Some(point("one")), "the last checkpoint");
    Ok(())
}

async fn a_dropped_checkpoint_leaves_it_or_the_one_before(cx: &Context) -> CaseResult {
    let before = Checkpoint::new("before", vec![1; 5000])?;
    let after = Checkpoint::new("after", vec![2; 9000])?;
    for polls in plan() {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("{polls} polls"))))
            .await?;
        points(cx.store())?.checkpoint(&claim, &before).await?;
        let dropped = points(cx.store())?.checkpoint(&claim, &after);
        let finished = polled(dropped, polls).await.transpose()?;
        let last = points(cx.store())?.last_checkpoint(&claim).await?;
        let (old, new) = (
            last.as_ref() == Some(&before),
            last.as_ref() == Some(&after),
        );
        ensure!(old || new, "neither, but {last:?} after {polls} polls");
        ensure!(new || finished.is_none(), "what was acknowledged is gone");
        let points = points(cx.store())?;
        again(cx, || points.checkpoint(&claim, &after)).await?;
        last_is(cx, &claim, Some(&after)).await?;
        cx.store()
            .complete(&claim, &Response::new(200, secret("x")), LONG)
            .await?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the checkpoint never finished by itself"))
}

async fn a_dropped_look_at_a_checkpoint_changes_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("one"))
        .await?;
    for polls in plan() {
        let look = points(cx.store())?.last_checkpoint(&claim);
        let finished = polled(look, polls).await.transpose()?;
        last_is(cx, &claim, Some(&point("one"))).await?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the look never finished by itself"))
}

async fn two_hundred_looks_at_a_checkpoint_change_nothing(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("one"))
        .await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for _ in 0..200 {
        last_is(cx, &claim, Some(&point("one"))).await?;
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}
