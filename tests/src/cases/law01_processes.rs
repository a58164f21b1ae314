//! Law 1 between processes: the oracle judges their histories.

use std::path::PathBuf;
use std::time::Duration;

use idem_core::Key;
use rand::RngExt;

use super::histories::Histories;
use crate::case::cases;
use crate::context::LONG;
use crate::failure::{ensure, ensure_eq};
use crate::history::{Calls, Head, Seen};
use crate::spec::Answer;
use crate::worker::{Report, Step, Storm, Worker};
use crate::{CaseResult, Context, expect};

cases! { law 1:
    racing_processes_have_one_winner_for_each_key [SharedBetweenProcesses]: expensive,
    processes_that_release_fail_and_come_late_obey_the_oracle [SharedBetweenProcesses]: expensive,
}

const PROCESSES: u32 = 4;

fn keys(cx: &Context, count: usize) -> Vec<Key> {
    (0..count)
        .map(|at| cx.key(format!("contended {at}")))
        .collect()
}

/// Starts the storms at the same moment, which are made from the number of the process. Returns the
/// calls of all processes, which the oracle accepts.
async fn race(
    cx: &Context,
    seed: u64,
    storm: impl Fn(u32, PathBuf, Head) -> Storm,
) -> CaseResult<Calls> {
    let histories = Histories::new(cx, seed)?;
    let mut workers = Vec::new();
    for process in 0..PROCESSES {
        let (file, head) = histories.of(process);
        let steps = vec![Step::Wait, Step::Storm(storm(process, file, head))];
        workers.push(Worker::start(cx, steps).await?);
    }
    for worker in &mut workers {
        worker.until_ready().await?;
    }
    for worker in &mut workers {
        worker.go().await?;
    }
    for returned in futures_util::future::join_all(workers.iter_mut().map(Worker::rest)).await {
        let finished = matches!(returned?.last(), Some(Report::Finished));
        ensure!(finished, "a worker ended too early");
    }
    histories.judged()
}

/// Returns the hashes of the keys that were acquired, once for each acquisition.
fn acquisitions(calls: &Calls) -> Vec<&str> {
    let acquired = |seen: &&Seen| {
        let answer = seen.answer.as_ref().map(|answer| &answer.answer);
        matches!(answer, Some(Answer::Acquired { .. }))
    };
    let acquired = calls.seen.iter().filter(acquired);
    acquired.map(|seen| seen.invocation.k.as_str()).collect()
}

async fn racing_processes_have_one_winner_for_each_key(cx: &Context) -> CaseResult {
    let keys = keys(cx, 60);
    let seed: u64 = cx.rng().random();
    let calls = race(cx, seed, |process, history, head| Storm {
        process,
        history,
        head,
        keys: keys.clone(),
        claims: 120,
        seed: seed ^ u64::from(process),
        lease: LONG,
        retention: LONG,
        rough: false,
    })
    .await?;
    let mut won = acquisitions(&calls);
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
    let calls = race(cx, seed, |process, history, head| Storm {
        process,
        history,
        head,
        keys: keys.clone(),
        claims: CLAIMS,
        seed: seed ^ u64::from(process),
        lease,
        // Short, so that every key is won many times.
        retention: lease * 2,
        rough: true,
    })
    .await?;
    let won = acquisitions(&calls).len();
    ensure!(won >= keys.len(), "fewer acquisitions than keys");
    Ok(())
}
