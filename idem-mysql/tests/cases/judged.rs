//! A write that met a lock and is sent again is judged by the record that it then meets, not by the
//! one that was read before.

use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    AttemptId, Claim, ClaimRequest, FailedPolicy, Failure, FencingToken, IdempotencyStore,
    IdempotencyStoreExt, Response, StalePolicy,
};
use idem_mysql::MySqlStore;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Transaction};

use super::case;
use super::waits::{HOUR, RETRY_TIMEOUT, until};
use crate::support;

pub(super) const A_CLAIM_TAKES_OVER_ONLY_WHAT_IT_MEETS: Case =
    case(1, "a_claim_takes_over_only_what_it_meets", |cx| {
        Box::pin(a_claim_takes_over_only_what_it_meets(cx))
    });
pub(super) const A_CLAIM_LEAVES_ALONE_WHAT_WAS_SEALED_WHILE_IT_WAITED: Case = case(
    1,
    "a_claim_leaves_alone_what_was_sealed_while_it_waited",
    |cx| Box::pin(a_claim_leaves_alone_what_was_sealed_while_it_waited(cx)),
);
pub(super) const A_CLAIM_FAILS_ONLY_THE_STALE_RECORD_THAT_IT_SAW: Case =
    case(5, "a_claim_fails_only_the_stale_record_that_it_saw", |cx| {
        Box::pin(a_claim_fails_only_the_stale_record_that_it_saw(cx))
    });

pub(super) const ONLY_THE_CLAIM_ITSELF_IS_TOLD_THAT_IT_IS_DONE: Case =
    case(6, "only_the_claim_itself_is_told_that_it_is_done", |cx| {
        Box::pin(only_the_claim_itself_is_told_that_it_is_done(cx))
    });
pub(super) const AN_ATTEMPT_THAT_COMES_AFTER_THE_RETENTION_IS_ANOTHER_ACQUISITION: Case = case(
    8,
    "an_attempt_that_comes_after_the_retention_is_another_acquisition",
    |cx| Box::pin(an_attempt_that_comes_after_the_retention_is_another_acquisition(cx)),
);

pub(super) const AN_ATTEMPT_THAT_RETRIES_ITS_OWN_FAILURE_IS_ANOTHER_ACQUISITION: Case = case(
    5,
    "an_attempt_that_retries_its_own_failure_is_another_acquisition",
    |cx| Box::pin(an_attempt_that_retries_its_own_failure_is_another_acquisition(cx)),
);

type Open = Transaction<'static, sqlx::MySql>;

/// Returns the answer to a claim that read the key before the transaction was committed, and whose
/// write met the lock until then.
async fn after_waiting(
    store: &MySqlStore,
    transaction: Open,
    request: &ClaimRequest,
) -> CaseResult<&'static str> {
    let (retrying, request) = (store.clone(), request.clone());
    let met = store.contention().lock_waits;
    let waiting =
        tokio::spawn(async move { retrying.claim_retrying(&request, RETRY_TIMEOUT).await });
    until(|| store.contention().lock_waits > met).await?;
    transaction.commit().await?;
    Ok(waiting.await??.name())
}

/// A released key that the transaction has claimed: others still see it as free.
async fn claimed(
    cx: &Context,
    store: &MySqlStore,
    request: &ClaimRequest,
) -> CaseResult<(Open, Claim)> {
    let released = cx.claim(&cx.request(request.key())).await?;
    store.release(&released).await?;
    let mut transaction = store.pool().begin().await?;
    let outcome = store.claim_in(&mut transaction, request).await?;
    Ok((transaction, outcome.acquired().expect("it was released")))
}

/// The lease of the claim that came in between is over, too; only the condition of its write keeps
/// the claim from taking it over.
async fn a_claim_takes_over_only_what_it_meets(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let keys = ["open", "live", "closed", "closed to the claim", "other"].map(|id| cx.key(id));
    let [open, live, closed, closed_to_claim, other] = &keys;
    let short = |request: ClaimRequest| request.with_lease(cx.short());
    for (holder, claim, answer) in [
        (short(cx.request(open)), cx.request(open), "acquired"),
        (cx.request(live), cx.request(live), "in_flight"),
        (
            short(cx.request(closed)).with_on_stale(StalePolicy::Fail),
            cx.request(closed),
            "failed",
        ),
        (
            short(cx.request(closed_to_claim)),
            cx.request(closed_to_claim).with_on_stale(StalePolicy::Fail),
            "failed",
        ),
        (
            short(cx.other_request(other)),
            cx.request(other),
            "conflict",
        ),
    ] {
        let (transaction, _claim) = claimed(cx, &store, &holder).await?;
        // Time is the subject: the lease has to end while the record is not committed.
        tokio::time::sleep(cx.short() * 2).await;
        let answered = after_waiting(&store, transaction, &claim).await?;
        assert_eq!(answered, answer, "{}", claim.key().id());
    }
    Ok(())
}

async fn a_claim_leaves_alone_what_was_sealed_while_it_waited(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let keys = ["failed", "retry", "own"].map(|id| cx.key(id));
    let [failed, retry, own] = keys.each_ref().map(|key| cx.request(key));
    let (mut transaction, claim) = claimed(cx, &store, &cx.request(failed.key())).await?;
    fail(&store, &mut transaction, &claim, HOUR).await?;
    let answered = after_waiting(&store, transaction, &failed).await?;
    assert_eq!(answered, "failed");
    let retries = retry.clone().with_on_failed(FailedPolicy::Retry);
    for (holder, claim) in [(cx.request(retry.key()), retries), (own.clone(), own)] {
        let (mut transaction, held) = claimed(cx, &store, &holder).await?;
        let response = Response::new(200, "done");
        store
            .complete_in(&mut transaction, &held, &response, HOUR)
            .await?;
        let answered = after_waiting(&store, transaction, &claim).await?;
        assert_eq!(answered, "completed", "{}", claim.key().id());
    }
    Ok(())
}

/// A claim that reads a stale record which must not be taken over fails it, unless the record has
/// changed by then.
async fn a_claim_fails_only_the_stale_record_that_it_saw(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let response = Response::new(200, "late");
    for (what, answer) in [
        ("completed", "completed"),
        ("renewed", "in_flight"),
        ("acquired", "acquired"),
        ("failed again", "acquired"),
        ("failed by its holder", "acquired"),
        ("failed and expired", "acquired"),
    ] {
        let key = cx.key(what);
        let late = cx.request(&key).with_on_stale(StalePolicy::Fail);
        let late = cx.stale_claim(&late).await?;
        let retries = cx.request(&key).with_on_failed(FailedPolicy::Retry);
        let mut transaction = store.pool().begin().await?;
        let tx = &mut *transaction;
        match what {
            "completed" => store.complete_in(tx, &late, &response, HOUR).await?,
            "renewed" => renew(cx, tx, &late).await?,
            "failed by its holder" => fail(&store, tx, &late, HOUR).await?,
            "failed and expired" => fail(&store, tx, &late, cx.short()).await?,
            _ => {
                let abandoned = store.claim_in(tx, &cx.request(&key)).await?;
                assert_eq!(abandoned.name(), "failed");
                let open = retries.clone().with_attempt(AttemptId::random());
                let open = store.claim_in(tx, &open.with_lease(cx.short())).await?;
                let open = open.acquired().expect("to be tried again");
                if what == "failed again" {
                    fail(&store, tx, &open, HOUR).await?;
                }
            }
        }
        // Time is the subject: the short retention or lease has to end while it is not committed.
        tokio::time::sleep(cx.short() * 2).await;
        // A claim that retries failures would acquire a record that was failed by mistake.
        let claim = match what {
            "acquired" => cx.request(&key),
            _ => retries,
        };
        let answered = after_waiting(&store, transaction, &claim).await?;
        assert_eq!(answered, answer, "{what}");
    }
    Ok(())
}

async fn fail(
    store: &MySqlStore,
    connection: &mut MySqlConnection,
    claim: &Claim,
    retention: Duration,
) -> CaseResult {
    let failure = Failure::new("no", "no");
    Ok(store
        .fail_in(connection, claim, &failure, retention)
        .await?)
}

/// Renews as a late holder does, in a transaction.
async fn renew(cx: &Context, connection: &mut MySqlConnection, claim: &Claim) -> CaseResult {
    let table = format!("`{}`.idem_records", cx.namespace());
    let hour = HOUR.as_micros();
    let sql = format!(
        "UPDATE {table} SET lease_ends_at = lease_ends_at + {hour}, sweep_at = sweep_at + {hour},
            purge_at = purge_at + {hour}
        WHERE token = {}",
        claim.token().as_i64()
    );
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await?;
    Ok(())
}

/// A completion or release that was sent before succeeds again; that of another token or attempt
/// has lost.
async fn only_the_claim_itself_is_told_that_it_is_done(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    let [done, released] = ["done", "released"].map(|id| cx.request(&cx.key(id)));
    let (done, released) = (cx.claim(&done).await?, cx.claim(&released).await?);
    let response = Response::new(200, "done");
    store.complete(&done, &response, HOUR).await?;
    store.release(&released).await?;
    store.complete(&done, &response, HOUR).await?;
    store.release(&released).await?;
    for claim in [done, released] {
        let earlier = FencingToken::from_i64(claim.token().as_i64() - 1);
        for (token, attempt) in [
            (earlier, claim.attempt()),
            (claim.token(), AttemptId::random()),
        ] {
            let until = claim.lease_ends_at();
            let other = Claim::new(claim.key().clone(), token, attempt, 1, until, until);
            let completed = store.complete(&other, &response, HOUR).await;
            assert!(completed.is_err_and(|error| error.is_claim_lost()));
            let mut transaction = store.pool().begin().await?;
            let completed = store.complete_in(&mut transaction, &other, &response, HOUR);
            assert!(completed.await.is_err_and(|error| error.is_claim_lost()));
            transaction.rollback().await?;
            let released = store.release(&other).await;
            assert!(released.is_err_and(|error| error.is_claim_lost()));
        }
    }
    Ok(())
}

async fn an_attempt_that_comes_after_the_retention_is_another_acquisition(
    cx: &Context,
) -> CaseResult {
    let request = cx.request(&cx.key("one"));
    let ends = request.clone().with_lease(cx.short());
    let first = cx.claim(&ends.with_retention(cx.short())).await?;
    cx.until_free(request.key()).await?;
    // The same attempt, with a lease that outlives the steps that follow.
    let second = cx.claim(&request).await?;
    assert!(second.token() > first.token());
    assert_eq!(second.attempts(), 1);
    let response = Response::new(200, "done");
    cx.store().complete(&second, &response, cx.short()).await?;
    cx.until_free(request.key()).await?;
    let again = cx.store().complete(&second, &response, HOUR).await;
    assert!(
        again.is_err_and(|error| error.is_claim_lost()),
        "purged or not"
    );
    Ok(())
}

async fn an_attempt_that_retries_its_own_failure_is_another_acquisition(
    cx: &Context,
) -> CaseResult {
    let request = cx.request(&cx.key("one"));
    let request = request.with_on_failed(FailedPolicy::Retry);
    let first = cx.claim(&request).await?;
    let failure = Failure::new("no", "no");
    cx.store().fail(&first, &failure, HOUR).await?;
    let second = cx.claim(&request).await?;
    assert!(second.token() > first.token());
    assert_eq!(second.attempts(), 2);
    Ok(())
}
