//! What batches of claims and of completions share: rounds, and what a lost race costs.

use idem_core::{Error, ErrorKind, Key, Result};

use crate::session::Session;

/// Most items, and about most bytes of results, that one statement takes; larger batches take several.
const MAX_ITEMS: usize = 1_000;
const MAX_BYTES: usize = 16 << 20;

/// How often a batch is repeated after a deadlock, which completions that name the keys of a batch of claims
/// can run into.
const MAX_DEADLOCKS: u32 = 3;

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
pub(crate) fn sort<I: Item>(items: &mut [I]) {
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

/// Whether a statement that lost a race is sent again. In a caller's transaction it cannot be: the transaction
/// has failed.
pub(crate) fn repeats(session: &Session<'_>, error: &Error, deadlocks: &mut u32) -> bool {
    *deadlocks += 1;
    session.commits_each() && error.kind() == ErrorKind::Contention && *deadlocks <= MAX_DEADLOCKS
}
