//! Answers that are lost, and errors of the service.

use std::sync::Arc;
use std::time::Duration;

use idem_conformance::{CaseResult, Context};
use idem_core::{
    Advance, Checkpoint, CheckpointStore, ClaimOutcome, Effect, ErrorKind, FailedPolicy, Failure,
    IdempotencyStore, Response, StalePolicy, WatermarkStore,
};
use idem_dynamodb::{DynamoStore, LookupFirst};

use super::HOUR;
use crate::support::service::Act::{Lose, Pass, Refuse};
use crate::support::service::Service;
use crate::support::{self, item, number};

/// A store behind a service, which knows the clock.
async fn behind(cx: &Context) -> CaseResult<(Service, Arc<DynamoStore>)> {
    let harness = support::harness()?;
    let service = Service::start(&harness).await?;
    let store = service.store(cx, &harness, |config| {
        config.with_lookup_first(LookupFirst::Never)
    })?;
    store.get(&cx.key("nothing")).await?;
    service.take_requests();
    Ok((service, Arc::new(store)))
}

pub(super) async fn winner_and_loser_take_one_round_trip(cx: &Context) -> CaseResult {
    let (service, store) = behind(cx).await?;
    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired().expect("free");
    assert_eq!(service.take_requests(), 1, "the winner");
    let duplicate = cx.request(request.key());
    assert_eq!(store.claim(&duplicate).await?.name(), "in_flight");
    assert_eq!(service.take_requests(), 1, "a loser");
    let claim = store.renew(&claim, HOUR * 2).await?;
    assert_eq!(service.take_requests(), 1, "a renewal");
    store
        .checkpoint(&claim, &Checkpoint::new("half", "x")?)
        .await?;
    assert_eq!(service.take_requests(), 1, "a checkpoint");
    let response = Response::new(200, "x");
    store.complete(&claim, &response, HOUR).await?;
    assert_eq!(service.take_requests(), 1, "a completion");
    store.complete(&claim, &response, HOUR).await?;
    assert_eq!(service.take_requests(), 1, "a repeated completion");
    assert_eq!(store.claim(&duplicate).await?.name(), "completed");
    let other = cx.other_request(request.key());
    assert_eq!(store.claim(&other).await?.name(), "conflict");
    assert_eq!(service.take_requests(), 2, "a replay and a conflict");
    let source = cx.key("source");
    for (version, expected) in [
        (5, Advance::Advanced),
        (5, Advance::Unchanged),
        (4, Advance::Stale { current: 5 }),
    ] {
        assert_eq!(store.advance(&source, version, HOUR).await?, expected);
        assert_eq!(service.take_requests(), 1, "an advance");
    }
    Ok(())
}

/// The SDK sends a request again whose answer was lost. Then the winner meets its own record.
pub(super) async fn a_winner_whose_answer_was_lost_is_acquired(cx: &Context) -> CaseResult {
    let (service, store) = behind(cx).await?;
    let request = cx.request(&cx.key("one")).with_lease(HOUR);
    service.next(&[Lose]);
    let claim = store.claim(&request).await?.acquired().expect("its own");
    assert_eq!(service.take_requests(), 2);
    let item = item(cx, request.key()).await?.expect("there");
    assert_eq!(number(&item, "token"), Some(claim.token().as_i64()));
    let ends_at = claim.lease_ends_at().as_micros();
    assert_eq!(number(&item, "lease_ends_at"), Some(ends_at));
    assert_eq!(claim.attempts(), 1);
    let duplicate = cx.request(request.key());
    assert_eq!(cx.store().claim(&duplicate).await?.name(), "in_flight");
    Ok(())
}

pub(super) async fn a_takeover_whose_answer_was_lost_is_acquired_once(cx: &Context) -> CaseResult {
    let (service, store) = behind(cx).await?;
    let stale = cx.stale_claim(&cx.request(&cx.key("stale"))).await?;
    service.next(&[Pass, Lose]);
    let second = store.claim(&cx.request(stale.key())).await?;
    let second = second.acquired().expect("taken over");
    assert_eq!(second.attempts(), 2, "one takeover, not two");
    let failed = cx.claim(&cx.request(&cx.key("failed"))).await?;
    let failure = Failure::new("declined", "no funds");
    store.fail(&failed, &failure, HOUR).await?;
    service.next(&[Pass, Lose]);
    let retry = cx.request(failed.key()).with_on_failed(FailedPolicy::Retry);
    let retried = store.claim(&retry).await?.acquired().expect("retried");
    assert_eq!(retried.attempts(), 2);
    store
        .complete(&retried, &Response::new(200, "x"), HOUR)
        .await?;
    Ok(())
}

pub(super) async fn a_holder_whose_answers_were_lost_goes_on(cx: &Context) -> CaseResult {
    let (service, store) = behind(cx).await?;
    let claim = store.claim(&cx.request(&cx.key("one"))).await?;
    let claim = claim.acquired().expect("free");
    service.next(&[Lose]);
    let renewed = store.renew(&claim, HOUR * 2).await?;
    assert!(renewed.lease_ends_at() > claim.lease_ends_at());
    let again = store.renew(&claim, HOUR * 2).await?;
    assert!(
        again.lease_ends_at() >= renewed.lease_ends_at(),
        "from an old claim"
    );
    service.next(&[Lose]);
    let point = Checkpoint::new("half", "data")?;
    store.checkpoint(&again, &point).await?;
    assert_eq!(store.last_checkpoint(&claim).await?, Some(point));
    service.next(&[Lose]);
    store
        .complete(&claim, &Response::new(200, "x"), HOUR)
        .await?;
    let claim = store.claim(&cx.request(&cx.key("two"))).await?;
    let claim = claim.acquired().expect("free");
    service.next(&[Lose]);
    store.release(&claim).await?;
    service.next(&[Lose]);
    let source = cx.key("source");
    assert_eq!(store.advance(&source, 5, HOUR).await?, Advance::Advanced);
    assert_eq!(store.advance(&source, 5, HOUR).await?, Advance::Unchanged);
    Ok(())
}

pub(super) async fn an_abandoned_record_is_failed_once_although_the_answer_was_lost(
    cx: &Context,
) -> CaseResult {
    let (service, store) = behind(cx).await?;
    let fails = |id| cx.request(&cx.key(id)).with_on_stale(StalePolicy::Fail);
    let stale = cx.stale_claim(&fails("met by a claim")).await?;
    service.next(&[Pass, Lose]);
    // Only a later claim may retry the failure.
    let retry = cx.request(stale.key()).with_on_failed(FailedPolicy::Retry);
    let ClaimOutcome::Failed(failed) = store.claim(&retry).await? else {
        panic!("not failed");
    };
    assert_eq!(failed.failure.code(), Failure::ABANDONED);
    assert!(store.claim(&retry).await?.acquired().is_some());
    cx.leave_stale(&fails("met by a sweep")).await?;
    service.next(&[Pass, Lose]);
    assert_eq!(store.fail_abandoned(10).await?, 1, "counted");
    assert_eq!(store.fail_abandoned(10).await?, 0);
    Ok(())
}

pub(super) async fn conflicts_with_a_transaction_are_repeated(cx: &Context) -> CaseResult {
    let (service, store) = behind(cx).await?;
    let conflict = Refuse(400, "TransactionConflictException");
    service.next(&[conflict, conflict, conflict]);
    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired().expect("free");
    service.next(&[conflict]);
    store
        .complete(&claim, &Response::new(200, "x"), HOUR)
        .await?;
    service.next(&[conflict; 100]);
    let error = store.claim(&cx.request(&cx.key("two"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Contention, "{error}");
    assert_eq!(error.effect(), Effect::None, "{error}");
    Ok(())
}

pub(super) async fn errors_of_the_service_say_what_they_did(cx: &Context) -> CaseResult {
    for (answer, kind, effect) in [
        (
            Refuse(400, "ProvisionedThroughputExceededException"),
            ErrorKind::Unavailable,
            Effect::None,
        ),
        (
            Refuse(400, "ThrottlingException"),
            ErrorKind::Unavailable,
            Effect::None,
        ),
        (
            Refuse(500, "InternalServerError"),
            ErrorKind::Unavailable,
            Effect::Unknown,
        ),
        (
            Refuse(400, "AccessDeniedException"),
            ErrorKind::Misconfigured,
            Effect::None,
        ),
        (
            Refuse(400, "ResourceNotFoundException"),
            ErrorKind::Misconfigured,
            Effect::None,
        ),
    ] {
        let (service, store) = behind(cx).await?;
        let request = cx.request(&cx.key(format!("{answer:?}")));
        service.next(&[answer; 10]);
        let error = store.claim(&request).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (kind, effect),
            "{answer:?}: {error}"
        );
        let error = store.get(request.key()).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.effect()),
            (kind, Effect::None),
            "{error}"
        );
    }
    // Fewer of them are hidden by the SDK's retries.
    let (service, store) = behind(cx).await?;
    service.next(&[Refuse(400, "ThrottlingException")]);
    let claimed = store.claim(&cx.request(&cx.key("throttled"))).await?;
    assert!(claimed.acquired().is_some());
    Ok(())
}

/// The SDK reports its last try, and the effect is that of all.
pub(super) async fn what_the_sdk_hides_of_a_lost_answer_is_unknown(cx: &Context) -> CaseResult {
    let (service, store) = behind(cx).await?;
    let request = cx
        .request(&cx.key("one"))
        .with_lease(Duration::from_secs(600));
    let throttled = Refuse(400, "ThrottlingException");
    service.next(&[Lose, throttled, throttled, throttled, throttled]);
    let error = store.claim(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(error.effect(), Effect::Unknown, "the first try is done");
    let (service, store) = behind(cx).await?;
    service.next(&[Lose; 10]);
    let error = store.claim(&cx.request(&cx.key("two"))).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    // Sent again, the request gets its claim back.
    let (_, store) = behind(cx).await?;
    let claim = store.claim(&request).await?.acquired().expect("its own");
    assert_eq!(claim.attempts(), 1);
    Ok(())
}
