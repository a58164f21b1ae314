//! How a batch is sent, and its callers get their answers.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::work::Work;
use super::{Lanes, note};
use crate::backend::LockedKeys;
use crate::backend::batcher;
use crate::{BatchStore, Effect, Error, ErrorKind, Result};

type Waiter<W> = batcher::Waiter<W, Result<<W as Work>::Answer>>;
type Caller<W> = batcher::Caller<W, Result<<W as Work>::Answer>>;

/// Sends the items of these callers: together, and then each by itself whose answer was an error of
/// the batch.
pub(super) async fn send<S: BatchStore, W: Work>(
    store: Arc<S>,
    locked: LockedKeys,
    lanes: Arc<Lanes<W>>,
    waiters: Vec<Waiter<W>>,
) {
    let (batch, later) = Batch::new(waiters);
    lanes.put_back(later);
    let (later, unclear) = ask(&*store, &locked, batch).await;
    lanes.put_back(later);
    ask_alone(&store, &locked, unclear).await;
}

/// Items in the order of their keys, so that no two batches wait for each other's locks; no key
/// twice.
struct Batch<W: Work> {
    works: Vec<W>,
    /// The callers of each item.
    callers: Vec<Callers<W>>,
}

/// The callers of one item of a batch.
struct Callers<W: Work> {
    first: Caller<W>,
    /// Callers with an identical item. They get the answer of the first, except when it is for one
    /// caller only.
    followers: Vec<Waiter<W>>,
}

impl<W: Work> Batch<W> {
    /// Returns the batch, and the callers left out of it, because an earlier caller sends something
    /// else for the same key.
    fn new(mut waiters: Vec<Waiter<W>>) -> (Self, Vec<Waiter<W>>) {
        waiters.sort_by(|one, other| one.item.key().cmp(other.item.key()));
        let mut later = Vec::new();
        let mut batch = Self {
            works: Vec::with_capacity(waiters.len()),
            callers: Vec::with_capacity(waiters.len()),
        };
        for waiter in waiters {
            match (batch.works.last(), batch.callers.last_mut()) {
                (Some(work), Some(callers)) if work.key() == waiter.item.key() => {
                    if waiter.item.is_same(work) {
                        callers.followers.push(waiter);
                    } else {
                        later.push(waiter);
                    }
                }
                _ => {
                    batch.works.push(waiter.item);
                    batch.callers.push(Callers {
                        first: waiter.caller,
                        followers: Vec::new(),
                    });
                }
            }
        }
        (batch, later)
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
        work: waiter.item,
        caller: waiter.caller,
        effect: Effect::None,
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
