//! Forced steps. Laws 1, 5, 6, 7 and 13.

use idem_core::admin::{
    AUDIT_OPERATION, AuditOutcome, Forced, ForcedAction, ForcedStep, RecordFilter, SummaryState,
};
use idem_core::{
    Checkpoint, Claim, ErrorKind, FailedPolicy, Failure, FencingToken, IdempotencyStore,
    IdempotencyStoreExt as _, Key, Response, Result,
};

use super::admin::listed;
use crate::cancel::{plan, polled};
use crate::case::cases;
use crate::context::LONG;
use crate::expect::{admin, points};
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseError, CaseResult, Context, expect, race};

cases! { LAW01, law 1:
    of_racing_forced_steps_one_is_taken [Admin],
    a_forced_release_that_races_the_completion_leaves_one_truth [Admin],
}

cases! { LAW05, law 5:
    a_forced_release_fences_the_old_holder [Admin],
    a_forced_failure_fences_the_old_holder [Admin],
    a_forced_step_with_another_token_changes_nothing [Admin],
    a_forced_step_on_the_wrong_state_changes_nothing [Admin],
    the_token_grows_with_every_forced_step [Admin],
    a_key_freed_by_force_begins_without_a_checkpoint [Admin, Checkpoints],
}

cases! { LAW06, law 6:
    every_forced_step_leaves_an_audit_entry [Admin],
    a_refused_step_leaves_no_entry [Admin],
    audit_entries_cannot_be_changed [Admin],
}

cases! { LAW07, law 7:
    a_forced_release_frees_the_key_at_once [Admin],
    a_stale_key_that_must_not_run_again_is_freed_by_force [Admin],
    a_forced_failure_is_replayed [Admin],
    a_deleted_record_is_gone_for_everybody [Admin],
    a_forced_failure_outside_the_limits_is_refused [Admin],
}

cases! { LAW13, law 13:
    a_dropped_forced_step_is_taken_or_not [Admin],
}

fn step(key: &Key, token: FencingToken, action: ForcedAction) -> CaseResult<ForcedStep> {
    Ok(ForcedStep::new(
        key.clone(),
        token,
        action,
        "ada",
        "the worker is gone",
    )?)
}

/// Forces a step, and again after a lost race.
async fn force(cx: &Context, claim: &Claim, action: ForcedAction) -> CaseResult<Forced> {
    let step = step(claim.key(), claim.token(), action)?;
    let admin = admin(cx.store())?;
    race::again(cx, || admin.force(&step)).await
}

async fn done(cx: &Context, claim: &Claim, action: ForcedAction) -> CaseResult {
    match force(cx, claim, action).await? {
        Forced::Done { before } => {
            ensure_eq!(before.token, claim.token(), "the token before");
            ensure!(before.key == *claim.key(), "the key before");
            Ok(())
        }
        Forced::Refused { .. } => Err(CaseError::new("the step was refused")),
    }
}

fn fail(message: &str) -> ForcedAction {
    ForcedAction::Fail {
        failure: Failure::new("ops.gave_up", secret(message)),
        retention: LONG,
    }
}

async fn completed(cx: &Context, id: &str) -> CaseResult<Claim> {
    let claim = cx.claim(&cx.request(&cx.key(id))).await?;
    let response = Response::new(200, secret("done"));
    cx.store().complete(&claim, &response, LONG).await?;
    Ok(claim)
}

async fn a_forced_release_frees_the_key_at_once(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("stuck"))).await?;
    done(cx, &claim, ForcedAction::Release).await?;
    ensure_eq!(cx.store().get(claim.key()).await?, None, "record");
    let next = cx
        .open()
        .await?
        .claim(&cx.other_request(claim.key()))
        .await?;
    let next = expect::acquired(next)?;
    ensure_eq!(next.attempts(), 1, "attempts");
    Ok(())
}

async fn a_stale_key_that_must_not_run_again_is_freed_by_force(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("stuck"));
    let request = request.with_on_stale(idem_core::StalePolicy::Fail);
    let claim = cx.stale_claim(&request).await?;
    done(cx, &claim, ForcedAction::Release).await?;
    cx.hold(&cx.request(claim.key())).await
}

async fn a_forced_failure_is_replayed(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("stuck"))).await?;
    done(cx, &claim, fail("refunded by hand")).await?;
    let outcome = cx.open().await?.claim(&cx.request(claim.key())).await?;
    let failed = expect::failed(outcome)?;
    ensure_eq!(failed.failure.code(), "ops.gave_up", "code");
    ensure!(
        failed.failure.message() == secret("refunded by hand"),
        "message"
    );
    Ok(())
}

async fn a_deleted_record_is_gone_for_everybody(cx: &Context) -> CaseResult {
    let other = cx.open().await?;
    for fails in [false, true] {
        let claim = cx.claim(&cx.request(&cx.key(format!("{fails}")))).await?;
        if fails {
            let failure = Failure::new("code", secret("message"));
            cx.store().fail(&claim, &failure, LONG).await?;
        } else {
            let response = Response::new(200, secret("done"));
            cx.store().complete(&claim, &response, LONG).await?;
        }
        // A replay that a cache may keep.
        ensure!(cx.store().get(claim.key()).await?.is_some(), "a record");
        cx.store().claim(&cx.request(claim.key())).await.map(drop)?;
        done(cx, &claim, ForcedAction::Delete).await?;
        ensure_eq!(cx.store().get(claim.key()).await?, None, "record");
        ensure_eq!(other.get(claim.key()).await?, None, "record elsewhere");
        let next = cx.claim(&cx.other_request(claim.key())).await?;
        ensure_eq!(next.attempts(), 1, "attempts");
        ensure!(next.token() > claim.token(), "token");
    }
    Ok(())
}

async fn a_forced_failure_outside_the_limits_is_refused(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("stuck"))).await?;
    let failure = Failure::new("code", secret("message"));
    let wrong = ForcedAction::Fail {
        failure,
        retention: std::time::Duration::ZERO,
    };
    let step = step(claim.key(), claim.token(), wrong)?;
    let forced = admin(cx.store())?.force(&step).await;
    expect::refused(forced, ErrorKind::InvalidInput)?;
    let history = cx.store().history(claim.key()).await?;
    ensure_eq!(history.len(), 0, "entries");
    cx.store().release(&claim).await?;
    Ok(())
}

async fn a_forced_release_fences_the_old_holder(cx: &Context) -> CaseResult {
    let response = Response::new(200, secret("late"));
    for next in [false, true] {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("stuck {next}"))))
            .await?;
        done(cx, &claim, ForcedAction::Release).await?;
        if next {
            cx.hold(&cx.request(claim.key())).await?;
        }
        let store = cx.open().await?;
        expect::lost(store.complete(&claim, &response, LONG).await)?;
        expect::lost(store.fail(&claim, &Failure::new("c", "m"), LONG).await)?;
        expect::lost(store.renew(&claim, LONG).await)?;
        let record = store.get(claim.key()).await?;
        ensure_eq!(record.is_some(), next, "record of the next holder");
    }
    Ok(())
}

async fn a_forced_failure_fences_the_old_holder(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("stuck"))).await?;
    done(cx, &claim, fail("by hand")).await?;
    let response = Response::new(200, secret("late"));
    expect::lost(cx.store().complete(&claim, &response, LONG).await)?;
    expect::lost(cx.store().renew(&claim, LONG).await)?;
    expect::lost(cx.store().release(&claim).await)?;
    expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
    Ok(())
}

async fn a_forced_step_with_another_token_changes_nothing(cx: &Context) -> CaseResult {
    let old = cx.stale_claim(&cx.request(&cx.key("stuck"))).await?;
    let held = cx.claim(&cx.request(old.key())).await?;
    for action in [ForcedAction::Release, fail("by hand"), ForcedAction::Delete] {
        for token in [old.token().as_i64(), held.token().as_i64() + 1] {
            let step = step(old.key(), FencingToken::from_i64(token), action.clone())?;
            let Forced::Refused { current } = admin(cx.store())?.force(&step).await? else {
                return Err(CaseError::new("a step with another token was taken"));
            };
            let current = current.ok_or_else(|| CaseError::new("no current record"))?;
            ensure_eq!(current.token, held.token(), "the current token");
            ensure_eq!(current.state, SummaryState::InFlight, "the current state");
        }
    }
    let response = Response::new(200, secret("done"));
    cx.store().complete(&held, &response, LONG).await?;
    ensure_eq!(cx.store().history(old.key()).await?.len(), 0, "entries");
    Ok(())
}

async fn a_forced_step_on_the_wrong_state_changes_nothing(cx: &Context) -> CaseResult {
    let sealed = completed(cx, "completed").await?;
    for action in [ForcedAction::Release, fail("by hand")] {
        let forced = force(cx, &sealed, action).await?;
        ensure!(
            matches!(forced, Forced::Refused { current: Some(_) }),
            "{forced:?}"
        );
    }
    let outcome = cx.store().claim(&cx.request(sealed.key())).await?;
    expect::completed(outcome)?;
    let held = cx.claim(&cx.request(&cx.key("held"))).await?;
    let forced = force(cx, &held, ForcedAction::Delete).await?;
    ensure!(
        matches!(forced, Forced::Refused { current: Some(_) }),
        "{forced:?}"
    );
    let free = cx.claim(&cx.request(&cx.key("free"))).await?;
    cx.store().release(&free).await?;
    let forced = force(cx, &free, ForcedAction::Release).await?;
    ensure_eq!(forced, Forced::Refused { current: None }, "a free key");
    Ok(())
}

async fn the_token_grows_with_every_forced_step(cx: &Context) -> CaseResult {
    let key = cx.key("stuck");
    let mut last = FencingToken::from_i64(0);
    for round in 0..4 {
        let claim = cx.claim(&cx.request(&key)).await?;
        ensure!(claim.token() > last, "round {round}");
        last = claim.token();
        if round % 2 == 0 {
            done(cx, &claim, ForcedAction::Release).await?;
        } else {
            done(cx, &claim, fail("by hand")).await?;
            done(cx, &claim, ForcedAction::Delete).await?;
        }
    }
    Ok(())
}

async fn a_key_freed_by_force_begins_without_a_checkpoint(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("stuck"))).await?;
    let point = Checkpoint::new("reserved", secret("seat"))?;
    points(cx.store())?.checkpoint(&claim, &point).await?;
    done(cx, &claim, ForcedAction::Release).await?;
    let next = cx.claim(&cx.request(claim.key())).await?;
    let last = points(cx.store())?.last_checkpoint(&next).await?;
    ensure_eq!(last, None, "checkpoint");
    expect::lost(points(cx.store())?.checkpoint(&claim, &point).await)?;
    Ok(())
}

async fn every_forced_step_leaves_an_audit_entry(cx: &Context) -> CaseResult {
    let key = cx.key("stuck");
    let first = cx.claim(&cx.request(&key)).await?;
    done(cx, &first, ForcedAction::Release).await?;
    let second = cx.claim(&cx.request(&key)).await?;
    done(cx, &second, fail("by hand")).await?;
    done(cx, &second, ForcedAction::Delete).await?;
    let entries = cx.open().await?.history(&key).await?;
    let told: Vec<_> = entries
        .iter()
        .map(|entry| (entry.action.as_str(), entry.token))
        .collect();
    let wanted = [
        ("release", first.token()),
        ("fail", second.token()),
        ("delete", second.token()),
    ];
    ensure_eq!(told, wanted, "entries");
    for entry in &entries {
        ensure_eq!(entry.who, "ada", "who");
        ensure_eq!(entry.reason, "the worker is gone", "why");
        ensure_eq!(entry.outcome, AuditOutcome::Done, "outcome");
        let before = entry.before.as_ref();
        ensure!(
            before.is_some_and(|before| before.key == key),
            "what was there"
        );
    }
    let states: Vec<_> = entries
        .iter()
        .filter_map(|entry| entry.before.as_ref().map(|before| before.state))
        .collect();
    let wanted = [
        SummaryState::InFlight,
        SummaryState::InFlight,
        SummaryState::Failed,
    ];
    ensure_eq!(states, wanted, "states before");
    ensure!(entries.is_sorted_by_key(|entry| entry.at), "the order");
    let audit = RecordFilter::new().with_operation(AUDIT_OPERATION);
    ensure_eq!(listed(cx, &audit, 100).await?.len(), 3, "listed entries");
    let all = listed(cx, &RecordFilter::new(), 100).await?;
    ensure_eq!(all.len(), 0, "records that a list without a filter shows");
    Ok(())
}

async fn a_refused_step_leaves_no_entry(cx: &Context) -> CaseResult {
    let sealed = completed(cx, "completed").await?;
    let forced = force(cx, &sealed, ForcedAction::Release).await?;
    ensure!(matches!(forced, Forced::Refused { .. }), "{forced:?}");
    ensure_eq!(cx.store().history(sealed.key()).await?.len(), 0, "entries");
    Ok(())
}

async fn audit_entries_cannot_be_changed(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("stuck"))).await?;
    done(cx, &claim, ForcedAction::Release).await?;
    let audit = RecordFilter::new().with_operation(AUDIT_OPERATION);
    for entry in listed(cx, &audit, 100).await? {
        ensure_eq!(entry.state, SummaryState::Completed, "state of an entry");
        let step = step(&entry.key, entry.token, ForcedAction::Delete);
        ensure!(step.is_err(), "a step on an audit entry");
    }
    Ok(())
}

async fn of_racing_forced_steps_one_is_taken(cx: &Context) -> CaseResult {
    for round in 0..4 {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("stuck {round}"))))
            .await?;
        let steps = (0..6).map(|_| step(claim.key(), claim.token(), ForcedAction::Release));
        let steps: Vec<_> = steps.collect::<CaseResult<_>>()?;
        let answers = race::at_once(cx, steps, |store, asked_again, step| async move {
            let admin = store.admin().ok_or_else(|| CaseError::new("no admin"))?;
            let forced = race::ask(&asked_again, || admin.force(&step)).await?;
            Ok(matches!(forced, Forced::Done { .. }))
        });
        let taken = answers.await?.into_iter().filter(|taken| *taken).count();
        ensure_eq!(taken, 1, "steps that were taken in round {round}");
        let entries = cx.store().history(claim.key()).await?;
        ensure_eq!(entries.len(), 1, "entries in round {round}");
        // No gap: a later step is found as well.
        let again = cx.request(claim.key()).with_on_failed(FailedPolicy::Retry);
        let next = cx.claim(&again).await?;
        done(cx, &next, ForcedAction::Release).await?;
        let entries = cx.store().history(claim.key()).await?;
        ensure_eq!(
            entries.len(),
            2,
            "entries after another step in round {round}"
        );
    }
    Ok(())
}

async fn a_forced_release_that_races_the_completion_leaves_one_truth(cx: &Context) -> CaseResult {
    for round in 0..12 {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("stuck {round}"))))
            .await?;
        let step = step(claim.key(), claim.token(), ForcedAction::Release)?;
        let items = vec![None, Some(step)];
        let holder = claim.clone();
        let answers = race::at_once(cx, items, move |store, asked_again, step| {
            let claim = holder.clone();
            async move { Ok(one_of_two(&*store, &asked_again, step, &claim).await) }
        });
        let [completed, released] = &answers.await?[..] else {
            return Err(CaseError::new("two answers are wanted"));
        };
        let is_completed = match completed {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::ClaimLost => false,
            Err(error) => return Err(CaseError::new(format!("{error}"))),
        };
        let is_released = match released {
            Ok(is_released) => *is_released,
            Err(error) => return Err(CaseError::new(format!("{error}"))),
        };
        ensure!(is_completed != is_released, "both or none in round {round}");
        let record = cx.store().get(claim.key()).await?;
        ensure_eq!(record.is_some(), is_completed, "record in round {round}");
    }
    Ok(())
}

async fn one_of_two(
    store: &dyn IdempotencyStore,
    asked_again: &std::sync::atomic::AtomicU64,
    step: Option<ForcedStep>,
    claim: &Claim,
) -> Result<bool> {
    let response = Response::new(200, secret("done"));
    match (step, store.admin()) {
        (Some(step), Some(admin)) => {
            let forced = race::ask(asked_again, || admin.force(&step)).await?;
            Ok(matches!(forced, Forced::Done { .. }))
        }
        _ => {
            let complete = || store.complete(claim, &response, LONG);
            race::ask(asked_again, complete).await.map(|()| true)
        }
    }
}

async fn a_dropped_forced_step_is_taken_or_not(cx: &Context) -> CaseResult {
    for polls in plan() {
        let claim = cx
            .claim(&cx.request(&cx.key(format!("{polls} polls"))))
            .await?;
        let step = step(claim.key(), claim.token(), ForcedAction::Release)?;
        let admin = admin(cx.store())?;
        let finished = polled(admin.force(&step), polls).await.transpose()?;
        // What the dropped call has begun may still be on its way.
        let forced = race::again(cx, || admin.force(&step)).await?;
        let is_done = matches!(forced, Forced::Done { .. });
        ensure!(
            is_done || forced == Forced::Refused { current: None },
            "after {polls} polls: {forced:?}"
        );
        ensure_eq!(cx.store().get(claim.key()).await?, None, "record");
        let entries = cx.store().history(claim.key()).await?;
        let done = entries
            .iter()
            .filter(|entry| entry.outcome == AuditOutcome::Done);
        ensure!(done.count() <= 1, "the step is told twice");
        ensure!(!entries.is_empty(), "no entry after {polls} polls");
        expect::lost(
            cx.store()
                .complete(&claim, &Response::new(200, secret("x")), LONG)
                .await,
        )?;
        if finished.is_some() {
            return Ok(());
        }
    }
    Err(CaseError::new("the step never finished by itself"))
}
