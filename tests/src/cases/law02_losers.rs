//! Law 2: a loser gets the state, fingerprint, token and response of the winner.

use idem_core::{Failure, Metadata, Response, StalePolicy};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseResult, Context, expect};

cases! { law 2:
    a_key_that_was_never_claimed_has_no_record,
    a_loser_learns_the_fingerprint_and_the_token,
    a_loser_learns_what_is_left_of_the_lease,
    a_loser_learns_what_happens_to_a_stale_claim,
    a_loser_sees_the_metadata_of_the_winner,
    metadata_of_a_takeover_replaces_the_old,
    a_loser_of_a_completed_key_gets_its_response,
    a_loser_of_a_failed_key_gets_its_failure,
    a_losing_claim_and_get_tell_the_same,
    the_first_claim_is_attempt_one,
}

async fn a_key_that_was_never_claimed_has_no_record(cx: &Context) -> CaseResult {
    ensure_eq!(cx.store().get(&cx.key("never")).await?, None, "get");
    cx.hold(&cx.request(&cx.key("another"))).await?;
    ensure_eq!(
        cx.store().get(&cx.key("never")).await?,
        None,
        "get beside another"
    );
    Ok(())
}

async fn a_loser_learns_the_fingerprint_and_the_token(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("taken"));
    let claim = cx.claim(&request).await?;
    let loser = expect::in_flight(cx.open().await?.claim(&cx.request(claim.key())).await?)?;
    ensure_eq!(loser.info.token, claim.token(), "token");
    ensure_eq!(
        loser.info.fingerprint,
        *request.fingerprint(),
        "fingerprint"
    );
    ensure_eq!(loser.info.attempts, 1, "attempts");
    ensure!(!loser.is_stale(), "a lease of minutes is stale");
    Ok(())
}

async fn a_loser_learns_what_is_left_of_the_lease(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("taken"))).await?;
    let loser = expect::in_flight(cx.store().claim(&cx.request(claim.key())).await?)?;
    ensure_eq!(
        loser.lease_ends_at,
        claim.lease_ends_at(),
        "end of the lease"
    );
    ensure!(
        loser.lease_remaining() <= LONG,
        "more than the whole lease is left"
    );
    ensure!(
        loser.lease_remaining() > LONG / 2,
        "most of the lease is gone at once"
    );
    ensure!(
        loser.info.expires_at >= loser.lease_ends_at,
        "retention ends before the lease"
    );
    Ok(())
}

async fn a_loser_learns_what_happens_to_a_stale_claim(cx: &Context) -> CaseResult {
    for policy in [StalePolicy::TakeOver, StalePolicy::Fail] {
        let key = cx.key(format!("{policy:?}"));
        cx.hold(&cx.request(&key).with_on_stale(policy)).await?;
        let loser = expect::in_flight(cx.store().claim(&cx.request(&key)).await?)?;
        ensure_eq!(loser.on_stale, policy, "the holder's policy");
    }
    Ok(())
}

async fn a_loser_sees_the_metadata_of_the_winner(cx: &Context) -> CaseResult {
    let metadata = Metadata::new()
        .with("host", "worker-7")
        .with("", "empty name")
        .with("quotes \" ' \\", "été 🦀 \u{0} \n");
    let request = cx
        .request(&cx.key("labelled"))
        .with_metadata(metadata.clone());
    let claim = cx.claim(&request).await?;
    let rival = cx
        .request(claim.key())
        .with_metadata(Metadata::new().with("host", "rival"));
    let loser = expect::in_flight(cx.store().claim(&rival).await?)?;
    ensure_eq!(loser.info.metadata, metadata, "while in flight");
    cx.store()
        .complete(&claim, &Response::new(200, ""), LONG)
        .await?;
    let loser = expect::completed(cx.store().claim(&rival).await?)?;
    ensure_eq!(loser.info.metadata, metadata, "after completion");
    ensure_eq!(loser.info.metadata.get("host"), Some("worker-7"), "value");
    Ok(())
}

async fn metadata_of_a_takeover_replaces_the_old(cx: &Context) -> CaseResult {
    let key = cx.key("labelled twice");
    let old = Metadata::new().with("host", "one").with("only", "old");
    cx.leave_stale(&cx.request(&key).with_metadata(old)).await?;
    let new = Metadata::new().with("host", "two");
    cx.hold(&cx.request(&key).with_metadata(new.clone()))
        .await?;
    let record = expect::record(cx.store().get(&key).await?)?;
    ensure_eq!(record.info().metadata, new, "metadata");
    Ok(())
}

async fn a_loser_of_a_completed_key_gets_its_response(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("done"));
    let claim = cx.claim(&request).await?;
    let response = Response::new(201, secret("created")).with_header("location", "/payments/7");
    cx.store().complete(&claim, &response, LONG).await?;
    let loser = expect::completed(cx.open().await?.claim(&cx.request(claim.key())).await?)?;
    ensure_eq!(loser.response, response, "response");
    ensure_eq!(loser.info.token, claim.token(), "token");
    ensure_eq!(
        loser.info.fingerprint,
        *request.fingerprint(),
        "fingerprint"
    );
    Ok(())
}

async fn a_loser_of_a_failed_key_gets_its_failure(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("failed"))).await?;
    let failure = Failure::new("card.declined", secret("no funds")).with_details("{}");
    cx.store().fail(&claim, &failure, LONG).await?;
    let loser = expect::failed(cx.open().await?.claim(&cx.request(claim.key())).await?)?;
    ensure_eq!(loser.failure, failure, "failure");
    ensure_eq!(loser.info.token, claim.token(), "token");
    Ok(())
}

async fn a_losing_claim_and_get_tell_the_same(cx: &Context) -> CaseResult {
    let key = cx.key("looked at twice");
    let claim = cx.claim(&cx.request(&key)).await?;
    let returned = expect::in_flight(cx.store().claim(&cx.request(&key)).await?)?;
    let seen = expect::unobserved(cx.store().get(&key).await?);
    ensure_eq!(
        expect::unobserved(Some(idem_core::Record::InFlight(returned))),
        seen,
        "in flight"
    );
    cx.store()
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    let returned = expect::completed(cx.store().claim(&cx.request(&key)).await?)?;
    let seen = expect::unobserved(cx.store().get(&key).await?);
    ensure_eq!(
        expect::unobserved(Some(idem_core::Record::Completed(returned))),
        seen,
        "completed"
    );
    Ok(())
}

async fn the_first_claim_is_attempt_one(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("first"))).await?;
    ensure_eq!(claim.attempts(), 1, "attempts");
    ensure!(!claim.is_takeover(), "nobody was there before");
    ensure!(claim.token().as_i64() > 0, "tokens are positive");
    ensure!(
        claim.lease_granted() <= LONG,
        "no more is granted than was asked for"
    );
    ensure!(
        claim.lease_granted() > LONG / 2,
        "what was asked for is granted"
    );
    Ok(())
}
