//! Law 10: no scope ever sees another's record.

use idem_core::{Claim, ClaimRequest, Fingerprint, Key, Response, StalePolicy};

use crate::case::cases;
use crate::context::LONG;
use crate::failure::ensure_eq;
use crate::secrets::secret;
use crate::{CaseResult, Context, expect};

cases! { law 10:
    scopes_do_not_share_records,
    operations_do_not_share_records,
    sweep_and_purge_do_not_cross_scopes,
}

async fn scopes_do_not_share_records(cx: &Context) -> CaseResult {
    let [one, two] = [Key::new("one", "pay", "id")?, Key::new("two", "pay", "id")?];
    let request = |key: &Key| ClaimRequest::new(key.clone(), Fingerprint::raw("same"));
    let mine = cx.claim(&request(&one)).await?;
    cx.store()
        .complete(&mine, &Response::new(200, secret("secret of one")), LONG)
        .await?;
    ensure_eq!(
        cx.store().get(&two).await?,
        None,
        "another scope sees the record"
    );
    let theirs = cx.claim(&request(&two)).await?;
    let forged = Claim::new(
        two.clone(),
        mine.token(),
        mine.attempt(),
        1,
        mine.lease_ends_at(),
        mine.lease_ends_at(),
    );
    expect::lost(
        cx.store()
            .complete(&forged, &Response::new(200, secret("forged")), LONG)
            .await,
    )?;
    cx.store().release(&theirs).await?;
    expect::completed(cx.store().claim(&request(&one)).await?)?;
    Ok(())
}

async fn operations_do_not_share_records(cx: &Context) -> CaseResult {
    let [one, two] = [
        Key::new("scope", "pay", "id")?,
        Key::new("scope", "refund", "id")?,
    ];
    let mine = cx
        .claim(&ClaimRequest::new(one.clone(), Fingerprint::raw("1")))
        .await?;
    cx.store()
        .complete(&mine, &Response::new(200, secret("paid")), LONG)
        .await?;
    ensure_eq!(
        cx.store().get(&two).await?,
        None,
        "another operation sees the record"
    );
    let other = cx
        .claim(&ClaimRequest::new(two, Fingerprint::raw("2")))
        .await?;
    cx.store()
        .complete(&other, &Response::new(200, secret("refunded")), LONG)
        .await?;
    let record = expect::record(cx.store().get(&one).await?)?;
    let body = record.response().map(|response| response.body().clone());
    ensure_eq!(body, Some(secret("paid").into()), "the first record");
    Ok(())
}

async fn sweep_and_purge_do_not_cross_scopes(cx: &Context) -> CaseResult {
    let live = cx
        .claim(&ClaimRequest::new(
            Key::new("one", "pay", "id")?,
            Fingerprint::raw("1"),
        ))
        .await?;
    let stale = ClaimRequest::new(Key::new("two", "pay", "id")?, Fingerprint::raw("1"));
    cx.leave_stale(&stale.with_on_stale(StalePolicy::Fail))
        .await?;
    let gone = cx
        .claim(&ClaimRequest::new(
            Key::new("three", "pay", "id")?,
            Fingerprint::raw("1"),
        ))
        .await?;
    cx.store()
        .complete(&gone, &Response::new(200, secret("x")), cx.short())
        .await?;
    cx.until_free(gone.key()).await?;
    ensure_eq!(cx.store().fail_abandoned(100).await?, 1, "swept");
    cx.store().delete_expired(100).await?;
    cx.store()
        .complete(&live, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}
