//! A server forgets its scripts when it restarts, when another one takes over, and on
//! `SCRIPT FLUSH`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idem_conformance::{Case, CaseResult, Context};
use idem_core::{
    Advance, BatchStore, Checkpoint, CheckpointStore, Failure, Finish, IdempotencyStore, Record,
    Response, StalePolicy, WatermarkStore,
};
use idem_redis::redis;
use idem_redis::{RedisCache, RedisStore};

use super::{HOUR, case};
use crate::support::{self, RedisHarness};

pub(super) const EVERY_OPERATION_WORKS_ON_A_SERVER_THAT_FORGOT_ITS_SCRIPTS: Case = case(
    12,
    "every_operation_works_on_a_server_that_forgot_its_scripts",
    |cx| {
        Box::pin(every_operation_works_on_a_server_that_forgot_its_scripts(
            cx,
        ))
    },
);
pub(super) const BATCHES_WORK_ON_A_SERVER_THAT_FORGOT_ITS_SCRIPTS: Case = case(
    12,
    "batches_work_on_a_server_that_forgot_its_scripts",
    |cx| Box::pin(batches_work_on_a_server_that_forgot_its_scripts(cx)),
);
pub(super) const SCRIPTS_FORGOTTEN_IN_A_RACE_LEAVE_ONE_WINNER: Case =
    case(1, "scripts_forgotten_in_a_race_leave_one_winner", |cx| {
        Box::pin(scripts_forgotten_in_a_race_leave_one_winner(cx))
    });
pub(super) const A_CACHE_WORKS_ON_A_SERVER_THAT_FORGOT_ITS_SCRIPTS: Case = case(
    12,
    "a_cache_works_on_a_server_that_forgot_its_scripts",
    |cx| Box::pin(a_cache_works_on_a_server_that_forgot_its_scripts(cx)),
);

async fn forget(harness: &RedisHarness) -> CaseResult {
    let mut flush = redis::cmd("SCRIPT");
    flush.arg("FLUSH");
    Ok(harness.query_everywhere(&flush).await?)
}

async fn every_operation_works_on_a_server_that_forgot_its_scripts(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let [one, two, three] = ["one", "two", "three"].map(|id| cx.request(&cx.key(id)));
    forget(&harness).await?;
    let claim = store.claim(&one).await?.acquired().expect("fresh");
    forget(&harness).await?;
    let claim = store.renew(&claim, 2 * HOUR).await?;
    forget(&harness).await?;
    let point = Checkpoint::new("half way", &b"there"[..])?;
    store.checkpoint(&claim, &point).await?;
    forget(&harness).await?;
    assert_eq!(store.last_checkpoint(&claim).await?, Some(point));
    forget(&harness).await?;
    let advanced = store.advance(one.key(), 1, HOUR).await?;
    assert_eq!(advanced, Advance::Advanced);
    forget(&harness).await?;
    let response = Response::new(200, "done");
    store.complete(&claim, &response, HOUR).await?;
    forget(&harness).await?;
    let Some(Record::Completed(record)) = store.get(one.key()).await? else {
        return Err("not completed".into());
    };
    assert_eq!(record.response, response);
    forget(&harness).await?;
    assert_eq!(
        store.claim(&cx.request(one.key())).await?.name(),
        "completed"
    );
    let failing = cx.claim(&two).await?;
    forget(&harness).await?;
    store
        .fail(&failing, &Failure::new("declined", "no"), HOUR)
        .await?;
    let released = cx.claim(&three).await?;
    forget(&harness).await?;
    store.release(&released).await?;
    cx.leave_stale(&cx.request(three.key()).with_on_stale(StalePolicy::Fail))
        .await?;
    forget(&harness).await?;
    assert_eq!(store.fail_abandoned(10).await?, 1);
    Ok(())
}

async fn batches_work_on_a_server_that_forgot_its_scripts(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let mut requests: Vec<_> = (0..40)
        .map(|number| cx.request(&cx.key(format!("{number}"))))
        .collect();
    // Of two claims of one key one wins, also when the script has to be sent first.
    requests.push(cx.request(requests[0].key()));
    forget(&harness).await?;
    let outcomes = store.claim_many(&requests).await;
    let mut completions = Vec::new();
    for (place, outcome) in outcomes.into_iter().enumerate() {
        let Some(claim) = outcome?.acquired() else {
            continue;
        };
        completions.push(Finish::Complete {
            claim,
            response: Response::new(200, format!("answer {place}")),
            retention: HOUR,
        });
    }
    assert_eq!(completions.len(), 40, "acquired");
    forget(&harness).await?;
    for done in store.finish_many(&completions).await {
        done?;
    }
    for completion in &completions {
        let Some(Record::Completed(record)) = store.get(completion.claim().key()).await? else {
            return Err("not completed".into());
        };
        assert!(
            matches!(completion, Finish::Complete { response, .. } if *response == record.response)
        );
    }
    Ok(())
}

async fn scripts_forgotten_in_a_race_leave_one_winner(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let store = harness.store(cx.namespace()).await?;
    let over = Arc::new(AtomicBool::new(false));
    let flushing = tokio::spawn({
        let (harness, over) = (support::harness(cx)?, Arc::clone(&over));
        async move {
            while !over.load(Ordering::SeqCst) {
                forget(&harness).await?;
            }
            CaseResult::Ok(())
        }
    });
    for round in 0..30 {
        let requests = (0..16).map(|_| cx.request(&cx.key(format!("{round}"))));
        let racing: Vec<_> = requests.map(|request| claimed(&store, request)).collect();
        let mut winners = 0;
        for racer in racing {
            winners += u32::from(racer.await??);
        }
        assert_eq!(winners, 1, "winners in round {round}");
    }
    over.store(true, Ordering::SeqCst);
    flushing.await?
}

fn claimed(
    store: &RedisStore,
    request: idem_core::ClaimRequest,
) -> tokio::task::JoinHandle<idem_core::Result<bool>> {
    let store = store.clone();
    tokio::spawn(async move { Ok(store.claim(&request).await?.acquired().is_some()) })
}

async fn a_cache_works_on_a_server_that_forgot_its_scripts(cx: &Context) -> CaseResult {
    let harness = support::harness(cx)?;
    let (cache, key): (RedisCache, _) = (harness.cache(cx.namespace())?, cx.key("one"));
    forget(&harness).await?;
    let ticket = cache.read(&key).await?.ticket;
    forget(&harness).await?;
    assert!(cache.store(&key, &ticket, b"\x00\xff", HOUR).await?);
    forget(&harness).await?;
    let hit = cache.read(&key).await?.hit.expect("stored");
    assert_eq!(&hit.entry[..], b"\x00\xff");
    assert!(hit.remaining <= HOUR && hit.remaining + hit.age >= HOUR - Duration::from_millis(1));
    forget(&harness).await?;
    cache.invalidate(&key).await?;
    assert!(cache.read(&key).await?.hit.is_none());
    Ok(())
}
