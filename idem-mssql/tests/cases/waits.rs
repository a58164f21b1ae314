//! What a claim does while somebody else's transaction holds the key.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{ClaimOutcome, Effect, ErrorKind, IdempotencyStore, Response, StalePolicy};
use idem_mssql::{Isolation, MssqlStore, Transaction};

use super::case;
use crate::support;

pub(super) const A_CLAIM_WAITS_FOR_THE_TRANSACTION_THAT_CLAIMED: Case =
    case(2, "a_claim_waits_for_the_transaction_that_claimed", |cx| {
        Box::pin(a_claim_waits_for_the_transaction_that_claimed(cx))
    });
pub(super) const A_CLAIM_THAT_LAPSED_UNSEEN_IS_FAILED_AND_NOT_TAKEN_OVER: Case = case(
    5,
    "a_claim_that_lapsed_unseen_is_failed_and_not_taken_over",
    |cx| Box::pin(a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx)),
);
pub(super) const A_WAIT_THAT_IS_TOO_LONG_SAYS_WHAT_IT_KNOWS: Case =
    case(14, "a_wait_that_is_too_long_says_what_it_knows", |cx| {
        Box::pin(a_wait_that_is_too_long_says_what_it_knows(cx))
    });

const HOUR: Duration = Duration::from_secs(3600);

/// Long enough for a claim to be on its way and to wait; there is no portable way to see that it does.
const UNDER_WAY: Duration = Duration::from_millis(700);

async fn a_claim_waits_for_the_transaction_that_claimed(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace())?;
    for commits in [true, false] {
        let key = cx.key(format!("commits-{commits}"));
        let mut transaction = Transaction::begin(store.pool(), Isolation::ReadCommitted).await?;
        let claim = store.claim_in(&mut transaction, &cx.request(&key)).await?;
        let claim = claim.acquired().expect("a fresh key");
        let (other, request) = (cx.open().await?, cx.request(&key));
        let waiting = tokio::spawn(async move { other.claim(&request).await });
        tokio::time::sleep(UNDER_WAY).await;
        assert!(!waiting.is_finished(), "nobody knows the answer yet");
        let response = Response::new(200, "done");
        store
            .complete_in(&mut transaction, &claim, &response, HOUR)
            .await?;
        let outcome = if commits {
            transaction.commit().await?;
            waiting.await??
        } else {
            transaction.rollback().await?;
            waiting.await??
        };
        let expected = if commits { "completed" } else { "acquired" };
        assert_eq!(outcome.name(), expected);
    }
    Ok(())
}

/// The claim that waits has not seen the record, so only the statement that writes can know that the work must not
/// run again.
async fn a_claim_that_lapsed_unseen_is_failed_and_not_taken_over(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace())?;
    let request = cx.request(&cx.key("one")).with_lease(cx.short());
    let request = request.with_on_stale(StalePolicy::Fail);
    let mut transaction = Transaction::begin(store.pool(), Isolation::ReadCommitted).await?;
    let _claim = store.claim_in(&mut transaction, &request).await?;
    // Time is the subject: the lease has to end while the record is not committed.
    tokio::time::sleep(cx.short() * 2).await;
    let (other, request) = (cx.open().await?, cx.request(request.key()));
    let waiting = tokio::spawn(async move { other.claim(&request).await });
    tokio::time::sleep(UNDER_WAY).await;
    transaction.commit().await?;
    let outcome = waiting.await??;
    assert_eq!(outcome.name(), "failed");
    Ok(())
}

/// The server gives up first, and then it is known that nothing was done; if the client does, it is not.
async fn a_wait_that_is_too_long_says_what_it_knows(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace())?;
    let config = store.config().clone();
    let hasty = config.with_timeout(Duration::from_millis(900));
    let hasty = MssqlStore::with_config(store.pool().clone(), hasty);
    let request = cx.request(&cx.key("one"));
    let mut transaction = Transaction::begin(store.pool(), Isolation::ReadCommitted).await?;
    let first = store
        .claim_in(&mut transaction, &cx.request(request.key()))
        .await?;
    let error = hasty.claim(&request).await.unwrap_err();
    assert!(
        matches!(
            (error.kind(), error.effect()),
            (ErrorKind::Contention, Effect::None) | (ErrorKind::Unavailable, Effect::Unknown)
        ),
        "{error:?}"
    );
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
