//! Law 12: a worker killed anywhere leaves a key that is free after its lease.

use std::time::Duration;

use idem_core::{ClaimOutcome, ClaimRequest, Key, Record, Response};
use rand::RngExt;

use super::histories::Histories;
use crate::case::cases;
use crate::context::LONG;
use crate::eventually::eventually;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::worker::{Report, Step, Storm, Worker};
use crate::{CaseError, CaseResult, Context, expect};

cases! { law 12:
    killed_before_its_claim_it_leaves_the_key_free [SharedBetweenProcesses],
    killed_after_its_claim_it_leaves_the_key_free_after_the_lease [SharedBetweenProcesses],
    killed_while_renewing_it_leaves_the_key_free_after_the_lease [SharedBetweenProcesses],
    killed_with_a_long_lease_it_keeps_the_key_until_then [SharedBetweenProcesses],
    killed_anywhere_it_leaves_every_key_done_or_claimable [SharedBetweenProcesses]: expensive,
    killed_in_a_storm_it_breaks_no_rule [SharedBetweenProcesses]: expensive,
    what_a_killed_process_completed_is_there [SharedBetweenProcesses, Durable],
    what_a_killed_process_completed_is_there_for_the_next [OneProcessAtATime, Durable],
    killed_while_completing_it_leaves_all_or_nothing [SharedBetweenProcesses, Durable]: expensive,
    what_was_completed_is_there_after_reopening [Durable],
    a_claim_is_there_after_reopening [Durable],
}

/// Waits until another attempt acquires the key.
async fn becomes_claimable(cx: &Context, key: &Key) -> CaseResult<idem_core::Claim> {
    let rival = cx.request(key);
    let ask = || async { Ok(cx.store().claim(&rival).await?.acquired()) };
    eventually(cx.profile().max_wait(), "the key is free", ask).await
}

async fn claimed(worker: &mut Worker) -> CaseResult<idem_core::Claim> {
    match worker.report().await? {
        Report::Claimed(outcome) => expect::acquired(outcome),
        other => Err(CaseError::new(format!("no outcome, but {other:?}"))),
    }
}

async fn killed_before_its_claim_it_leaves_the_key_free(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("never"));
    let mut worker = Worker::start(cx, vec![Step::Wait, Step::Claim(request.clone())]).await?;
    worker.until_ready().await?;
    worker.kill().await?;
    ensure_eq!(cx.store().get(request.key()).await?, None, "get");
    cx.hold(&cx.request(request.key())).await
}

async fn killed_after_its_claim_it_leaves_the_key_free_after_the_lease(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("abandoned")).with_lease(cx.short());
    let mut worker = Worker::start(cx, vec![Step::Claim(request.clone()), Step::Hang]).await?;
    let claim = claimed(&mut worker).await?;
    worker.kill().await?;
    let next = becomes_claimable(cx, request.key()).await?;
    ensure!(next.token() > claim.token(), "the token has to grow");
    ensure_eq!(next.attempts(), 2, "attempts");
    Ok(())
}

async fn killed_while_renewing_it_leaves_the_key_free_after_the_lease(cx: &Context) -> CaseResult {
    let lease = cx.short();
    let request = cx.request(&cx.key("renewed")).with_lease(lease);
    let steps = vec![Step::Claim(request.clone()), Step::RenewForEver { lease }];
    let mut worker = Worker::start(cx, steps).await?;
    let claim = claimed(&mut worker).await?;
    for _ in 0..20 {
        let report = worker.report().await?;
        ensure!(
            matches!(report, Report::Done),
            "not renewed, but {report:?}"
        );
    }
    worker.kill().await?;
    let next = becomes_claimable(cx, request.key()).await?;
    ensure!(next.token() > claim.token(), "the token has to grow");
    Ok(())
}

async fn killed_with_a_long_lease_it_keeps_the_key_until_then(cx: &Context) -> CaseResult {
    let request = cx.request(&cx.key("long"));
    let mut worker = Worker::start(cx, vec![Step::Claim(request.clone()), Step::Hang]).await?;
    let claim = claimed(&mut worker).await?;
    worker.kill().await?;
    let loser = expect::in_flight(cx.store().claim(&cx.request(request.key())).await?)?;
    ensure_eq!(loser.info.token, claim.token(), "token");
    // The store recognizes the attempt from any process.
    let again = expect::acquired(cx.store().claim(&request).await?)?;
    ensure_eq!(again.token(), claim.token(), "token of the same attempt");
    cx.store()
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}

fn requests(cx: &Context, count: usize, lease: Duration) -> Vec<ClaimRequest> {
    let key = |at| cx.key(format!("key {at}"));
    (0..count)
        .map(|at| cx.request(&key(at)).with_lease(lease))
        .collect()
}

/// Kills a worker at a random moment of its completions. Returns how many it had reported.
async fn killed_at_random(cx: &Context, steps: Vec<Step>) -> CaseResult<usize> {
    let mut worker = Worker::start(cx, [vec![Step::Wait], steps].concat()).await?;
    worker.until_ready().await?;
    worker.go().await?;
    let moment = cx.rng().random_range(0..60_000);
    worker.report().await?;
    tokio::time::sleep(Duration::from_micros(moment)).await;
    worker.kill().await?;
    let returned = worker.rest().await?;
    Ok(returned
        .iter()
        .filter(|report| matches!(report, Report::Done))
        .count())
}

async fn killed_anywhere_it_leaves_every_key_done_or_claimable(cx: &Context) -> CaseResult {
    let requests = requests(cx, 400, cx.short());
    let step = Step::CompleteEach {
        requests: requests.clone(),
        body_bytes: 10,
        retention: LONG,
    };
    killed_at_random(cx, vec![step]).await?;
    let mut open = 0;
    for request in &requests {
        match cx.store().claim(&cx.request(request.key())).await? {
            ClaimOutcome::Completed(_) | ClaimOutcome::Acquired(_) => {}
            ClaimOutcome::InFlight(_) => {
                open += 1;
                // The worker may have sent its completion, which may commit after the kill.
                let settled = || async { Ok(settles(cx, request.key()).await?.then_some(())) };
                let limit = cx.profile().max_wait();
                eventually(limit, "the key is done or free", settled).await?;
            }
            other => return Err(CaseError::new(format!("got {}", other.name()))),
        }
    }
    ensure!(open <= 1, "{open} keys were held by one worker");
    Ok(())
}

async fn killed_in_a_storm_it_breaks_no_rule(cx: &Context) -> CaseResult {
    let keys: Vec<_> = (0..8).map(|at| cx.key(format!("contended {at}"))).collect();
    let mut rng = cx.rng();
    let seed: u64 = rng.random();
    let mut workers = Vec::new();
    let histories = Histories::new(cx, seed)?;
    for process in 0..4 {
        let (history, head) = histories.of(process);
        let storm = Storm {
            process,
            history,
            head,
            keys: keys.clone(),
            claims: 60,
            seed: seed ^ u64::from(process),
            lease: cx.short(),
            retention: LONG,
            rough: true,
        };
        workers.push(Worker::start(cx, vec![Step::Wait, Step::Storm(storm)]).await?);
    }
    for worker in &mut workers {
        worker.until_ready().await?;
    }
    for worker in &mut workers {
        worker.go().await?;
    }
    for worker in workers.iter_mut().take(2) {
        tokio::time::sleep(Duration::from_millis(rng.random_range(5..80))).await;
        worker.kill().await?;
    }
    for returned in futures_util::future::join_all(workers.iter_mut().map(Worker::rest)).await {
        returned?;
    }
    histories.judged()?;
    for key in &keys {
        let settled = || async { Ok(settles(cx, key).await?.then_some(())) };
        eventually(cx.profile().max_wait(), "the key is done or free", settled).await?;
    }
    Ok(())
}

async fn settles(cx: &Context, key: &Key) -> CaseResult<bool> {
    let outcome = cx.store().claim(&cx.request(key)).await?;
    Ok(!matches!(outcome, ClaimOutcome::InFlight(_)))
}

/// Returns whether the record has the response for the worker's request with this number; fails for
/// any other.
fn is_sealed(record: Option<Record>, at: usize, body_bytes: usize) -> CaseResult<bool> {
    let Some(Record::Completed(completed)) = record else {
        return Ok(false);
    };
    let body = vec![u8::try_from(at % 256)?; body_bytes];
    ensure!(
        completed.response == Response::new(200, body),
        "half of response {at}"
    );
    Ok(true)
}

async fn what_a_killed_process_completed_is_there(cx: &Context) -> CaseResult {
    completions_survive(cx, cx.namespace()).await
}

/// Nobody else has the namespace open meanwhile, and nothing but its storage outlives the worker.
async fn what_a_killed_process_completed_is_there_for_the_next(cx: &Context) -> CaseResult {
    let namespace = cx.harness().create().await?;
    let survived = completions_survive(cx, &namespace).await;
    let destroyed = cx.harness().destroy(&namespace).await;
    survived.and(destroyed.map_err(CaseError::from))
}

async fn completions_survive(cx: &Context, namespace: &str) -> CaseResult {
    let requests = requests(cx, 20, LONG);
    let step = Step::CompleteEach {
        requests: requests.clone(),
        body_bytes: 100,
        retention: LONG,
    };
    let mut worker = Worker::start_in(cx, namespace, vec![step, Step::Hang]).await?;
    let mut returned = 0;
    while returned < requests.len() {
        returned += usize::from(matches!(worker.report().await?, Report::Done));
    }
    worker.kill().await?;
    let store = cx.watching(cx.harness().open(namespace).await?);
    for (at, request) in requests.iter().enumerate() {
        let sealed = is_sealed(store.get(request.key()).await?, at, 100)?;
        ensure!(sealed, "completion {at} was acknowledged and is gone");
    }
    Ok(())
}

async fn killed_while_completing_it_leaves_all_or_nothing(cx: &Context) -> CaseResult {
    const ROUNDS: usize = 3;
    let requests = requests(cx, 300 * ROUNDS, LONG);
    for round in requests.chunks(300) {
        let step = Step::CompleteEach {
            requests: round.to_vec(),
            body_bytes: 5000,
            retention: LONG,
        };
        let returned = killed_at_random(cx, vec![step]).await?;
        let mut sealed = 0;
        for (at, request) in round.iter().enumerate() {
            let record = cx.store().get(request.key()).await?;
            let is_there = is_sealed(record, at, 5000)?;
            ensure!(
                is_there || at >= returned,
                "completion {at} was acknowledged and is gone"
            );
            sealed += usize::from(is_there);
        }
        ensure!(
            sealed <= returned + 1,
            "{sealed} are sealed, {returned} were acknowledged"
        );
    }
    Ok(())
}

async fn what_was_completed_is_there_after_reopening(cx: &Context) -> CaseResult {
    let store = cx.open().await?;
    let request = cx.request(&cx.key("done"));
    let claim = expect::acquired(store.claim(&request).await?)?;
    let response = Response::new(200, secret("kept")).with_header("a", "b");
    store.complete(&claim, &response, LONG).await?;
    drop(store);
    let replay = expect::completed(cx.open().await?.claim(&cx.request(request.key())).await?)?;
    ensure_eq!(replay.response, response, "response");
    ensure_eq!(replay.info.token, claim.token(), "token");
    Ok(())
}

async fn a_claim_is_there_after_reopening(cx: &Context) -> CaseResult {
    let store = cx.open().await?;
    let claim = expect::acquired(store.claim(&cx.request(&cx.key("held"))).await?)?;
    drop(store);
    let store = cx.open().await?;
    expect::in_flight(store.claim(&cx.request(claim.key())).await?)?;
    let claim = store.renew(&claim, LONG * 2).await?;
    store
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    Ok(())
}
