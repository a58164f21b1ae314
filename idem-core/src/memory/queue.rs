//! A queue of instants at which keys are to be looked at again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{Key, Timestamp};

/// Entries are never removed from the middle. A row remembers which entry counts; others are dropped when
/// they come up. An instant that moves later costs nothing until its entry comes up and is put back.
#[derive(Debug, Default)]
pub(super) struct Queue(BinaryHeap<Reverse<(Timestamp, Key)>>);

impl Queue {
    /// Puts the key in unless `queued`, the entry that counts, comes up early enough.
    pub(super) fn schedule(&mut self, key: &Key, due: Timestamp, queued: &mut Timestamp) {
        if due < *queued {
            self.0.push(Reverse((due, key.clone())));
            *queued = due;
        }
    }

    /// The next entry that has fallen due.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, Key)> {
        let Reverse((due, _)) = self.0.peek()?;
        if *due > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
