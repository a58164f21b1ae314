//! Law 1: of any number of concurrent claims of one live key exactly one is acquired.

use std::time::Duration;

use idem_core::{
    ClaimOutcome, ClaimRequest, FailedPolicy, Failure, IdempotencyStore, Record, Response,
};
use rand::seq::SliceRandom;

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::secrets::secret;
use crate::{CaseError, CaseResult, Context, expect, race};

cases! { law 1:
    concurrent_claims_of_one_key_have_one_winner,
    tasks_times_keys_have_one_winner_each,
    claims_for_different_requests_have_one_winner,
    a_race_for_an_expired_record_has_one_winner,
    a_race_for_a_stale_record_has_one_takeover,
    a_race_for_a_released_key_has_one_winner,
    a_race_to_retry_a_failure_has_one_winner,
    a_race_against_the_holders_release_has_one_winner,
    a_late_completion_and_a_takeover_do_not_both_succeed,
    pointers_to_a_store_are_that_store,
}

const RACERS: usize = 12;
const ROUNDS: usize = 5;

fn rivals(cx: &Context, key: &idem_core::Key) -> Vec<ClaimRequest> {
    (0..RACERS).map(|_| cx.request(key)).collect()
}

/// Races for the key, and proves the winner by its record.
async fn winner_of(cx: &Context, requests: Vec<ClaimRequest>) -> CaseResult<idem_core::Claim> {
    let outcomes = race::claims(cx, requests).await?;
    let winner = race::one_winner(&outcomes)?.clone();
    for outcome in &outcomes {
        match outcome {
            ClaimOutcome::Acquired(_) => {}
            ClaimOutcome::InFlight(loser) => {
                ensure_eq!(loser.info.token, winner.token(), "token told to a loser");
            }
            other => return Err(CaseError::new(format!("a loser got {}", other.name()))),
        }
    }
    let record = expect::record(cx.store().get(winner.key()).await?)?;
    ensure_eq!(record.info().token, winner.token(), "token of the record");
    Ok(winner)
}

async fn concurrent_claims_of_one_key_have_one_winner(cx: &Context) -> CaseResult {
    for round in 0..ROUNDS {
        let key = cx.key(format!("round {round}"));
        let winner = winner_of(cx, rivals(cx, &key)).await?;
        let body = round.to_string();
        let response = Response::new(200, body.clone());
        // A busy server may still end what the losers have begun.
        race::again(cx, || cx.store().complete(&winner, &response, LONG)).await?;
        let replay = expect::completed(cx.store().claim(&cx.request(&key)).await?)?;
        ensure_eq!(replay.response.body(), &body, "what the winner sealed");
    }
    Ok(())
}

async fn tasks_times_keys_have_one_winner_each(cx: &Context) -> CaseResult {
    const KEYS: usize = 16;
    let mut orders = Vec::new();
    for _ in 0..8 {
        let mut order: Vec<_> = (0..KEYS).collect();
        order.shuffle(&mut cx.rng());
        let requests = order
            .into_iter()
            .map(|at| (at, cx.request(&cx.key(at.to_string()))));
        orders.push(requests.collect::<Vec<_>>());
    }
    let wins = race::at_once(cx, orders, |store, asked, requests| async move {
        let mut wins = vec![0_u32; KEYS];
        for (at, request) in requests {
            let outcome = race::ask(&asked, || store.claim(&request)).await?;
            wins[at] += u32::from(matches!(outcome, ClaimOutcome::Acquired(_)));
        }
        Ok(wins)
    })
    .await?;
    for at in 0..KEYS {
        let winners: u32 = wins.iter().map(|wins| wins[at]).sum();
        ensure_eq!(winners, 1, "winners of key {at}");
    }
    Ok(())
}

async fn claims_for_different_requests_have_one_winner(cx: &Context) -> CaseResult {
    for round in 0..ROUNDS {
        let key = cx.key(format!("round {round}"));
        let request = |at| match at % 2 {
            0 => cx.request(&key),
            _ => cx.other_request(&key),
        };
        let requests: Vec<_> = (0..RACERS).map(request).collect();
        let outcomes = race::claims(cx, requests.clone()).await?;
        let winner = race::one_winner(&outcomes)?.clone();
        let won = requests
            .iter()
            .find(|request| request.attempt() == winner.attempt());
        let won = *won
            .ok_or_else(|| CaseError::new("a stranger won"))?
            .fingerprint();
        for (request, outcome) in requests.iter().zip(outcomes) {
            match outcome {
                ClaimOutcome::Acquired(_) => {}
                ClaimOutcome::InFlight(_) => ensure_eq!(*request.fingerprint(), won, "loser"),
                other => {
                    let info = expect::conflict(other)?.info;
                    ensure!(*request.fingerprint() != won, "a conflict with itself");
                    ensure_eq!(info.fingerprint, won, "fingerprint told in a conflict");
                }
            }
        }
    }
    Ok(())
}

async fn a_race_for_an_expired_record_has_one_winner(cx: &Context) -> CaseResult {
    for round in 0..ROUNDS {
        let key = cx.key(format!("round {round}"));
        let claim = cx.claim(&cx.request(&key)).await?;
        cx.store()
            .complete(&claim, &Response::new(200, secret("old")), cx.short())
            .await?;
        cx.until_free(&key).await?;
        let winner = winner_of(cx, rivals(cx, &key)).await?;
        ensure!(winner.token() > claim.token(), "the token has to grow");
    }
    Ok(())
}

async fn a_race_for_a_stale_record_has_one_takeover(cx: &Context) -> CaseResult {
    for round in 0..ROUNDS {
        let key = cx.key(format!("round {round}"));
        let claim = cx.stale_claim(&cx.request(&key)).await?;
        let winner = winner_of(cx, rivals(cx, &key)).await?;
        ensure!(winner.token() > claim.token(), "the token has to grow");
        ensure_eq!(winner.attempts(), 2, "one takeover");
    }
    Ok(())
}

async fn a_race_for_a_released_key_has_one_winner(cx: &Context) -> CaseResult {
    let key = cx.key("released again and again");
    let mut token = None;
    for _ in 0..ROUNDS {
        let winner = winner_of(cx, rivals(cx, &key)).await?;
        ensure!(Some(winner.token()) > token, "the token has to grow");
        token = Some(winner.token());
        race::again(cx, || cx.store().release(&winner)).await?;
    }
    Ok(())
}

async fn a_race_to_retry_a_failure_has_one_winner(cx: &Context) -> CaseResult {
    let key = cx.key("failed again and again");
    let mut claim = cx.claim(&cx.request(&key)).await?;
    for round in 0..ROUNDS {
        cx.store()
            .fail(&claim, &Failure::new("try.again", secret("failed")), LONG)
            .await?;
        let requests = rivals(cx, &key).into_iter();
        let retries = requests.map(|request| request.with_on_failed(FailedPolicy::Retry));
        claim = winner_of(cx, retries.collect()).await?;
        ensure_eq!(claim.attempts() as usize, round + 2, "attempts");
    }
    Ok(())
}

async fn a_race_against_the_holders_release_has_one_winner(cx: &Context) -> CaseResult {
    for round in 0..ROUNDS {
        let key = cx.key(format!("round {round}"));
        let held = cx.claim(&cx.request(&key)).await?;
        let mut moves: Vec<_> = rivals(cx, &key).into_iter().map(Ok).collect();
        moves.push(Err(held.clone()));
        let outcomes = race::at_once(cx, moves, |store, asked, step| async move {
            match step {
                Ok(request) => Ok(Some(race::ask(&asked, || store.claim(&request)).await?)),
                Err(held) => {
                    race::ask(&asked, || store.release(&held)).await?;
                    Ok(None)
                }
            }
        })
        .await?;
        let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        let acquired = |outcome: &&ClaimOutcome| matches!(outcome, ClaimOutcome::Acquired(_));
        let winners = outcomes.iter().filter(acquired).count();
        ensure!(winners <= 1, "{winners} winners after one release");
        let record = cx.store().get(&key).await?;
        ensure_eq!(record.is_some(), winners == 1, "a record, if anybody won");
    }
    Ok(())
}

async fn a_late_completion_and_a_takeover_do_not_both_succeed(cx: &Context) -> CaseResult {
    for round in 0..ROUNDS {
        let key = cx.key(format!("round {round}"));
        let late = cx.stale_claim(&cx.request(&key)).await?;
        let moves = vec![Ok(late), Err(cx.request(&key)), Err(cx.request(&key))];
        let won = race::at_once(cx, moves, |store, asked, step| async move {
            match step {
                Ok(late) => {
                    let response = Response::new(200, secret("late"));
                    let sealed = race::ask(&asked, || store.complete(&late, &response, LONG)).await;
                    Ok(u32::from(sealed.is_ok()))
                }
                Err(request) => {
                    let outcome = race::ask(&asked, || store.claim(&request)).await?;
                    Ok(u32::from(matches!(outcome, ClaimOutcome::Acquired(_))))
                }
            }
        })
        .await?;
        ensure_eq!(
            won.iter().sum::<u32>(),
            1,
            "completions and takeovers together"
        );
        let record = expect::record(cx.store().get(&key).await?)?;
        let completed = matches!(record, Record::Completed(_));
        ensure_eq!(completed, won[0] == 1, "what is stored is what was told");
    }
    Ok(())
}

async fn pointers_to_a_store_are_that_store(cx: &Context) -> CaseResult {
    let boxed: Box<dyn IdempotencyStore> = Box::new(cx.open().await?);
    let twice = std::sync::Arc::new(boxed);
    ensure_eq!(twice.backend(), cx.store().backend(), "name");
    ensure_eq!(twice.limits(), cx.store().limits(), "limits");
    let key = cx.key("through pointers");
    let claim = expect::acquired(twice.claim(&cx.request(&key)).await?)?;
    let claim = twice.renew(&claim, LONG + Duration::from_secs(1)).await?;
    expect::in_flight(cx.store().claim(&cx.request(&key)).await?)?;
    twice
        .fail(&claim, &Failure::new("code", secret("message")), LONG)
        .await?;
    expect::failed(twice.claim(&cx.request(&key)).await?)?;
    let retry = cx.request(&key).with_on_failed(FailedPolicy::Retry);
    let claim = expect::acquired(twice.claim(&retry).await?)?;
    twice.release(&claim).await?;
    ensure_eq!(twice.get(&key).await?, None, "after release");
    let claim = expect::acquired(twice.claim(&cx.request(&key)).await?)?;
    twice
        .complete(&claim, &Response::new(204, ""), LONG)
        .await?;
    expect::completed(cx.store().claim(&cx.request(&key)).await?)?;
    twice.delete_expired(10).await?;
    ensure_eq!(twice.fail_abandoned(10).await?, 0, "nothing to sweep");
    Ok(())
}
