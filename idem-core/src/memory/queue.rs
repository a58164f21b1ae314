//! A queue of instants at which a row has to be checked again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::row::UNQUEUED;
use crate::Timestamp;

/// Entries are never removed from the middle. A row remembers which of its entries counts; others
/// are dropped when they come up. An instant that moves later costs nothing until its entry comes
/// up and is put back.
///
/// Most entries come in order, as operations have the same lease and retention again and again:
/// they form one line for each such duration. Only an entry that fits in no line costs a search for
/// its position.
#[derive(Debug, Clone)]
pub(super) struct Queue<T> {
    lines: [VecDeque<(Timestamp, T)>; LINES],
    others: BinaryHeap<Reverse<(Timestamp, T)>>,
}

const LINES: usize = 4;

/// Below this size a queue is not worth rebuilding.
const FEW: usize = 64;

impl<T: Ord + Clone> Queue<T> {
    /// Adds an entry, except when `queued`, the entry that counts, comes up early enough.
    pub(super) fn schedule(&mut self, what: &T, due: Timestamp, queued: &mut Timestamp) {
        if due < *queued {
            self.put((due, what.clone()));
            *queued = due;
        }
    }

    /// Appends to the line whose last entry is the latest of those that are not later, or to a new
    /// line.
    fn put(&mut self, entry: (Timestamp, T)) {
        let last = |line: &VecDeque<(Timestamp, T)>| line.back().map(|(due, _)| *due);
        let fitting = self
            .lines
            .iter_mut()
            .filter(|line| last(line) <= Some(entry.0));
        match fitting.max_by_key(|line| last(line)) {
            Some(line) => line.push_back(entry),
            None => self.others.push(Reverse(entry)),
        }
    }

    /// Returns the next entry that has fallen due.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, T)> {
        let fronts = self.lines.iter_mut();
        let first = fronts
            .filter(|line| !line.is_empty())
            .min_by_key(|line| line.front().map(|(due, _)| *due));
        let of_line = first
            .as_ref()
            .and_then(|line| line.front())
            .map(|(due, _)| *due);
        let of_others = self.others.peek().map(|Reverse((due, _))| *due);
        match (first, of_line, of_others) {
            (Some(line), Some(due), other) if due <= now && other.is_none_or(|it| due <= it) => {
                line.pop_front()
            }
            (_, _, Some(due)) if due <= now => self.others.pop().map(|Reverse(entry)| entry),
            _ => None,
        }
    }

    /// Returns whether more than half of the entries cannot count, since each of `counting` rows
    /// has one that does.
    pub(super) fn is_mostly_spent(&self, counting: usize) -> bool {
        self.len() > FEW + 2 * counting
    }

    fn len(&self) -> usize {
        self.others.len() + self.lines.iter().map(VecDeque::len).sum::<usize>()
    }
}

impl<T: Ord> Default for Queue<T> {
    fn default() -> Self {
        Self {
            lines: std::array::from_fn(|_| VecDeque::new()),
            others: BinaryHeap::new(),
        }
    }
}

impl<T: Ord> FromIterator<(Timestamp, T)> for Queue<T> {
    fn from_iter<I: IntoIterator<Item = (Timestamp, T)>>(entries: I) -> Self {
        let counts = |(due, _): &(Timestamp, T)| *due < UNQUEUED;
        let mut entries: Vec<_> = entries.into_iter().filter(counts).collect();
        entries.sort_unstable();
        let mut queue = Self::default();
        queue.lines[0] = entries.into();
        queue
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    fn drained(queue: &mut Queue<u64>, now: i64) -> Vec<(Timestamp, u64)> {
        std::iter::from_fn(|| queue.pop_due(at(now))).collect()
    }

    proptest! {
        #[test]
        fn entries_come_up_in_order_and_none_before_it_is_due(
            first in prop::collection::vec(0i64..100, 0..60),
            second in prop::collection::vec(0i64..100, 0..60),
            now in 0i64..100,
        ) {
            let mut queue = Queue::default();
            let put = |queue: &mut Queue<u64>, dues: &[i64], from: usize| {
                for (number, due) in dues.iter().enumerate() {
                    queue.schedule(&((from + number) as u64), at(*due), &mut UNQUEUED.clone());
                }
            };
            put(&mut queue, &first, 0);
            let early = drained(&mut queue, now);
            prop_assert_eq!(early.len(), first.iter().filter(|due| **due <= now).count());
            prop_assert!(early.is_sorted_by_key(|(due, _)| *due));
            put(&mut queue, &second, first.len());
            let rest = drained(&mut queue, 100);
            prop_assert!(rest.is_sorted_by_key(|(due, _)| *due));
            let mut seen: Vec<_> = early.iter().chain(&rest).map(|(_, what)| *what).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..(first.len() + second.len()) as u64));
        }
    }

    #[test]
    fn entries_of_two_durations_each_in_order_stand_in_line() {
        let mut queue = Queue::default();
        for instant in 0..1000 {
            for duration in [30, 24 * 3600] {
                queue.schedule(&0, at(instant + duration), &mut UNQUEUED.clone());
            }
        }
        assert_eq!((queue.len(), queue.others.len()), (2000, 0));
    }

    #[test]
    fn a_rebuilt_queue_keeps_the_queued_entries() {
        let entries = [(at(3), 1), (UNQUEUED, 2), (at(1), 3)];
        let mut queue: Queue<u64> = entries.into_iter().collect();
        assert_eq!(drained(&mut queue, 10), [(at(1), 3), (at(3), 1)]);
        assert!(!queue.is_mostly_spent(0));
        for number in 0..=FEW as u64 {
            queue.schedule(&number, at(1), &mut UNQUEUED.clone());
        }
        assert!(queue.is_mostly_spent(0) && !queue.is_mostly_spent(1));
    }
}
