//! Tokens across a clock that was set back; `delete_expired` and `fail_abandoned` in steps.

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{ClaimRequest, StalePolicy};

use super::case;
use crate::support;

pub(super) const A_CLOCK_THAT_WAS_SET_BACK_TAKES_NO_TOKEN_BACK: Case =
    case(5, "a_clock_that_was_set_back_takes_no_token_back", |cx| {
        Box::pin(a_clock_that_was_set_back_takes_no_token_back(cx))
    });
pub(super) const PURGE_AND_SWEEP_TAKE_MORE_THAN_ONE_STEP: Case =
    case(16, "purge_and_sweep_take_more_than_one_step", |cx| {
        Box::pin(purge_and_sweep_take_more_than_one_step(cx))
    });

/// A clock that was set back leaves a token from the future behind.
async fn a_clock_that_was_set_back_takes_no_token_back(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let claim = cx.claim(&cx.request(&cx.key("ahead"))).await?;
    cx.store().release(&claim).await?;
    let hour = 3_600_000_000;
    let ahead = format!("SET token = token + {hour}, purge_at = 0");
    let update = format!("UPDATE [{}] {ahead};", cx.namespace());
    harness.run(cx.namespace(), &update).await?;
    assert_eq!(
        cx.store().delete_expired(10).await?,
        0,
        "the next token is made from it"
    );
    let next = cx.claim(&cx.request(claim.key())).await?;
    assert!(next.token().as_i64() > claim.token().as_i64() + hour);
    Ok(())
}

/// One statement locks at most a thousand rows; an operation may take ten times as many.
async fn purge_and_sweep_take_more_than_one_step(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let request = |number: u32| -> ClaimRequest {
        cx.request(&cx.key(format!("key-{number}")))
            .with_lease(cx.short())
            .with_on_stale(StalePolicy::Fail)
            .with_retention(cx.short())
    };
    let requests: Vec<_> = (0..1_300).map(request).collect();
    for outcome in store.claim_many(&requests).await {
        assert!(outcome?.acquired().is_some());
    }
    // Batches are sent in the order of keys.
    let last = requests.iter().map(ClaimRequest::key).max();
    let last = last.expect("there are some").clone();
    cx.until_free(&last).await?;
    assert_eq!(store.delete_expired(1_200).await?, 1_200);
    assert_eq!(store.delete_expired(1_200).await?, 100);
    let requests: Vec<_> = requests
        .into_iter()
        .map(|request| cx.request(request.key()).with_lease(cx.short()))
        .map(|request| request.with_on_stale(StalePolicy::Fail))
        .collect();
    for outcome in store.claim_many(&requests).await {
        assert!(outcome?.acquired().is_some());
    }
    cx.until_stale(&last).await?;
    assert_eq!(store.fail_abandoned(1_200).await?, 1_200);
    assert_eq!(store.fail_abandoned(1_200).await?, 100);
    Ok(())
}
