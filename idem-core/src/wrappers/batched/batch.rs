//! [`Batch`]: the items of one call of the store.

use super::queue::{Caller, Waiter};
use super::work::Work;

/// Items in the order of their keys, so that no two batches wait for each other's locks; no key
/// twice.
pub(super) struct Batch<W: Work> {
    pub(super) works: Vec<W>,
    /// The callers of each item.
    pub(super) callers: Vec<Callers<W>>,
}

/// The callers of one item of a batch.
pub(super) struct Callers<W: Work> {
    pub(super) first: Caller<W>,
    /// Callers with an identical item. They get the answer of the first, except when it is for one
    /// caller only.
    pub(super) followers: Vec<Waiter<W>>,
}

impl<W: Work> Batch<W> {
    /// Returns the batch, and the callers left out of it, because an earlier caller sends something
    /// else for the same key.
    pub(super) fn new(mut waiters: Vec<Waiter<W>>) -> (Self, Vec<Waiter<W>>) {
        waiters.sort_by(|one, other| one.work.key().cmp(other.work.key()));
        let mut later = Vec::new();
        let mut batch = Self {
            works: Vec::with_capacity(waiters.len()),
            callers: Vec::with_capacity(waiters.len()),
        };
        for waiter in waiters {
            match (batch.works.last(), batch.callers.last_mut()) {
                (Some(work), Some(callers)) if work.key() == waiter.work.key() => {
                    if waiter.work.is_same(work) {
                        callers.followers.push(waiter);
                    } else {
                        later.push(waiter);
                    }
                }
                _ => batch.push(waiter),
            }
        }
        (batch, later)
    }

    fn push(&mut self, waiter: Waiter<W>) {
        self.works.push(waiter.work);
        self.callers.push(Callers {
            first: waiter.caller,
            followers: Vec::new(),
        });
    }
}
