//! The loop that a lane runs while callers wait.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::batch::{Batch, Callers};
use super::queue::{Caller, Lane, Waiter};
use super::work::Work;
use crate::backend::LockedKeys;
use crate::{BatchStore, Effect, Error, ErrorKind, Key, Result};

/// Sends one batch after the other until no caller waits.
pub(super) async fn run<S: BatchStore, W: Work>(
    store: Arc<S>,
    locked: LockedKeys,
    mut lane: Lane<W>,
) {
    loop {
        let waiters = lane.take();
        if waiters.is_empty() {
            return;
        }
        let (batch, later) = Batch::new(waiters);
        lane.put_back(later);
        let (later, unclear) = ask(&*store, &locked, batch).await;
        lane.put_back(later);
        ask_alone(&store, &locked, unclear).await;
        // Callers that got their answers run first, and may send again at once: they are in the
        // next batch then.
        tokio::task::yield_now().await;
    }
}

/// A caller whose answer was an error of the batch, perhaps because of another caller's item.
struct Unclear<W: Work> {
    work: W,
    caller: Caller<W>,
    /// What the batch may have done.
    effect: Effect,
}

/// Sends the batch and answers its callers; returns those for a later batch, and those to send
/// alone.
async fn ask<S: BatchStore, W: Work>(
    store: &S,
    locked: &LockedKeys,
    batch: Batch<W>,
) -> (Vec<Waiter<W>>, Vec<Unclear<W>>) {
    let answers = match &batch.works[..] {
        [work] => vec![work.alone(store).await],
        works => W::many(store, works).await,
    };
    let was_alone = batch.works.len() == 1;
    let mut answers = answers.into_iter();
    let (mut later, mut unclear) = (Vec::new(), Vec::new());
    for (work, Callers { first, followers }) in batch.works.into_iter().zip(batch.callers) {
        match answers.next().unwrap_or_else(|| Err(unanswered())) {
            Ok(answer) if W::granted(&answer) => {
                first.answer(Ok(answer));
                later.extend(followers);
            }
            Ok(answer) => {
                for follower in followers {
                    follower.caller.answer(Ok(answer.clone()));
                }
                first.answer(Ok(answer));
            }
            Err(error) => {
                note(locked, work.key(), Some(&error));
                if was_alone || is_its_own(&error) {
                    first.answer(Err(error));
                } else {
                    unclear.push(Unclear {
                        work,
                        caller: first,
                        effect: error.effect(),
                    });
                }
                unclear.extend(followers.into_iter().map(never_sent));
            }
        }
    }
    (later, unclear)
}

fn never_sent<W: Work>(waiter: Waiter<W>) -> Unclear<W> {
    Unclear {
        work: waiter.work,
        caller: waiter.caller,
        effect: Effect::None,
    }
}

/// Remembers the key of an error that says that another caller holds it.
pub(super) fn note(locked: &LockedKeys, key: &Key, error: Option<&Error>) {
    if error.is_some_and(|error| error.kind() == ErrorKind::Contention) {
        locked.found_locked(key);
    }
}

/// Returns whether an error is about this caller's own item, whatever else is in the batch.
fn is_its_own(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidInput | ErrorKind::ClaimLost | ErrorKind::AlreadySealed
    )
}

fn unanswered() -> Error {
    Error::new(
        ErrorKind::Corrupt,
        Effect::Unknown,
        "the store has not answered each item of a batch",
    )
}

/// Sends each item by itself, so that no caller fails because of another. The lane waits for the
/// answers, so that a store in trouble does not get ever more of them. It does not wait for those
/// of locked keys, which may take long.
async fn ask_alone<S: BatchStore, W: Work>(
    store: &Arc<S>,
    locked: &LockedKeys,
    unclear: Vec<Unclear<W>>,
) {
    let mut asked = JoinSet::new();
    for one in unclear {
        let is_locked = locked.was_locked(one.work.key());
        let (store, locked) = (Arc::clone(store), locked.clone());
        let ask = async move {
            let answer = one.work.alone(&*store).await;
            note(&locked, one.work.key(), answer.as_ref().err());
            let answer = answer.map_err(|error| after(error, one.effect));
            one.caller.answer(answer);
        };
        match is_locked {
            true => drop(tokio::spawn(ask)),
            false => drop(asked.spawn(ask)),
        }
    }
    while asked.join_next().await.is_some() {}
}

/// Returns an error after an earlier one of this effect.
fn after(error: Error, earlier: Effect) -> Error {
    match earlier {
        Effect::None => error,
        Effect::Unknown => error.with_effect(Effect::Unknown),
    }
}

/// Returns the answer for a caller that gets none: the task that sent its item is gone.
pub(super) fn lost<T>(operation: &'static str, backend: &'static str) -> Result<T> {
    let error = Error::new(
        ErrorKind::Unavailable,
        Effect::Unknown,
        "the task that asked for this batch has ended before its answer; ask again",
    );
    Err(error.at(backend, operation))
}
