//! Law 1 between processes: the oracle judges their histories.

use std::time::Duration;

use idem_core::Key;
use rand::RngExt;

use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::history::{Answer, Event, of_process};
use crate::worker::{Report, Step, Storm, Worker};
use crate::{CaseError, CaseResult, Context, expect, oracle};

cases! { law 1:
    racing_processes_have_one_winner_for_each_key [SharedBetweenProcesses],
    processes_that_release_fail_and_come_late_obey_the_oracle [SharedBetweenProcesses],
}

const PROCESSES: u32 = 4;

fn keys(cx: &Context, count: usize) -> Vec<Key> {
    (0..count)
        .map(|at| cx.key(format!("contended {at}")))
        .collect()
}

/// Starts the storms at the same moment. Returns the reports of all processes, with every broken
/// rule.
async fn race(cx: &Context, storm: impl Fn(u32) -> Storm) -> CaseResult<Vec<Event>> {
    let mut workers = Vec::new();
    for process in 0..PROCESSES {
        let steps = vec![Step::Wait, Step::Storm(storm(process))];
        workers.push(Worker::start(cx, steps).await?);
    }
    for worker in &mut workers {
        worker.until_ready().await?;
    }
    for worker in &mut workers {
        worker.go().await?;
    }
    let mut history = Vec::new();
    for returned in futures_util::future::join_all(workers.iter_mut().map(Worker::rest)).await {
        let returned = returned?;
        let finished = matches!(returned.last(), Some(Report::Finished));
        ensure!(finished, "a worker ended too early");
        history.extend(of_process(returned));
    }
    let violations = oracle::judge(&history, cx.profile().clock_tick());
    match violations.first() {
        None => Ok(history),
        Some(first) => Err(CaseError::new(format!(
            "{} violations, {first}",
            violations.len()
        ))),
    }
}

async fn racing_processes_have_one_winner_for_each_key(cx: &Context) -> CaseResult {
    let keys = keys(cx, 60);
    let seed: u64 = cx.rng().random();
    let history = race(cx, |process| Storm {
        process,
        keys: keys.clone(),
        claims: 120,
        seed: seed ^ u64::from(process),
        lease: LONG,
        retention: LONG,
        rough: false,
    })
    .await?;
    let acquired = |event: &&Event| matches!(event.answer, Answer::Acquired(_));
    let mut won: Vec<_> = history
        .iter()
        .filter(acquired)
        .map(|event| &event.call.key)
        .collect();
    let wins = won.len();
    won.sort();
    won.dedup();
    ensure_eq!(wins, won.len(), "acquisitions of so many keys");
    ensure_eq!(wins, keys.len(), "acquisitions");
    for key in &keys {
        let record = expect::record(cx.store().get(key).await?)?;
        ensure!(record.response().is_some(), "a key that nobody completed");
    }
    Ok(())
}

async fn processes_that_release_fail_and_come_late_obey_the_oracle(cx: &Context) -> CaseResult {
    const CLAIMS: u32 = 300;
    let keys = keys(cx, 12);
    let seed: u64 = cx.rng().random();
    let lease = cx.short().max(Duration::from_millis(40));
    let history = race(cx, |process| Storm {
        process,
        keys: keys.clone(),
        claims: CLAIMS,
        seed: seed ^ u64::from(process),
        lease,
        // Short, so that every key is won many times.
        retention: lease * 2,
        rough: true,
    })
    .await?;
    let won = history
        .iter()
        .filter(|event| matches!(event.answer, Answer::Acquired(_)));
    ensure!(won.count() >= keys.len(), "fewer acquisitions than keys");
    Ok(())
}
