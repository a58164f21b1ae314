//! What a claim does while somebody else's transaction holds the key.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{ClaimOutcome, Effect, ErrorKind, IdempotencyStore, Response, StalePolicy};
use idem_postgres::PostgresStore;

use super::case;
use crate::support;

pub(super) const A_CLAIM_WAITS_FOR_THE_TRANSACTION_THAT_CLAIMED: Case =
    case(2, "a_claim_waits_for_the_transaction_that_claimed", |cx| {
        Box::pin(a_claim_waits_for_the_transaction_that_claimed(cx))
    });
pub(super) const A_WAIT_THAT_IS_TOO_LONG_IS_AN_UNKNOWN_EFFECT: Case =
    case(14, "a_wait_that_is_too_long_is_an_unknown_effect", |cx| {
        Box::pin(a_wait_that_is_too_long_is_an_unknown_effect(cx))
    });

pub(super) const A_CLAIM_THAT_LAPSED_UNSEEN_IS_FAILED_AND_NOT_TAKEN_OVER: Case = case(
    5,
    "a_claim_that_lapsed_unseen_is_failed_and_not_taken_over",
    |cx| Box::pin(a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx)),
);

/// The claim that waits has not seen the record, so only the statement that writes can know that the work must not
/// run again.
async fn a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one")).with_lease(cx.short());
    let request = request.with_on_stale(StalePolicy::Fail);
    let mut transaction = store.pool().begin().await?;
    let _claim = store.claim_in(&mut transaction, &request).await?;
    // Time is the subject: the lease has to end while the record is not committed.
    tokio::time::sleep(cx.short() * 2).await;
    let (other, request) = (cx.open().await?, cx.request(request.key()));
    let waiting = tokio::spawn(async move { other.claim(&request).await });
    until_blocked(&store, cx.namespace()).await?;
    transaction.commit().await?;
    let outcome = waiting.await??;
    assert!(
        matches!(outcome, ClaimOutcome::Failed(_)),
        "{}",
        outcome.name()
    );
    Ok(())
}

const HOUR: Duration = Duration::from_secs(3600);

async fn a_claim_waits_for_the_transaction_that_claimed(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for commits in [true, false] {
        let key = cx.key(format!("commits-{commits}"));
        let mut transaction = store.pool().begin().await?;
        let claim = store.claim_in(&mut transaction, &cx.request(&key)).await?;
        let claim = claim.acquired().expect("a fresh key");
        let (other, request) = (cx.open().await?, cx.request(&key));
        let waiting = tokio::spawn(async move { other.claim(&request).await });
        until_blocked(&store, cx.namespace()).await?;
        let response = Response::new(200, "done");
        store
            .complete_in(&mut transaction, &claim, &response, HOUR)
            .await?;
        if commits {
            transaction.commit().await?;
            let outcome = waiting.await??;
            assert!(
                matches!(outcome, ClaimOutcome::Completed(_)),
                "{}",
                outcome.name()
            );
        } else {
            transaction.rollback().await?;
            let outcome = waiting.await??;
            assert!(
                matches!(outcome, ClaimOutcome::Acquired(_)),
                "{}",
                outcome.name()
            );
        }
    }
    Ok(())
}

/// Waits until a statement of this schema waits for a lock.
async fn until_blocked(store: &PostgresStore, schema: &str) -> CaseResult {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let pattern = format!("%{schema}%");
    while tokio::time::Instant::now() < deadline {
        let mut transaction = store.pool().begin().await?;
        let blocked = sqlx::query(
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1",
        )
        .bind(&pattern)
        .persistent(false)
        .fetch_optional(&mut *transaction)
        .await?;
        if blocked.is_some() {
            return Ok(());
        }
    }
    Err(idem_conformance::CaseError::new(
        "nothing waits for the lock",
    ))
}

async fn a_wait_that_is_too_long_is_an_unknown_effect(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let config = store
        .config()
        .clone()
        .with_timeout(Duration::from_millis(150));
    let hasty =
        PostgresStore::with_config(harness.store(cx.namespace()).await?.pool().clone(), config);
    let request = cx.request(&cx.key("one"));
    let mut transaction = store.pool().begin().await?;
    let first = store
        .claim_in(&mut transaction, &cx.request(request.key()))
        .await?;
    let error = hasty.claim(&request).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.effect()),
        (ErrorKind::Unavailable, Effect::Unknown)
    );
    // The statement still waits on the server; when the first claim is rolled back, it takes effect.
    drop(first);
    transaction.rollback().await?;
    let claim = store.claim(&request).await?.acquired();
    assert!(
        claim.is_some(),
        "the same attempt gets what it may have claimed"
    );
    let other = store.claim(&cx.request(request.key())).await?;
    assert!(
        matches!(other, ClaimOutcome::InFlight(_)),
        "{}",
        other.name()
    );
    Ok(())
}
