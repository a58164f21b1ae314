//! What batches of claims and of completions share: rounds, and what is asked for apart from them.

use idem_core::backend::{LockedKeys, TryTurn, Turn};
use idem_core::{Effect, Error, ErrorKind, Key, Result};

/// Most items, and about most bytes of results, that one statement takes; larger batches take several.
const MAX_ITEMS: usize = 1_000;
const MAX_BYTES: usize = 16 << 20;

/// So many items that are asked for by themselves are under way at a time.
pub(crate) const AT_A_TIME: usize = 8;

pub(crate) type KeyParts<'k> = (&'k str, &'k str, &'k str);

/// In the order of these, byte by byte as the server's collation "C" has it, are the keys of a statement, and so are
/// [`Key`]s: two batches never wait for each other in a circle.
pub(crate) fn parts(key: &Key) -> KeyParts<'_> {
    (key.scope(), key.operation(), key.id())
}

/// An item of a batch.
pub(crate) trait Item {
    fn key(&self) -> &Key;

    /// Its size, where that counts.
    fn bytes(&self) -> usize;
}

/// Sorts by key; of one key, what was named first stays first.
fn sort<I: Item>(items: &mut [I]) {
    items.sort_by(|one, other| one.key().cmp(other.key()));
}

/// The items that one statement takes: each key once, within the limits; the others are left in `pending`. Both are
/// sorted.
pub(crate) fn next_round<I: Item>(pending: &mut Vec<I>) -> Vec<I> {
    let mut round: Vec<I> = Vec::with_capacity(pending.len().min(MAX_ITEMS));
    let mut rest = Vec::new();
    let mut size = 0;
    for item in std::mem::take(pending) {
        let seen = round.last().is_some_and(|last| last.key() == item.key());
        let fits = round.len() < MAX_ITEMS && (size == 0 || size + item.bytes() <= MAX_BYTES);
        if seen || !fits {
            rest.push(item);
        } else {
            size += item.bytes();
            round.push(item);
        }
    }
    *pending = rest;
    round
}

/// One answer for each item, none of them yet.
pub(crate) fn unanswered<T>(items: usize) -> Vec<Option<Result<T>>> {
    std::iter::repeat_with(|| None).take(items).collect()
}

/// Items whose turn can be had at once, sorted, with their turns; and those that somebody else of this process holds or
/// asks for, which are asked for by themselves when the others are answered.
pub(crate) struct Split<I> {
    pub(crate) together: Vec<I>,
    pub(crate) apart: Vec<I>,
    pub(crate) turns: Vec<Turn>,
}

pub(crate) fn split<I: Item>(mut items: Vec<I>, locked: &LockedKeys) -> Split<I> {
    sort(&mut items);
    let mut split: Split<I> = Split {
        together: Vec::with_capacity(items.len()),
        apart: Vec::new(),
        turns: Vec::with_capacity(items.len()),
    };
    for item in items {
        let last = split.together.last();
        if last.is_some_and(|last| last.key() == item.key()) {
            split.together.push(item);
        } else if let TryTurn::Turn(turn) = locked.try_turn(item.key()) {
            split.turns.push(turn);
            split.together.push(item);
        } else {
            split.apart.push(item);
        }
    }
    split
}

/// Whether a statement has done nothing, perhaps because of one of its items: a key that is locked, or a record that is
/// damaged. Each is asked for by itself then.
pub(crate) fn may_be_anothers(error: &Error) -> bool {
    let kind = matches!(error.kind(), ErrorKind::Contention | ErrorKind::Corrupt);
    kind && error.effect() == Effect::None
}
