//! Checkpoints: who receives them, and what they leave unchanged. Laws 2 to 5 and 10.

use idem_core::{AttemptId, Checkpoint, Claim, FencingToken, Key, Response};

use crate::case::cases;
use crate::context::LONG;
use crate::expect::points;
use crate::failure::ensure_eq;
use crate::secrets::secret;
use crate::{CaseResult, Context, expect};

cases! { LAW02, law 2:
    a_checkpoint_changes_nothing_that_others_see [Checkpoints],
}

cases! { LAW03, law 3:
    a_checkpoint_of_any_bytes_is_kept [Checkpoints],
    a_large_checkpoint_is_kept [Checkpoints]: expensive,
    a_response_after_a_checkpoint_is_replayed [Checkpoints],
    a_failure_after_a_checkpoint_is_replayed [Checkpoints],
}

cases! { LAW04, law 4:
    a_conflict_leaves_the_checkpoint [Checkpoints],
}

cases! { LAW05, law 5:
    a_claim_begins_without_a_checkpoint [Checkpoints],
    a_takeover_receives_the_last_checkpoint [Checkpoints],
    each_of_many_takeovers_receives_the_last_checkpoint [Checkpoints],
    a_stale_holder_may_store_a_checkpoint [Checkpoints],
    after_a_takeover_the_old_holder_can_store_no_checkpoint [Checkpoints],
    a_checkpoint_needs_both_token_and_attempt [Checkpoints],
    a_checkpoint_on_a_key_that_was_never_claimed_is_refused [Checkpoints],
}

cases! { LAW10, law 10:
    keys_do_not_share_checkpoints [Checkpoints],
}

/// Returns a checkpoint that is distinct from others.
pub(super) fn point(name: &str) -> Checkpoint {
    Checkpoint::new(name, secret(format!("the data of {name}"))).expect("names of cases are valid")
}

/// Checks that this is the last checkpoint of the claim.
pub(super) async fn last_is(
    cx: &Context,
    claim: &Claim,
    wanted: Option<&Checkpoint>,
) -> CaseResult {
    let last = points(cx.store())?.last_checkpoint(claim).await?;
    ensure_eq!(last.as_ref(), wanted, "the last checkpoint");
    Ok(())
}

async fn a_claim_begins_without_a_checkpoint(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("fresh"))).await?;
    last_is(cx, &claim, None).await
}

async fn a_checkpoint_changes_nothing_that_others_see(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    points(cx.store())?
        .checkpoint(&claim, &point("one"))
        .await?;
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record, its lease and its retention");
    let loser = expect::in_flight(cx.store().claim(&cx.request(claim.key())).await?)?;
    ensure_eq!(loser.info.token, claim.token(), "token told to a loser");
    expect::conflict(cx.store().claim(&cx.other_request(claim.key())).await?)?;
    last_is(cx, &claim, Some(&point("one"))).await
}

async fn a_checkpoint_of_any_bytes_is_kept(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let every: Vec<u8> = (0..=255).collect();
    let sealed = idem_core::backend::encode_response(&Response::new(200, secret("x")))?;
    let named = |name: &str| Checkpoint::new(name, "x");
    for point in [
        Checkpoint::new("empty", "")?,
        Checkpoint::new("every", every)?,
        Checkpoint::new("zeros", vec![0; 300])?,
        Checkpoint::new("looks like a result", sealed)?,
        Checkpoint::new(
            "looks like a checkpoint",
            point("x").encode(&cx.store().limits())?,
        )?,
        named(&"n".repeat(Checkpoint::MAX_NAME_BYTES))?,
        named("e\u{301} \u{1f469}\u{200d}\u{1f52c} '\"\\% ")?,
    ] {
        points(cx.store())?.checkpoint(&claim, &point).await?;
        last_is(cx, &claim, Some(&point)).await?;
    }
    Ok(())
}

async fn a_large_checkpoint_is_kept(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let data = |bytes: usize| (0..=250).cycle().take(bytes).collect::<Vec<u8>>();
    let most = cx.profile().max_result_bytes() - 2 - "large".len();
    for bytes in [65_535, 65_536, most].map(|bytes| bytes.min(most)) {
        let point = Checkpoint::new("large", data(bytes))?;
        points(cx.store())?.checkpoint(&claim, &point).await?;
        let last = points(cx.store())?.last_checkpoint(&claim).await?;
        ensure_eq!(last == Some(point), true, "{bytes} bytes are kept");
    }
    Ok(())
}

async fn a_response_after_a_checkpoint_is_replayed(cx: &Context) -> CaseResult {
    for (at, body) in [vec![], vec![0x10; 40], (0..=255).collect()]
        .into_iter()
        .enumerate()
    {
        let claim = cx.claim(&cx.request(&cx.key(at.to_string()))).await?;
        points(cx.store())?
            .checkpoint(&claim, &point("one"))
            .await?;
        let response = Response::new(207, body).with_header("x-one", "two");
        cx.store().complete(&claim, &response, LONG).await?;
        cx.store().complete(&claim, &response, LONG).await?;
        let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
        ensure_eq!(replay.response, response, "the response");
    }
    Ok(())
}

async fn a_failure_after_a_checkpoint_is_replayed(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("one"))
        .await?;
    let failure = idem_core::Failure::new("code", secret("message")).with_details(vec![0x10, 0]);
    cx.store().fail(&claim, &failure, LONG).await?;
    let replay = expect::failed(cx.store().claim(&cx.request(claim.key())).await?)?;
    ensure_eq!(replay.failure, failure, "the failure");
    Ok(())
}

async fn a_conflict_leaves_the_checkpoint(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("held"));
    let claim = cx.stale_claim(&request).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("one"))
        .await?;
    expect::conflict(cx.store().claim(&cx.other_request(claim.key())).await?)?;
    last_is(cx, &claim, Some(&point("one"))).await?;
    let next = cx.claim(&cx.request(claim.key())).await?;
    last_is(cx, &next, Some(&point("one"))).await
}

async fn a_takeover_receives_the_last_checkpoint(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("left")).with_lease(cx.short());
    let old = cx.claim(&request).await?;
    for name in ["one", "two", "three"] {
        points(cx.store())?.checkpoint(&old, &point(name)).await?;
    }
    cx.until_stale(old.key()).await?;
    let new = cx.claim(&cx.request(old.key())).await?;
    ensure_eq!(new.attempts(), 2, "attempts");
    last_is(cx, &new, Some(&point("three"))).await?;
    points(cx.store())?.checkpoint(&new, &point("four")).await?;
    last_is(cx, &new, Some(&point("four"))).await
}

async fn each_of_many_takeovers_receives_the_last_checkpoint(cx: &Context) -> CaseResult {
    let key = cx.key("left");
    let first = cx.stale_claim(&cx.request(&key)).await?;
    points(cx.store())?
        .checkpoint(&first, &point("holder 0"))
        .await?;
    for at in 1..6 {
        let holder = cx.stale_claim(&cx.request(&key)).await?;
        // Every other holder keeps the checkpoint that it found.
        let wanted = point(&format!("holder {}", (at - 1) / 2 * 2));
        last_is(cx, &holder, Some(&wanted)).await?;
        if at % 2 == 0 {
            let name = format!("holder {at}");
            points(cx.store())?
                .checkpoint(&holder, &point(&name))
                .await?;
        }
    }
    Ok(())
}

async fn a_stale_holder_may_store_a_checkpoint(cx: &Context) -> CaseResult {
    let old = cx.stale_claim(&cx.request(&cx.key("late"))).await?;
    last_is(cx, &old, None).await?;
    points(cx.store())?.checkpoint(&old, &point("late")).await?;
    last_is(cx, &old, Some(&point("late"))).await?;
    let record = cx.until_stale(old.key()).await?;
    ensure_eq!(
        record.lease_ends_at,
        old.lease_ends_at(),
        "end of the lease"
    );
    let new = cx.claim(&cx.request(old.key())).await?;
    last_is(cx, &new, Some(&point("late"))).await
}

async fn after_a_takeover_the_old_holder_can_store_no_checkpoint(cx: &Context) -> CaseResult {
    let old = cx.stale_claim(&cx.request(&cx.key("taken over"))).await?;
    points(cx.store())?.checkpoint(&old, &point("old")).await?;
    let new = cx.claim(&cx.request(old.key())).await?;
    let before = expect::unobserved(cx.store().get(old.key()).await?);
    expect::lost(points(cx.store())?.checkpoint(&old, &point("late")).await)?;
    expect::lost(points(cx.store())?.last_checkpoint(&old).await)?;
    last_is(cx, &new, Some(&point("old"))).await?;
    points(cx.store())?.checkpoint(&new, &point("new")).await?;
    expect::lost(points(cx.store())?.checkpoint(&old, &point("late")).await)?;
    last_is(cx, &new, Some(&point("new"))).await?;
    let after = expect::unobserved(cx.store().get(old.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

/// The same claim, except token or attempt.
fn forged(claim: &Claim, token: FencingToken, attempt: AttemptId) -> Claim {
    let ends_at = claim.lease_ends_at();
    Claim::new(claim.key().clone(), token, attempt, 1, ends_at, ends_at)
}

async fn a_checkpoint_needs_both_token_and_attempt(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    points(cx.store())?
        .checkpoint(&claim, &point("mine"))
        .await?;
    let token = claim.token().as_i64();
    for (token, attempt) in [
        (token, AttemptId::random()),
        (token - 1, claim.attempt()),
        (token + 1, claim.attempt()),
    ] {
        let forged = forged(&claim, FencingToken::from_i64(token), attempt);
        expect::lost(
            points(cx.store())?
                .checkpoint(&forged, &point("forged"))
                .await,
        )?;
        expect::lost(points(cx.store())?.last_checkpoint(&forged).await)?;
    }
    last_is(cx, &claim, Some(&point("mine"))).await
}

async fn a_checkpoint_on_a_key_that_was_never_claimed_is_refused(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let ends_at = claim.lease_ends_at();
    let never = Claim::new(
        cx.key("never"),
        claim.token(),
        claim.attempt(),
        1,
        ends_at,
        ends_at,
    );
    expect::lost(points(cx.store())?.checkpoint(&never, &point("one")).await)?;
    expect::lost(points(cx.store())?.last_checkpoint(&never).await)?;
    ensure_eq!(cx.store().get(never.key()).await?, None, "a record");
    Ok(())
}

async fn keys_do_not_share_checkpoints(cx: &Context) -> CaseResult {
    let parts = [
        ("scope", "operation", "id"),
        ("scope", "operation", "ID"),
        ("scope", "operation", "i\u{301}d"),
        ("scope", "operation", "\u{ed}d"),
        ("scope", "operation", "id "),
        ("Scope", "operation", "id"),
        ("scope", "Operation", "id"),
        ("scop", "eoperation", "id"),
    ];
    let mut claims = Vec::new();
    for (scope, operation, id) in parts {
        let key = Key::new(scope, operation, id)?;
        claims.push(cx.claim(&cx.request(&key)).await?);
    }
    for (at, claim) in claims.iter().enumerate().skip(1) {
        points(cx.store())?
            .checkpoint(claim, &point(&at.to_string()))
            .await?;
    }
    last_is(cx, &claims[0], None).await?;
    cx.store().release(&claims[1]).await?;
    for (at, claim) in claims.iter().enumerate().skip(2) {
        last_is(cx, claim, Some(&point(&at.to_string()))).await?;
    }
    Ok(())
}
