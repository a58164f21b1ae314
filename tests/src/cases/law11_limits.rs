//! Law 11: a request outside the limits is refused before anything is sent.

use std::time::Duration;

use idem_core::limits::{MAX_BATCH, MAX_LEASE, MAX_RETENTION};
use idem_core::{Error, ErrorKind, Failure, Key, Metadata, Response};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::{CaseResult, Context, expect};

cases! { law 11:
    a_claim_with_a_bad_duration_is_refused,
    a_renewal_with_a_bad_lease_is_refused,
    sealing_with_a_bad_retention_is_refused,
    the_longest_durations_are_accepted,
    the_shortest_durations_are_rounded_up,
    metadata_over_the_limit_are_refused,
    metadata_at_the_limit_are_kept,
    a_response_over_the_limit_is_refused,
    a_failure_over_the_limit_is_refused,
    a_header_name_that_cannot_be_stored_is_refused,
    purge_and_sweep_refuse_a_bad_limit,
    keys_at_their_limits_are_accepted,
}

const MORE: Duration = Duration::from_millis(1);

fn refused<T>(result: Result<T, Error>) -> CaseResult {
    expect::refused(result, ErrorKind::InvalidInput).map(drop)
}

async fn a_claim_with_a_bad_duration_is_refused(cx: &Context) -> CaseResult {
    let key = cx.key("bad");
    for request in [
        cx.request(&key).with_lease(Duration::ZERO),
        cx.request(&key).with_lease(MAX_LEASE + MORE),
        cx.request(&key).with_lease(Duration::MAX),
        cx.request(&key).with_retention(Duration::ZERO),
        cx.request(&key).with_retention(MAX_RETENTION + MORE),
        cx.request(&key).with_retention(Duration::MAX),
    ] {
        refused(cx.store().claim(&request).await)?;
    }
    ensure_eq!(cx.store().get(&key).await?, None, "nothing was written");
    Ok(())
}

async fn a_renewal_with_a_bad_lease_is_refused(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for lease in [Duration::ZERO, MAX_LEASE + MORE, Duration::MAX] {
        refused(cx.store().renew(&claim, lease).await)?;
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    Ok(())
}

async fn sealing_with_a_bad_retention_is_refused(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let (response, failure) = (Response::new(200, "x"), Failure::new("c", "m"));
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for retention in [Duration::ZERO, MAX_RETENTION + MORE, Duration::MAX] {
        refused(cx.store().complete(&claim, &response, retention).await)?;
        refused(cx.store().fail(&claim, &failure, retention).await)?;
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    cx.store().complete(&claim, &response, LONG).await?;
    Ok(())
}

async fn the_longest_durations_are_accepted(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("long"));
    let claim = cx
        .claim(&request.with_lease(MAX_LEASE).with_retention(MAX_RETENTION))
        .await?;
    ensure!(claim.lease_granted() > MAX_LEASE / 2, "the lease was cut");
    let claim = cx.store().renew(&claim, MAX_LEASE).await?;
    cx.store()
        .complete(&claim, &Response::new(200, "x"), MAX_RETENTION)
        .await?;
    let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
    let kept = replay.info.expires_at.saturating_since(replay.sealed_at);
    ensure_eq!(kept, MAX_RETENTION, "retention");
    Ok(())
}

async fn the_shortest_durations_are_rounded_up(cx: &Context) -> CaseResult {
    let shortest = Duration::from_nanos(1);
    let request = cx.request(&cx.key("short")).with_lease(shortest);
    let claim = cx.claim(&request).await?;
    ensure!(
        claim.lease_granted() <= MORE,
        "a lease of one millisecond at most"
    );
    cx.until_stale(claim.key()).await?;
    let next = cx.claim(&cx.request(claim.key())).await?;
    cx.store()
        .complete(&next, &Response::new(200, "x"), LONG + shortest)
        .await?;
    let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
    let kept = replay.info.expires_at.saturating_since(replay.sealed_at);
    ensure_eq!(kept, LONG + MORE, "retention in whole milliseconds");
    Ok(())
}

/// Returns metadata with this many bytes in JSON form.
fn metadata(bytes: usize) -> Metadata {
    Metadata::new().with("m", "x".repeat(bytes - r#"{"m":""}"#.len()))
}

async fn metadata_over_the_limit_are_refused(cx: &Context) -> CaseResult {
    let limit = cx.store().limits().max_metadata_bytes;
    let request = cx
        .request(&cx.key("labelled"))
        .with_metadata(metadata(limit + 1));
    refused(cx.store().claim(&request).await)?;
    ensure_eq!(
        cx.store().get(request.key()).await?,
        None,
        "nothing was written"
    );
    Ok(())
}

async fn metadata_at_the_limit_are_kept(cx: &Context) -> CaseResult {
    let metadata = metadata(cx.store().limits().max_metadata_bytes);
    let request = cx
        .request(&cx.key("labelled"))
        .with_metadata(metadata.clone());
    cx.hold(&request).await?;
    let record = expect::record(cx.store().get(request.key()).await?)?;
    ensure_eq!(record.info().metadata, metadata, "metadata");
    Ok(())
}

async fn a_response_over_the_limit_is_refused(cx: &Context) -> CaseResult {
    let limit = cx.store().limits().max_result_bytes;
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let before = expect::unobserved(cx.store().get(claim.key()).await?);
    for response in [
        Response::new(200, vec![b'x'; limit + 1]),
        Response::new(200, vec![b'x'; limit]),
        Response::new(200, "").with_header("x", vec![b'x'; limit]),
    ] {
        refused(cx.store().complete(&claim, &response, LONG).await)?;
    }
    let after = expect::unobserved(cx.store().get(claim.key()).await?);
    ensure_eq!(after, before, "the record");
    cx.store()
        .complete(&claim, &Response::new(200, "fits"), LONG)
        .await?;
    Ok(())
}

async fn a_failure_over_the_limit_is_refused(cx: &Context) -> CaseResult {
    let limit = cx.store().limits().max_result_bytes;
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    for failure in [
        Failure::new("code", "x".repeat(limit)),
        Failure::new("code", "message").with_details(vec![b'x'; limit]),
    ] {
        refused(cx.store().fail(&claim, &failure, LONG).await)?;
    }
    expect::in_flight(cx.store().claim(&cx.request(claim.key())).await?)?;
    Ok(())
}

async fn a_header_name_that_cannot_be_stored_is_refused(cx: &Context) -> CaseResult {
    let claim = cx.claim(&cx.request(&cx.key("held"))).await?;
    let response = Response::new(200, "x").with_header("n".repeat(65_536), "v");
    refused(cx.store().complete(&claim, &response, LONG).await)?;
    expect::in_flight(cx.store().claim(&cx.request(claim.key())).await?)?;
    Ok(())
}

async fn purge_and_sweep_refuse_a_bad_limit(cx: &Context) -> CaseResult {
    for limit in [0, MAX_BATCH + 1, u32::MAX] {
        refused(cx.store().delete_expired(limit).await)?;
        refused(cx.store().fail_abandoned(limit).await)?;
    }
    for limit in [1, MAX_BATCH] {
        ensure_eq!(cx.store().delete_expired(limit).await?, 0, "purged");
        ensure_eq!(cx.store().fail_abandoned(limit).await?, 0, "swept");
    }
    Ok(())
}

async fn keys_at_their_limits_are_accepted(cx: &Context) -> CaseResult {
    let longest = Key::new(
        "s".repeat(Key::MAX_SCOPE_BYTES),
        "o".repeat(Key::MAX_OPERATION_BYTES),
        "é".repeat(Key::MAX_ID_BYTES / 2),
    )?;
    for key in [longest, Key::new("s", "o", "i")?] {
        let claim = cx.claim(&cx.request(&key)).await?;
        cx.store()
            .complete(&claim, &Response::new(200, "x"), LONG)
            .await?;
        let record = expect::record(cx.store().get(&key).await?)?;
        ensure!(record.response().is_some(), "not completed");
    }
    Ok(())
}
