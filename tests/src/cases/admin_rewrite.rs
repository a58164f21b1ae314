//! Other stored forms of sealed records. Laws 1, 3, 5, 6, 8, 11 and 13.

use idem_core::admin::{Forced, ForcedAction, ForcedStep, RecordSummary, Rewrite};
use idem_core::backend::StoredResult;
use idem_core::{
    Claim, ErrorKind, FailedPolicy, Failure, FencingToken, Key, Metadata, Record, Response,
};

use crate::cancel::{plan, polled};
use crate::case::cases;
use crate::context::LONG;
use crate::expect::admin;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseError, CaseResult, Context, expect, race};

cases! { LAW01, law 1:
    of_racing_rewrites_one_is_there_as_a_whole [Admin],
    a_rewrite_that_races_a_deletion_brings_nothing_back [Admin],
}

cases! { LAW03, law 3:
    a_rewritten_record_is_replayed_in_its_new_form [Admin],
}

cases! { LAW05, law 5:
    a_rewrite_of_another_acquisition_changes_nothing [Admin],
    a_rewrite_of_a_record_that_is_not_sealed_so_changes_nothing [Admin],
}

cases! { LAW06, law 6:
    a_repeated_end_is_compared_with_the_new_form [Admin],
}

cases! { LAW08, law 8:
    a_rewrite_changes_neither_state_nor_instants [Admin],
    a_rewrite_does_not_bring_an_expired_record_back [Admin],
}

cases! { LAW11, law 11:
    a_rewrite_outside_the_limits_is_refused [Admin],
}

cases! { LAW13, law 13:
    a_dropped_rewrite_leaves_the_old_form_or_the_new_one [Admin],
}

fn old() -> Response {
    Response::new(200, secret("old")).with_header("x-old", "old")
}

fn new(version: u32) -> Response {
    Response::new(201, secret(format!("new {version}"))).with_header("x-new", "new")
}

fn metadata(version: u32) -> Metadata {
    Metadata::new().with("form", secret(version))
}

fn forms(key: &Key, token: FencingToken, version: u32) -> CaseResult<Rewrite> {
    let result = StoredResult::Response(new(version));
    Ok(Rewrite::new(key.clone(), token, result, metadata(version))?)
}

/// Rewrites, and again after a lost race.
async fn rewritten(cx: &Context, rewrite: &Rewrite) -> CaseResult<bool> {
    let admin = admin(cx.store())?;
    race::again(cx, || admin.rewrite(rewrite)).await
}

async fn completed(cx: &Context, id: &str) -> CaseResult<Claim> {
    let claim = cx.claim(&cx.request(&cx.key(id))).await?;
    cx.store().complete(&claim, &old(), LONG).await?;
    Ok(claim)
}

async fn record(cx: &Context, key: &Key) -> CaseResult<Record> {
    expect::record(cx.open().await?.get(key).await?)
}

async fn a_rewritten_record_is_replayed_in_its_new_form(cx: &Context) -> CaseResult {
    let claim = completed(cx, "done").await?;
    let rewrite = forms(claim.key(), claim.token(), 1)?;
    ensure!(
        rewritten(cx, &rewrite).await?,
        "the record was not rewritten"
    );
    let replay = cx.open().await?.claim(&cx.request(claim.key())).await?;
    let replay = expect::completed(replay)?;
    ensure!(replay.response == new(1), "the response");
    ensure!(replay.info.metadata == metadata(1), "the metadata");
    ensure!(
        record(cx, claim.key()).await?.response() == Some(&new(1)),
        "the response that is read"
    );

    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    let failure = Failure::new("declined", secret("old"));
    cx.store().fail(&claim, &failure, LONG).await?;
    let failure = Failure::new("declined", secret("new")).with_details(secret("more"));
    let result = StoredResult::Failure(failure.clone());
    let none = Metadata::new();
    let rewrite = Rewrite::new(claim.key().clone(), claim.token(), result, none.clone())?;
    ensure!(
        rewritten(cx, &rewrite).await?,
        "the failure was not rewritten"
    );
    let replay = cx.open().await?.claim(&cx.request(claim.key())).await?;
    let replay = expect::failed(replay)?;
    ensure!(replay.failure == failure, "the failure");
    ensure!(replay.info.metadata == none, "the metadata of the failure");
    Ok(())
}

async fn a_rewrite_of_another_acquisition_changes_nothing(cx: &Context) -> CaseResult {
    let claim = completed(cx, "done").await?;
    for token in [claim.token().as_i64() - 1, claim.token().as_i64() + 1] {
        let rewrite = forms(claim.key(), FencingToken::from_i64(token), 1)?;
        ensure!(
            !rewritten(cx, &rewrite).await?,
            "rewritten under another token"
        );
    }
    ensure!(
        record(cx, claim.key()).await?.response() == Some(&old()),
        "the response"
    );

    // A retry of the failure that was read.
    let request = cx.request(&cx.key("failed"));
    let first = cx.claim(&request).await?;
    let failure = Failure::new("declined", secret("old"));
    cx.store().fail(&first, &failure, LONG).await?;
    let retry = cx
        .request(request.key())
        .with_on_failed(FailedPolicy::Retry);
    let second = cx.claim(&retry).await?;
    let result = StoredResult::Failure(Failure::new("declined", secret("new")));
    let late = |token| Rewrite::new(request.key().clone(), token, result.clone(), metadata(1));
    ensure!(
        !rewritten(cx, &late(first.token())?).await?,
        "rewritten while it is retried"
    );
    cx.store().fail(&second, &failure, LONG).await?;
    ensure!(
        !rewritten(cx, &late(first.token())?).await?,
        "rewritten after it was retried"
    );
    ensure!(
        rewritten(cx, &late(second.token())?).await?,
        "not rewritten"
    );
    Ok(())
}

async fn a_rewrite_of_a_record_that_is_not_sealed_so_changes_nothing(cx: &Context) -> CaseResult {
    let key = cx.key("nothing");
    let rewrite = forms(&key, FencingToken::from_i64(1), 1)?;
    ensure!(!rewritten(cx, &rewrite).await?, "a free key was rewritten");
    ensure!(
        cx.store().get(&key).await?.is_none(),
        "a free key has a record"
    );

    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let rewrite = forms(claim.key(), claim.token(), 1)?;
    ensure!(
        !rewritten(cx, &rewrite).await?,
        "a record in flight was rewritten"
    );
    cx.store().complete(&claim, &old(), LONG).await?;
    let result = StoredResult::Failure(Failure::new("declined", secret("new")));
    let as_failure = Rewrite::new(claim.key().clone(), claim.token(), result, metadata(1))?;
    ensure!(
        !rewritten(cx, &as_failure).await?,
        "a response was rewritten as a failure"
    );
    ensure!(
        record(cx, claim.key()).await?.response() == Some(&old()),
        "the response"
    );

    let claim = cx.claim(&cx.request(&cx.key("released"))).await?;
    cx.store().release(&claim).await?;
    let rewrite = forms(claim.key(), claim.token(), 1)?;
    ensure!(
        !rewritten(cx, &rewrite).await?,
        "a released key was rewritten"
    );
    ensure!(
        cx.store().get(claim.key()).await?.is_none(),
        "a released key has a record"
    );
    Ok(())
}

async fn a_repeated_end_is_compared_with_the_new_form(cx: &Context) -> CaseResult {
    let claim = completed(cx, "done").await?;
    let rewrite = forms(claim.key(), claim.token(), 1)?;
    ensure!(
        rewritten(cx, &rewrite).await?,
        "the record was not rewritten"
    );
    cx.store().complete(&claim, &new(1), LONG).await?;
    let again = cx.store().complete(&claim, &old(), LONG).await;
    expect::refused(again, ErrorKind::AlreadySealed)?;
    // Whether a repeated rewrite finds something to change is open; it changes nothing.
    rewritten(cx, &rewrite).await?;
    ensure!(
        record(cx, claim.key()).await?.response() == Some(&new(1)),
        "the response"
    );
    Ok(())
}

async fn summary(cx: &Context, key: &Key) -> CaseResult<RecordSummary> {
    let summary = admin(cx.store())?.summary(key).await?;
    let mut summary = summary.ok_or_else(|| CaseError::new("no summary"))?;
    // These are what changes.
    summary.metadata = Metadata::new();
    summary.result_bytes = 0;
    summary.observed_at = summary.created_at;
    Ok(summary)
}

async fn a_rewrite_changes_neither_state_nor_instants(cx: &Context) -> CaseResult {
    let claim = completed(cx, "done").await?;
    let before = summary(cx, claim.key()).await?;
    let rewrite = forms(claim.key(), claim.token(), 1)?;
    ensure!(
        rewritten(cx, &rewrite).await?,
        "the record was not rewritten"
    );
    ensure_eq!(summary(cx, claim.key()).await?, before, "the summary");
    // It is still found where its fingerprint is compared.
    let other = cx.store().claim(&cx.other_request(claim.key())).await?;
    expect::conflict(other)?;
    Ok(())
}

async fn a_rewrite_does_not_bring_an_expired_record_back(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("done"))).await?;
    cx.store().complete(&claim, &old(), cx.short()).await?;
    cx.until_free(claim.key()).await?;
    let rewrite = forms(claim.key(), claim.token(), 1)?;
    ensure!(
        !rewritten(cx, &rewrite).await?,
        "an expired record was rewritten"
    );
    ensure!(
        cx.store().get(claim.key()).await?.is_none(),
        "the key has a record"
    );
    cx.hold(&cx.other_request(claim.key())).await
}

async fn a_rewrite_outside_the_limits_is_refused(cx: &Context) -> CaseResult {
    let claim = completed(cx, "done").await?;
    let limits = cx.store().limits();
    let result = StoredResult::Response(Response::new(200, vec![0; limits.max_result_bytes]));
    let (key, token) = (claim.key().clone(), claim.token());
    let too_large = Rewrite::new(key.clone(), token, result, Metadata::new())?;
    let refused = admin(cx.store())?.rewrite(&too_large).await;
    expect::refused(refused, ErrorKind::InvalidInput)?;
    let long = Metadata::new().with("a", "x".repeat(limits.max_metadata_bytes));
    let too_large = Rewrite::new(key, token, StoredResult::Response(new(1)), long)?;
    let refused = admin(cx.store())?.rewrite(&too_large).await;
    expect::refused(refused, ErrorKind::InvalidInput)?;
    ensure!(
        record(cx, claim.key()).await?.response() == Some(&old()),
        "the response"
    );
    Ok(())
}

async fn of_racing_rewrites_one_is_there_as_a_whole(cx: &Context) -> CaseResult {
    for round in 0..4 {
        let claim = completed(cx, &format!("done {round}")).await?;
        let rewrites = (0..6).map(|version| forms(claim.key(), claim.token(), version));
        let rewrites: Vec<_> = rewrites.collect::<CaseResult<_>>()?;
        let answers = race::at_once(cx, rewrites, |store, asked_again, rewrite| async move {
            let admin = store.admin().ok_or_else(|| CaseError::new("no admin"))?;
            Ok(race::ask(&asked_again, || admin.rewrite(&rewrite)).await?)
        });
        let answers = answers.await?;
        ensure!(
            answers.into_iter().all(|done| done),
            "a rewrite found no record"
        );
        let record = record(cx, claim.key()).await?;
        let is_whole = |version| {
            record.response() == Some(&new(version)) && record.info().metadata == metadata(version)
        };
        ensure!((0..6).any(is_whole), "the record in round {round} is mixed");
    }
    Ok(())
}

async fn a_rewrite_that_races_a_deletion_brings_nothing_back(cx: &Context) -> CaseResult {
    for round in 0..6 {
        let claim = completed(cx, &format!("done {round}")).await?;
        let rewrite = forms(claim.key(), claim.token(), round)?;
        let step = ForcedStep::new(
            claim.key().clone(),
            claim.token(),
            ForcedAction::Delete,
            "ada",
            "wrong amount",
        )?;
        let calls = vec![(Some(rewrite), step.clone()), (None, step)];
        let answers = race::at_once(
            cx,
            calls,
            |store, asked_again, (rewrite, step)| async move {
                let admin = store.admin().ok_or_else(|| CaseError::new("no admin"))?;
                match rewrite {
                    Some(rewrite) => {
                        race::ask(&asked_again, || admin.rewrite(&rewrite)).await?;
                        Ok(true)
                    }
                    None => {
                        let forced = race::ask(&asked_again, || admin.force(&step)).await?;
                        Ok(matches!(forced, Forced::Done { .. }))
                    }
                }
            },
        );
        ensure!(
            answers.await?[1],
            "the deletion was refused in round {round}"
        );
        let left = cx.open().await?.get(claim.key()).await?;
        ensure!(
            left.is_none(),
            "the deleted record is back in round {round}"
        );
        cx.hold(&cx.other_request(claim.key())).await?;
    }
    Ok(())
}

async fn a_dropped_rewrite_leaves_the_old_form_or_the_new_one(cx: &Context) -> CaseResult {
    for polls in plan() {
        let claim = completed(cx, &format!("done {polls}")).await?;
        let rewrite = forms(claim.key(), claim.token(), 1)?;
        let handle = cx.open().await?;
        let returned = polled(admin(&handle)?.rewrite(&rewrite), polls).await;
        let record = record(cx, claim.key()).await?;
        let is_new = record.response() == Some(&new(1)) && record.info().metadata == metadata(1);
        let is_old = record.response() == Some(&old());
        ensure!(is_new || is_old, "the record is mixed after {polls} polls");
        if let Some(returned) = returned {
            ensure!(returned? && is_new, "the record was not rewritten");
            return Ok(());
        }
        // Whatever is still under way, the next rewrite succeeds.
        ensure!(
            rewritten(cx, &forms(claim.key(), claim.token(), 2)?).await?,
            "no record"
        );
    }
    Err(CaseError::new("a rewrite does not end"))
}
