//! Whether a claim reads first or inserts first.

use std::sync::Arc;
use std::time::Instant;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    AttemptId, BatchStore, ClaimOutcome, ClaimRequest, ErrorKind, FailedPolicy, Failure,
    IdempotencyStore, IdempotencyStoreExt, Record, Response, StalePolicy,
};
use idem_mysql::MySqlStore;
use sqlx::{AssertSqlSafe, Row};

use super::case;
use super::waits::{HOUR, RETRY_TIMEOUT, until};
use crate::support;

pub(super) const BOTH_ORDERS_GIVE_THE_SAME_VERDICTS: Case =
    case(1, "both_orders_give_the_same_verdicts", |cx| {
        Box::pin(both_orders_give_the_same_verdicts(cx))
    });
pub(super) const AN_INSERT_THAT_MET_A_LOCK_LEARNS_WHO_WON: Case =
    case(2, "an_insert_that_met_a_lock_learns_who_won", |cx| {
        Box::pin(an_insert_that_met_a_lock_learns_who_won(cx))
    });
pub(super) const WHAT_AN_INSERT_TELLS_IS_WHAT_IS_STORED: Case =
    case(1, "what_an_insert_tells_is_what_is_stored", |cx| {
        Box::pin(what_an_insert_tells_is_what_is_stored(cx))
    });
pub(super) const KEYS_CHANGE_HANDS_UNDER_INSERTS_THAT_COME_FIRST: Case =
    case(1, "keys_change_hands_under_inserts_that_come_first", |cx| {
        Box::pin(keys_change_hands_under_inserts_that_come_first(cx))
    });
pub(super) const A_DUPLICATE_DOES_NOT_WAIT_FOR_A_COMPLETING_TRANSACTION: Case = case(
    15,
    "a_duplicate_does_not_wait_for_a_completing_transaction",
    |cx| Box::pin(a_duplicate_does_not_wait_for_a_completing_transaction(cx)),
);
pub(super) const A_TRANSACTIONS_OWN_INSERT_ID_IS_LEFT_ALONE: Case =
    case(12, "a_transactions_own_insert_id_is_left_alone", |cx| {
        Box::pin(a_transactions_own_insert_id_is_left_alone(cx))
    });
pub(super) const A_CLOSED_POOL_CLOSES_THE_STORE: Case =
    case(14, "a_closed_pool_closes_the_store", |cx| {
        Box::pin(a_closed_pool_closes_the_store(cx))
    });

async fn with(cx: &Context, inserts_first: bool) -> CaseResult<MySqlStore> {
    let harness = support::harness(cx)?;
    Ok(harness
        .store_in_order(cx.namespace(), inserts_first)
        .await?)
}

/// Creates a claim for a key in each state, in this scope, with the state's name.
async fn every_state(cx: &Context, scope: &str) -> CaseResult<Vec<(&'static str, ClaimRequest)>> {
    let store = cx.store();
    let request = |id: &str| cx.request(&cx.key(format!("{scope}-{id}")));
    let again = |request: &ClaimRequest| request.clone().with_attempt(AttemptId::random());
    let fails = |request: &ClaimRequest| request.clone().with_on_stale(StalePolicy::Fail);
    let [done, failed, held, own] = ["done", "failed", "held", "own"].map(request);
    let claim = cx.claim(&done).await?;
    store
        .complete(&claim, &Response::new(200, "done"), HOUR)
        .await?;
    let claim = cx.claim(&failed).await?;
    store.fail(&claim, &Failure::new("no", "no"), HOUR).await?;
    cx.hold(&held).await?;
    cx.hold(&own).await?;
    let [released, stale, abandoned, closed, expired] =
        ["released", "stale", "abandoned", "closed", "expired"].map(request);
    let claim = cx.claim(&released).await?;
    store.release(&claim).await?;
    cx.leave_stale(&stale).await?;
    cx.leave_stale(&abandoned).await?;
    cx.leave_stale(&fails(&closed)).await?;
    let short = expired.with_lease(cx.short()).with_retention(cx.short());
    cx.hold(&short).await?;
    cx.until_free(short.key()).await?;
    Ok(vec![
        ("absent", request("absent")),
        ("completed", again(&done)),
        ("conflict", cx.other_request(done.key())),
        ("failed", again(&failed)),
        (
            "retried",
            again(&failed).with_on_failed(FailedPolicy::Retry),
        ),
        ("held", again(&held)),
        ("own", own),
        ("released", again(&released)),
        ("stale", again(&stale)),
        ("abandoned", fails(&again(&abandoned))),
        ("closed", again(&closed)),
        ("expired", again(&short).with_lease(HOUR)),
    ])
}

/// Returns the answer as text; for an acquisition, which one it is and whether it is the record's.
async fn returned(store: &MySqlStore, outcome: ClaimOutcome) -> CaseResult<String> {
    let name = outcome.name();
    let Some(claim) = outcome.acquired() else {
        return Ok(name.to_owned());
    };
    let Some(Record::InFlight(record)) = store.get(claim.key()).await? else {
        return Err("the claim is not in flight".into());
    };
    assert_eq!(record.info.token, claim.token());
    assert_eq!(record.lease_ends_at, claim.lease_ends_at());
    Ok(format!("{name} for the {} time", claim.attempts()))
}

async fn both_orders_give_the_same_verdicts(cx: &Context) -> CaseResult {
    let mut decisions = Vec::new();
    for order in ["read-first", "insert-first"] {
        let store = with(cx, order == "insert-first").await?;
        let mut single = Vec::new();
        for (state, request) in every_state(cx, &format!("{order}-single")).await? {
            single.push((state, returned(&store, store.claim(&request).await?).await?));
        }
        let mut batch = Vec::new();
        let states = every_state(cx, &format!("{order}-batch")).await?;
        // Two claims are for one key: the second is of the next round, as if they were made one by
        // one.
        let requests: Vec<_> = states.iter().map(|(_, request)| request.clone()).collect();
        for ((state, _), outcome) in states.iter().zip(store.claim_many(&requests).await) {
            batch.push((*state, returned(&store, outcome?).await?));
        }
        assert_eq!(single, batch, "{order}");
        let mut concurrent = Vec::new();
        let shared: Arc<dyn IdempotencyStore> = Arc::new(store.clone());
        for (state, request) in every_state(cx, &format!("{order}-concurrent")).await? {
            let outcome = cx.claim_in_a_crowd(&shared, &request).await?;
            concurrent.push((state, returned(&store, outcome).await?));
        }
        assert_eq!(single, concurrent, "{order}");
        decisions.push(single);
    }
    assert_eq!(decisions[0], decisions[1]);
    let acquired = decisions[0]
        .iter()
        .filter(|(_, returned)| returned.starts_with("acquired"));
    let acquired: Vec<_> = acquired.map(|(state, _)| *state).collect();
    let wanted = ["absent", "retried", "own", "released", "stale", "expired"];
    assert_eq!(acquired, wanted);
    Ok(())
}

/// One by one and as a batch, with another caller's row in its middle.
async fn an_insert_that_met_a_lock_learns_who_won(cx: &Context) -> CaseResult {
    let store = with(cx, true).await?;
    for (commits, batch) in [(true, false), (false, false), (true, true), (false, true)] {
        let ids = ["a", "b", "c"].map(|id| cx.key(format!("{id} {commits} {batch}")));
        let mut transaction = store.pool().begin().await?;
        let outcome = store
            .claim_in(&mut transaction, &cx.request(&ids[1]))
            .await?;
        let claim = outcome.acquired().expect("a fresh key");
        let keys = if batch { &ids[..] } else { &ids[1..2] };
        let requests: Vec<_> = keys.iter().map(|key| cx.request(key)).collect();
        let met = store.contention().lock_waits;
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { claimed_until_unlocked(&store, &requests).await }
        });
        until(|| store.contention().lock_waits > met).await?;
        let response = Response::new(200, "done");
        store
            .complete_in(&mut transaction, &claim, &response, HOUR)
            .await?;
        match commits {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        let middle = keys.len() / 2;
        for (position, outcome) in waiting.await?.into_iter().enumerate() {
            let wanted = match commits && position == middle {
                true => "completed",
                false => "acquired for the 1 time",
            };
            assert_eq!(returned(&store, outcome?).await?, wanted);
        }
    }
    Ok(())
}

/// Sends the claims, each repeated while another transaction has locked its key.
async fn claimed_until_unlocked(
    store: &MySqlStore,
    requests: &[ClaimRequest],
) -> Vec<idem_core::Result<ClaimOutcome>> {
    let mut answers = match requests {
        [one] => vec![store.claim(one).await],
        many => store.claim_many(many).await,
    };
    for (answer, request) in answers.iter_mut().zip(requests) {
        let is_locked = |error: &idem_core::Error| error.kind() == ErrorKind::Contention;
        if answer.as_ref().is_err_and(is_locked) {
            *answer = store.claim_retrying(request, RETRY_TIMEOUT).await;
        }
    }
    answers
}

/// The clock of the answer is the token: no statement read the record.
async fn what_an_insert_tells_is_what_is_stored(cx: &Context) -> CaseResult {
    let store = with(cx, true).await?;
    let request = cx.request(&cx.key("one")).with_lease(HOUR);
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let lease = claim.lease_ends_at().as_micros() - claim.token().as_i64();
    assert_eq!(i128::from(lease), HOUR.as_micros().cast_signed());
    let requests: Vec<_> = (0..70)
        .map(|number| cx.request(&cx.key(format!("{number}"))))
        .collect();
    for outcome in store.claim_many(&requests).await {
        assert_eq!(returned(&store, outcome?).await?, "acquired for the 1 time");
    }
    let renewed = store.renew(&claim, 2 * HOUR).await?;
    assert!(renewed.lease_ends_at() > claim.lease_ends_at());
    Ok(store
        .complete(&renewed, &Response::new(200, "done"), HOUR)
        .await?)
}

/// Between an insert that met a record and the read that follows, the record is released, claimed
/// again or deleted. Every acquisition has a greater token than all before, and the record that
/// proves it.
async fn keys_change_hands_under_inserts_that_come_first(cx: &Context) -> CaseResult {
    let (store, max_wait) = (with(cx, true).await?, cx.profile().max_wait());
    let key = cx.key("one");
    let callers = (0..8).map(|caller| {
        let (store, request) = (store.clone(), cx.request(&key));
        tokio::spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..40 {
                let request = request.clone().with_attempt(AttemptId::random());
                let request = [request];
                let deadline = Instant::now() + max_wait;
                let outcome = loop {
                    let claimed = match caller % 2 {
                        0 => store.claim(&request[0]).await,
                        _ => store.claim_many(&request).await.remove(0),
                    };
                    match claimed {
                        // As the error says: the same attempt asks again.
                        Err(error)
                            if error.kind() == ErrorKind::Contention
                                && Instant::now() < deadline => {}
                        claimed => break claimed?,
                    }
                };
                if let Some(claim) = outcome.acquired() {
                    tokens.push(claim.token());
                    store.release(&claim).await?;
                    store.delete_expired(10).await?;
                }
            }
            Ok::<_, idem_core::Error>(tokens)
        })
    });
    let mut all = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        let tokens = caller.await??;
        assert!(tokens.is_sorted(), "a later token of one caller is greater");
        all.extend(tokens);
    }
    assert!(!all.is_empty());
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "no two acquisitions have one token");
    Ok(())
}

/// The store expects fresh keys, so it inserts first, and would then wait for the row.
async fn a_duplicate_does_not_wait_for_a_completing_transaction(cx: &Context) -> CaseResult {
    let store = support::harness(cx)?.store(cx.namespace()).await?;
    for number in 0..64 {
        let _claim = store
            .claim(&cx.request(&cx.key(format!("{number}"))))
            .await?;
    }
    let request = cx.request(&cx.key("one"));
    let claim = store.claim(&request).await?.acquired().expect("fresh");
    let mut transaction = store.pool().begin().await?;
    let response = Response::new(200, "done");
    store
        .complete_in(&mut transaction, &claim, &response, HOUR)
        .await?;
    let duplicate = request.with_attempt(AttemptId::random());
    assert_eq!(store.claim(&duplicate).await?.name(), "in_flight");
    for outcome in store.claim_many(&[duplicate]).await {
        assert_eq!(outcome?.name(), "in_flight");
    }
    Ok(transaction.commit().await?)
}

async fn a_transactions_own_insert_id_is_left_alone(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let orders = format!("`{}`.orders", cx.namespace());
    harness
        .execute(format!(
            "CREATE TABLE {orders} (id BIGINT AUTO_INCREMENT PRIMARY KEY, what INT) AUTO_INCREMENT = 4711"
        ))
        .await?;
    let store = with(cx, true).await?;
    let mut transaction = store.pool().begin().await?;
    let insert = format!("INSERT INTO {orders} (what) VALUES (1)");
    sqlx::raw_sql(AssertSqlSafe(insert))
        .execute(&mut *transaction)
        .await?;
    let claimed = store
        .claim_in(&mut transaction, &cx.request(&cx.key("one")))
        .await?;
    assert_eq!(claimed.name(), "acquired");
    let row = sqlx::query("SELECT CAST(LAST_INSERT_ID() AS SIGNED)")
        .fetch_one(&mut *transaction)
        .await?;
    assert_eq!(row.try_get::<i64, _>(0)?, 4711);
    Ok(transaction.rollback().await?)
}

/// After its pool, or the store itself, is closed, the operations of a store return
/// `Misconfigured`.
async fn a_closed_pool_closes_the_store(cx: &Context) -> CaseResult {
    let closed = support::harness(cx)?.store(cx.namespace()).await?;
    let also = support::harness(cx)?.store(cx.namespace()).await?;
    let request = cx.request(&cx.key("one"));
    for store in [&closed, &also] {
        assert_eq!(store.get(request.key()).await?, None);
    }
    closed.pool().close().await;
    also.close().await;
    for store in [closed, also] {
        for error in [
            store.claim(&request).await.unwrap_err(),
            store.get(request.key()).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
        }
    }
    assert_eq!(cx.store().get(request.key()).await?, None);
    Ok(())
}
