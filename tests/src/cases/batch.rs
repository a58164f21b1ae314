//! Batches: each item has its own answer, the same as the single operation's. Laws 1 to 6 and 11.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use idem_core::limits::MAX_BATCH;
use idem_core::{
    BatchStore, Claim, ClaimOutcome, ClaimRequest, ErrorKind, FailedPolicy, Failure, Finish,
    Response,
};
use rand::seq::SliceRandom;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseError, CaseResult, Context, expect, race};

cases! { LAW01, law 1:
    a_batch_acquires_a_key_once_however_often_it_is_in [Batch],
    racing_batches_have_one_winner_for_each_key [Batch],
}

cases! { LAW02, law 2:
    an_empty_batch_is_answered_with_nothing [Batch],
    a_batch_of_claims_is_answered_in_order [Batch],
    a_batch_of_claims_mixes_all_outcomes [Batch],
    a_large_batch_is_answered_in_full [Batch]: expensive,
}

cases! { LAW06, law 6:
    a_batch_of_claims_sent_twice_gets_its_claims_back [Batch],
    a_batch_of_completions_answers_each_by_itself [Batch],
    a_result_that_expires_at_once_is_not_lost_in_a_batch [Batch]: expensive,
    a_failure_that_is_retried_at_once_is_not_lost_in_a_batch [Batch]: expensive,
    a_batch_of_completions_sent_twice_succeeds_twice [Batch],
    a_batch_completes_fails_and_releases_as_single_steps_do [Batch],
    a_batch_of_failures_and_releases_answers_each_by_itself [Batch],
}

cases! { LAW11, law 11:
    a_bad_item_does_not_fail_its_neighbours [Batch],
    a_batch_that_is_too_long_is_refused [Batch]: expensive,
}

fn outcomes(answers: Vec<idem_core::Result<ClaimOutcome>>) -> CaseResult<Vec<ClaimOutcome>> {
    answers.into_iter().map(|answer| Ok(answer?)).collect()
}

fn completion(claim: &Claim, body: &str) -> Finish {
    Finish::Complete {
        claim: claim.clone(),
        response: Response::new(200, secret(body)),
        retention: LONG,
    }
}

async fn a_batch_acquires_a_key_once_however_often_it_is_in(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let (twice, once) = (cx.key("twice"), cx.key("once"));
    let requests = [&twice, &once, &twice, &twice].map(|key| cx.request(key));
    let answers = outcomes(store.claim_many(&requests).await)?;
    ensure_eq!(answers.len(), 4, "answers");
    let of_twice: Vec<_> = [0, 2, 3].map(|at| answers[at].clone()).into();
    let winner = crate::race::one_winner(&of_twice)?.clone();
    for answer in of_twice {
        if let ClaimOutcome::InFlight(loser) = answer {
            ensure_eq!(loser.info.token, winner.token(), "token told to a loser");
        }
    }
    store
        .complete(&winner, &Response::new(200, secret("x")), LONG)
        .await?;
    expect::acquired(answers[1].clone()).map(drop)
}

async fn racing_batches_have_one_winner_for_each_key(cx: &Context) -> CaseResult {
    const KEYS: usize = 12;
    const BATCHES: usize = 6;
    let start = Arc::new(Barrier::new(BATCHES));
    let mut tasks = JoinSet::new();
    for _ in 0..BATCHES {
        let mut order: Vec<_> = (0..KEYS).collect();
        order.shuffle(&mut cx.rng());
        let requests: Vec<_> = order
            .iter()
            .map(|at| cx.request(&cx.key(at.to_string())))
            .collect();
        let (store, start) = (cx.open_batch().await?, Arc::clone(&start));
        tasks.spawn(async move {
            let mut acquired = Vec::new();
            start.wait().await;
            for (at, answer) in order.into_iter().zip(store.claim_many(&requests).await) {
                let request = requests
                    .iter()
                    .find(|request| request.key().id() == at.to_string());
                let request = request.ok_or_else(|| CaseError::new("an answer too many"))?;
                let outcome = match answer {
                    // A repeated request returns what became of it.
                    Err(error) if error.kind() == ErrorKind::Contention => {
                        let again = std::sync::atomic::AtomicU64::new(0);
                        crate::race::ask(&again, || store.claim(request)).await?
                    }
                    answer => answer?,
                };
                acquired.extend(outcome.acquired().map(|_| at));
            }
            Ok::<_, CaseError>(acquired)
        });
    }
    let mut winners = vec![0; KEYS];
    for acquired in tasks.join_all().await {
        acquired?.into_iter().for_each(|at| winners[at] += 1);
    }
    ensure_eq!(winners, vec![1; KEYS], "winners of each key");
    Ok(())
}

async fn an_empty_batch_is_answered_with_nothing(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    ensure!(
        store.claim_many(&[]).await.is_empty(),
        "answers to no claim"
    );
    ensure!(
        store.finish_many(&[]).await.is_empty(),
        "answers to no completion"
    );
    Ok(())
}

async fn a_batch_of_claims_is_answered_in_order(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let mut ids: Vec<_> = (0..40).map(|at| format!("key {at}")).collect();
    ids.shuffle(&mut cx.rng());
    let requests: Vec<_> = ids.iter().map(|id| cx.request(&cx.key(id))).collect();
    let answers = outcomes(store.claim_many(&requests).await)?;
    ensure_eq!(answers.len(), requests.len(), "answers");
    for (request, answer) in requests.iter().zip(answers) {
        let claim = expect::acquired(answer)?;
        ensure_eq!(claim.key(), request.key(), "key");
        ensure_eq!(claim.attempt(), request.attempt(), "attempt");
        let record = expect::record(cx.store().get(request.key()).await?)?;
        ensure_eq!(record.info().token, claim.token(), "token");
        ensure_eq!(
            record.info().fingerprint,
            *request.fingerprint(),
            "fingerprint"
        );
    }
    Ok(())
}

async fn a_batch_of_claims_mixes_all_outcomes(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let [held, done, failed] = ["held", "done", "failed"].map(|id| cx.key(id));
    cx.hold(&cx.request(&held)).await?;
    let claim = cx.claim(&cx.request(&done)).await?;
    cx.store()
        .complete(&claim, &Response::new(200, secret("x")), LONG)
        .await?;
    let claim = cx.claim(&cx.request(&failed)).await?;
    cx.store()
        .fail(&claim, &Failure::new("code", secret("message")), LONG)
        .await?;
    let stale = cx.key("stale");
    cx.leave_stale(&cx.request(&stale)).await?;
    let requests = [
        cx.request(&held),
        cx.request(&cx.key("free")),
        cx.other_request(&done),
        cx.request(&done),
        cx.request(&failed),
        cx.request(&stale),
    ];
    let answers = outcomes(store.claim_many(&requests).await)?;
    let names: Vec<_> = answers.iter().map(ClaimOutcome::name).collect();
    let wanted = [
        "in_flight",
        "acquired",
        "conflict",
        "completed",
        "failed",
        "acquired",
    ];
    ensure_eq!(names, wanted, "outcomes");
    let replay = expect::completed(answers[3].clone())?;
    ensure_eq!(replay.response.body(), &secret("x"), "body");
    Ok(())
}

async fn a_large_batch_is_answered_in_full(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let requests: Vec<_> = (0..1000)
        .map(|at| cx.request(&cx.key(at.to_string())))
        .collect();
    let mut completions = Vec::new();
    for answer in outcomes(store.claim_many(&requests).await)? {
        completions.push(completion(&expect::acquired(answer)?, "x"));
    }
    ensure_eq!(completions.len(), 1000, "claims");
    let answers = store.finish_many(&completions).await;
    ensure_eq!(answers.len(), 1000, "completions");
    answers
        .into_iter()
        .collect::<idem_core::Result<Vec<()>>>()?;
    for answer in outcomes(store.claim_many(&requests).await)? {
        expect::completed(answer)?;
    }
    Ok(())
}

async fn a_batch_of_claims_sent_twice_gets_its_claims_back(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let requests: Vec<ClaimRequest> = (0..10)
        .map(|at| cx.request(&cx.key(at.to_string())))
        .collect();
    let first = outcomes(store.claim_many(&requests).await)?;
    let again = outcomes(cx.open_batch().await?.claim_many(&requests).await)?;
    for (first, again) in first.into_iter().zip(again) {
        let (first, again) = (expect::acquired(first)?, expect::acquired(again)?);
        ensure_eq!(again.token(), first.token(), "token");
        ensure_eq!(again.attempts(), 1, "attempts");
    }
    Ok(())
}

async fn a_batch_of_completions_answers_each_by_itself(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let open = cx.claim(&cx.request(&cx.key("open"))).await?;
    let done = cx.claim(&cx.request(&cx.key("done"))).await?;
    cx.store()
        .complete(&done, &Response::new(200, secret("x")), LONG)
        .await?;
    let gone = cx.claim(&cx.request(&cx.key("gone"))).await?;
    cx.store().release(&gone).await?;
    let late = cx.stale_claim(&cx.request(&cx.key("late"))).await?;
    let old = cx.stale_claim(&cx.request(&cx.key("taken over"))).await?;
    cx.hold(&cx.request(old.key())).await?;
    let answers = store
        .finish_many(&[
            completion(&gone, "x"),
            completion(&open, "1"),
            completion(&done, "y"),
            completion(&done, "x"),
            completion(&old, "x"),
            completion(&late, "2"),
        ])
        .await;
    let kinds: Vec<_> = answers
        .iter()
        .map(|answer| answer.as_ref().err().map(idem_core::Error::kind))
        .collect();
    let (lost, sealed) = (Some(ErrorKind::ClaimLost), Some(ErrorKind::AlreadySealed));
    ensure_eq!(kinds, [lost, None, sealed, None, lost, None], "answers");
    for (claim, body) in [(open, "1"), (done, "x"), (late, "2")] {
        let replay = expect::completed(cx.store().claim(&cx.request(claim.key())).await?)?;
        ensure_eq!(replay.response.body(), &secret(body), "body");
    }
    Ok(())
}

/// Returns a claim that is lost.
async fn released(cx: &Context, round: u32) -> CaseResult<Claim> {
    let key = cx.key(format!("gone-{round}"));
    let claim = cx.claim(&cx.request(&key)).await?;
    cx.store().release(&claim).await?;
    Ok(claim)
}

/// A store that sends the batch again because of the lost claim no longer finds the other's result.
async fn a_result_that_expires_at_once_is_not_lost_in_a_batch(cx: &Context) -> CaseResult {
    const ROUNDS: u32 = 60;
    let (store, purging) = (cx.open_batch().await?, cx.open().await?);
    let purges = async {
        let asked_again = AtomicU64::new(0);
        loop {
            race::ask(&asked_again, || purging.delete_expired(100)).await?;
            tokio::task::yield_now().await;
        }
    };
    let rounds = async {
        for round in 0..ROUNDS {
            let gone = released(cx, round).await?;
            let short = cx.request(&cx.key(format!("short-{round}")));
            let short = Finish::Complete {
                claim: cx.claim(&short).await?,
                response: Response::new(200, secret("x")),
                retention: Duration::from_micros(1),
            };
            let answers = ended(cx, &*store, &[completion(&gone, "x"), short]).await;
            ensure_eq!(answers, [Some(ErrorKind::ClaimLost), None], "round {round}");
        }
        Ok(())
    };
    tokio::select! {
        purged = purges => purged,
        done = rounds => done,
    }
}

/// A store that sends the batch again because of the lost claim finds another's claim in place of the
/// failure.
async fn a_failure_that_is_retried_at_once_is_not_lost_in_a_batch(cx: &Context) -> CaseResult {
    const ROUNDS: u32 = 60;
    let (store, retrying) = (cx.open_batch().await?, cx.open().await?);
    let key = |round: u32| cx.key(format!("declined-{round}"));
    let present = AtomicU32::new(ROUNDS);
    let retries = async {
        let asked_again = AtomicU64::new(0);
        loop {
            let key = key(present.load(Ordering::Relaxed));
            let retry = cx.request(&key).with_on_failed(FailedPolicy::Retry);
            let _ = race::ask(&asked_again, || retrying.claim(&retry)).await?;
            tokio::task::yield_now().await;
        }
    };
    let rounds = async {
        for round in 0..ROUNDS {
            let gone = released(cx, round).await?;
            let claim = cx.claim(&cx.request(&key(round))).await?;
            present.store(round, Ordering::Relaxed);
            let ends = [completion(&gone, "x"), failure(&claim, "declined")];
            let answers = ended(cx, &*store, &ends).await;
            ensure_eq!(answers, [Some(ErrorKind::ClaimLost), None], "round {round}");
        }
        Ok(())
    };
    tokio::select! {
        retried = retries => retried,
        done = rounds => done,
    }
}

async fn a_batch_of_completions_sent_twice_succeeds_twice(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let mut completions = Vec::new();
    for at in 0..10 {
        let claim = cx.claim(&cx.request(&cx.key(at.to_string()))).await?;
        completions.push(completion(&claim, &at.to_string()));
    }
    for _ in 0..2 {
        for answer in store.finish_many(&completions).await {
            answer?;
        }
    }
    completions.rotate_left(3);
    for answer in cx.open_batch().await?.finish_many(&completions).await {
        answer?;
    }
    Ok(())
}

fn failure(claim: &Claim, message: &str) -> Finish {
    Finish::Fail {
        claim: claim.clone(),
        failure: Failure::new("declined", secret(message)).with_details(secret("details")),
        retention: LONG,
    }
}

fn release(claim: &Claim) -> Finish {
    Finish::Release {
        claim: claim.clone(),
    }
}

fn kinds(answers: &[idem_core::Result<()>]) -> Vec<Option<ErrorKind>> {
    let kind = |answer: &idem_core::Result<()>| answer.as_ref().err().map(idem_core::Error::kind);
    answers.iter().map(kind).collect()
}

/// Ends claims in one batch, and once more each one whose record another caller has locked.
async fn ended(cx: &Context, store: &dyn BatchStore, ends: &[Finish]) -> Vec<Option<ErrorKind>> {
    let mut answers = store.finish_many(ends).await;
    for (answer, end) in answers.iter_mut().zip(ends) {
        if matches!(answer, Err(error) if error.kind() == ErrorKind::Contention) {
            let again = || async {
                store
                    .finish_many(std::slice::from_ref(end))
                    .await
                    .swap_remove(0)
            };
            *answer = race::ask(cx.asked_again(), again).await;
        }
    }
    kinds(&answers)
}

/// Ends each claim of one batch in another way, and of a second one by the single operations, and
/// compares what the store then returns.
async fn a_batch_completes_fails_and_releases_as_single_steps_do(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let mut claims = Vec::new();
    for at in 0..12 {
        claims.push(cx.claim(&cx.request(&cx.key(at.to_string()))).await?);
    }
    let ends = |claim: &Claim, at: usize| match at % 3 {
        0 => completion(claim, &at.to_string()),
        1 => failure(claim, &at.to_string()),
        _ => release(claim),
    };
    let items: Vec<_> = claims.iter().zip(0..).map(|(c, at)| ends(c, at)).collect();
    for _ in 0..2 {
        ensure_eq!(
            kinds(&store.finish_many(&items).await),
            [None; 12],
            "answers"
        );
    }
    for (claim, at) in claims.iter().zip(0_usize..) {
        let request = cx.request(claim.key());
        match (at % 3, cx.store().claim(&request).await?) {
            (0, ClaimOutcome::Completed(completed)) => {
                let body = secret(at.to_string());
                ensure_eq!(completed.response.body(), &body, "the body");
            }
            (1, ClaimOutcome::Failed(failed)) => {
                let message = secret(at.to_string());
                ensure_eq!(failed.failure.code(), "declined", "the code");
                ensure_eq!(failed.failure.message(), message, "the message");
                let details: &[u8] = failed.failure.details();
                ensure_eq!(details, secret("details").as_bytes(), "the details");
            }
            (2, ClaimOutcome::Acquired(next)) => {
                ensure!(next.token() > claim.token(), "a greater token");
            }
            (_, outcome) => {
                return Err(CaseError::new(format!(
                    "item {at} was answered {}",
                    outcome.name()
                )));
            }
        }
    }
    Ok(())
}

async fn a_batch_of_failures_and_releases_answers_each_by_itself(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let mut claims = Vec::new();
    for id in ["open", "free", "done", "gone"] {
        claims.push(cx.claim(&cx.request(&cx.key(id))).await?);
    }
    let [open, free, done, gone] = &claims[..] else {
        return Err(CaseError::new("four claims"));
    };
    let response = Response::new(200, secret("x"));
    cx.store().complete(done, &response, LONG).await?;
    let old = cx.stale_claim(&cx.request(&cx.key("taken over"))).await?;
    let held = cx.claim(&cx.request(old.key())).await?;
    // The last step: a claim of a new key may delete what remains of a released one.
    cx.store().release(gone).await?;
    let items = [
        failure(open, "1"),
        failure(done, "2"),
        release(done),
        release(free),
        failure(gone, "3"),
        release(gone),
        failure(&old, "4"),
        release(&old),
    ];
    let (lost, sealed) = (Some(ErrorKind::ClaimLost), Some(ErrorKind::AlreadySealed));
    ensure_eq!(
        kinds(&store.finish_many(&items).await),
        [None, sealed, lost, None, lost, None, lost, lost],
        "answers"
    );
    expect::completed(cx.store().claim(&cx.request(done.key())).await?)?;
    let record = expect::record(cx.store().get(old.key()).await?)?;
    ensure_eq!(record.info().token, held.token(), "the new holder's token");
    Ok(())
}

async fn a_bad_item_does_not_fail_its_neighbours(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let requests = [
        cx.request(&cx.key("before")),
        cx.request(&cx.key("bad")).with_lease(Duration::ZERO),
        cx.request(&cx.key("after")),
    ];
    let mut answers = store.claim_many(&requests).await;
    ensure_eq!(answers.len(), 3, "answers");
    let after = expect::acquired(answers.remove(2)?)?;
    expect::refused(answers.remove(1), ErrorKind::InvalidInput)?;
    let before = expect::acquired(answers.remove(0)?)?;
    let (claim, retention) = (before.clone(), Duration::ZERO);
    let bad_completion = Finish::Complete {
        claim: claim.clone(),
        response: Response::new(200, "x"),
        retention,
    };
    let bad_failure = Finish::Fail {
        claim,
        failure: Failure::new("declined", "x"),
        retention,
    };
    let items = [bad_completion, bad_failure, completion(&after, "x")];
    let mut answers = store.finish_many(&items).await;
    ensure_eq!(answers.len(), 3, "answers");
    answers.remove(2)?;
    for answer in answers {
        expect::refused(answer, ErrorKind::InvalidInput)?;
    }
    expect::in_flight(cx.store().claim(&cx.request(before.key())).await?)?;
    Ok(())
}

async fn a_batch_that_is_too_long_is_refused(cx: &Context) -> CaseResult {
    let store = cx.open_batch().await?;
    let many = MAX_BATCH as usize + 1;
    let request = cx.request(&cx.key("too many"));
    let answers = store.claim_many(&vec![request.clone(); many]).await;
    ensure_eq!(answers.len(), many, "answers");
    for answer in answers {
        expect::refused(answer, ErrorKind::InvalidInput)?;
    }
    ensure_eq!(
        cx.store().get(request.key()).await?,
        None,
        "nothing was written"
    );
    let claim = cx.claim(&request).await?;
    for answer in store
        .finish_many(&vec![completion(&claim, "x"); many])
        .await
    {
        expect::refused(answer, ErrorKind::InvalidInput)?;
    }
    expect::in_flight(cx.store().claim(&cx.request(claim.key())).await?)?;
    Ok(())
}
