//! Splits a batch into rounds. Each round takes every key once, and no two batches wait for each
//! other in a circle.

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use idem_core::backend::{FinalResult, LockedKeys, TryTurn, Turn, check};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Finish, Key, Limits, Result,
};

use crate::claim::ClaimParams;
use crate::operations::Operations;
use crate::parameters::Values;

/// An item of a batch.
pub trait Item {
    /// Returns its key.
    fn key(&self) -> &Key;

    /// Returns its size, where that counts.
    fn bytes(&self) -> usize {
        0
    }
}

/// The end of a claim in a batch, checked and in stored form.
#[derive(Debug)]
pub struct CheckedFinish<'c> {
    /// The claim.
    pub claim: &'c Claim,
    /// Its result in stored form.
    pub result: FinalResult,
}

impl<'c> CheckedFinish<'c> {
    /// Checks the item.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a response or a failure above the limits or a retention out of range.
    pub fn new(item: &'c Finish, limits: &Limits) -> Result<Self> {
        Ok(Self {
            result: FinalResult::new(item, limits)?,
            claim: item.claim(),
        })
    }
}

impl CheckedFinish<'_> {
    /// Returns the values of its statement.
    #[must_use]
    pub fn values(&self) -> Values<'_> {
        Values::of_claim(self.claim).with_result(&self.result)
    }
}

impl Item for CheckedFinish<'_> {
    fn key(&self) -> &Key {
        self.claim.key()
    }

    fn bytes(&self) -> usize {
        self.result.bytes().len()
    }
}

impl Item for ClaimParams<'_> {
    fn key(&self) -> &Key {
        self.request.key()
    }

    fn bytes(&self) -> usize {
        self.checked.metadata.as_ref().map_or(0, String::len)
    }
}

/// The limits of one statement.
#[derive(Debug, Clone, Copy)]
pub struct RoundLimits {
    /// The most items.
    pub items: usize,
    /// The bytes that the items may have together; a single item is sent whatever its size.
    pub bytes: usize,
    /// The bytes that an item takes beside its own.
    pub beside: fn(&Key) -> usize,
}

/// The items of one statement.
#[derive(Debug)]
pub struct Round<I> {
    positions: Vec<usize>,
    /// In the order of keys, each key once.
    pub items: Vec<I>,
}

/// A batch: the items that wait for a round, the items that are sent one by one, and the answers so
/// far.
#[derive(Debug)]
pub struct Batch<I, T> {
    answers: Vec<Option<Result<T>>>,
    pending: Vec<(usize, I)>,
    apart: Vec<(usize, I)>,
    turns: Vec<Turn>,
}

impl<I: Item, T> Batch<I, T> {
    /// Creates a batch of these items, each as `check` returns it. An item that `check` refuses has
    /// its answer.
    ///
    /// Rounds are in the order of keys, byte by byte, so two batches never wait for each other in a
    /// circle. Of the items with one key, the first of the batch comes first.
    pub fn new<'r, R>(items: &'r [R], check: impl Fn(&'r R) -> Result<I>) -> Self {
        let mut batch = Self {
            answers: std::iter::repeat_with(|| None).take(items.len()).collect(),
            pending: Vec::with_capacity(items.len()),
            apart: Vec::new(),
            turns: Vec::new(),
        };
        for (position, item) in items.iter().enumerate() {
            match check::batch_items(items.len()).and_then(|()| check(item)) {
                Ok(item) => batch.pending.push((position, item)),
                Err(error) => batch.answers[position] = Some(Err(error)),
            }
        }
        batch.sort();
        batch
    }

    fn sort(&mut self) {
        let order = |item: &(usize, I), other: &(usize, I)| {
            let keys = item.1.key().cmp(other.1.key());
            keys.then(item.0.cmp(&other.0))
        };
        self.pending.sort_unstable_by(order);
    }

    /// Returns the items that wait for a round.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &I> {
        self.pending.iter().map(|(_, item)| item)
    }

    /// Takes items out, with their positions. [`answer`](Self::answer) them, or
    /// [`put_back`](Self::put_back).
    pub fn take(&mut self, which: impl Fn(&I) -> bool) -> Vec<(usize, I)> {
        let pending = std::mem::take(&mut self.pending).into_iter();
        let (taken, pending) = pending.partition(|(_, item)| which(item));
        self.pending = pending;
        taken
    }

    /// Puts back items that were taken out.
    pub fn put_back(&mut self, items: Vec<(usize, I)>) {
        self.pending.extend(items);
        self.sort();
    }

    /// Takes the turns that are free now, and holds them until [`apart`](Self::apart). An item is
    /// set apart when another caller of this process waits for its key, or when its key is known to
    /// be locked.
    pub fn take_turns(&mut self, locked: &LockedKeys) {
        let mut together: Vec<(usize, I)> = Vec::with_capacity(self.pending.len());
        for item in std::mem::take(&mut self.pending) {
            let last = together.last();
            if last.is_some_and(|last| last.1.key() == item.1.key()) {
                together.push(item);
            } else if let TryTurn::Turn(turn) = locked.try_turn(item.1.key()) {
                self.turns.push(turn);
                together.push(item);
            } else {
                self.apart.push(item);
            }
        }
        self.pending = together;
    }

    /// Returns the items of the next statement: each key once, within the limits.
    pub fn next_round(&mut self, limits: RoundLimits) -> Option<Round<I>> {
        let (mut round, mut rest) = (Vec::new(), Vec::new());
        let mut size = 0;
        for item in std::mem::take(&mut self.pending) {
            let bytes = item.1.bytes() + (limits.beside)(item.1.key());
            let last: Option<&(usize, I)> = round.last();
            let is_seen = last.is_some_and(|last| last.1.key() == item.1.key());
            let fits = round.len() < limits.items && (size == 0 || size + bytes <= limits.bytes);
            if is_seen || !fits {
                rest.push(item);
            } else {
                size += bytes;
                round.push(item);
            }
        }
        self.pending = rest;
        let (positions, items): (Vec<_>, Vec<_>) = round.into_iter().unzip();
        (!items.is_empty()).then_some(Round { positions, items })
    }

    /// Takes the answers of a round; an item without one is set apart. So is the whole round when
    /// its statement failed in a way that `may_be_anothers`. Any other error is the answer of the
    /// round and of all pending items, and no further round is sent.
    pub fn settle(
        &mut self,
        round: Round<I>,
        answers: Result<Vec<Option<Result<T>>>>,
        may_be_anothers: impl Fn(&Error) -> bool,
    ) {
        let items = round.positions.into_iter().zip(round.items);
        match answers {
            Ok(answers) => {
                for ((position, item), answer) in items.zip(answers) {
                    match answer {
                        Some(answer) => self.answers[position] = Some(answer),
                        None => self.apart.push((position, item)),
                    }
                }
            }
            Err(error) if may_be_anothers(&error) => self.apart.extend(items),
            Err(error) => {
                let each = error.for_each_item();
                for (position, _) in items.chain(std::mem::take(&mut self.pending)) {
                    self.answers[position] = Some(Err(each()));
                }
            }
        }
    }

    /// Returns the items that are sent one by one, with their positions. The turns of the others
    /// end.
    pub fn apart(&mut self) -> Vec<(usize, I)> {
        self.turns.clear();
        std::mem::take(&mut self.apart)
    }

    /// Sets the answer of an item that was sent alone.
    pub fn answer(&mut self, position: usize, answer: Result<T>) {
        self.answers[position] = Some(answer);
    }

    /// Returns the answers, in the order of the items.
    #[must_use]
    pub fn answers(self) -> Vec<Result<T>> {
        self.answers.into_iter().flatten().collect()
    }
}

/// Batches, in rounds of one statement or a few. Items that a round leaves open are sent alone.
pub trait Batches: Operations {
    /// How many items are sent alone at a time, each on a connection of its own.
    const AT_A_TIME: usize;

    /// Returns the limits of a round.
    fn round_limits(
        &self,
        session: &mut Self::Session<'_>,
    ) -> impl Future<Output = RoundLimits> + Send;

    /// Returns the keys whose turns a batch takes at its beginning; `None` where each round takes
    /// its own.
    fn turns(&self) -> Option<&LockedKeys>;

    /// Returns whether the items of a round that failed with this error are sent alone.
    fn is_asked_singly(error: &Error) -> bool;

    /// Returns another session on the store's connections; `None` where items that are sent alone
    /// take the batch's.
    fn beside<'s>(session: &Self::Session<'s>) -> Option<Self::Session<'s>>;

    /// Answers the claims that a read of their records decides. Default: reads nothing.
    fn read_first(
        &self,
        _session: &mut Self::Session<'_>,
        _batch: &mut Batch<ClaimParams<'_>, ClaimOutcome>,
    ) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Sends the claims of a round. An answer is missing where the claim has to be sent alone: its
    /// row changed meanwhile, is locked, or has to be taken over or failed.
    fn claim_round(
        &self,
        session: &mut Self::Session<'_>,
        claims: &[ClaimParams<'_>],
    ) -> impl Future<Output = Result<Vec<Option<Result<ClaimOutcome>>>>> + Send;

    /// Sends the ends of a round; returns whether each claim has certainly ended.
    fn finish_round(
        &self,
        session: &mut Self::Session<'_>,
        items: &[CheckedFinish<'_>],
    ) -> impl Future<Output = Result<Vec<bool>>> + Send;

    /// Sends one claim.
    fn claim_alone(
        &self,
        session: &mut Self::Session<'_>,
        claim: &ClaimParams<'_>,
    ) -> impl Future<Output = Result<ClaimOutcome>> + Send;

    /// Claims each request; the answers are in their order.
    fn claim_many(
        &self,
        session: &mut Self::Session<'_>,
        requests: &[ClaimRequest],
    ) -> impl Future<Output = Vec<Result<ClaimOutcome>>> + Send {
        async move {
            let limits = self.limits();
            let mut batch = Batch::new(requests, |request| ClaimParams::new(request, &limits));
            self.read_first(session, &mut batch).await;
            if let Some(locked) = self.turns() {
                batch.take_turns(locked);
            }
            let limits = self.round_limits(session).await;
            while let Some(round) = batch.next_round(limits) {
                let answers = self.claim_round(session, &round.items).await;
                batch.settle(round, answers, Self::is_asked_singly);
            }
            let apart = batch.apart();
            let mut beside = Vec::new();
            for (position, claim) in &apart {
                match Self::beside(session) {
                    Some(mut own) => beside.push(Box::pin(async move {
                        (*position, self.claim_alone(&mut own, claim).await)
                    })),
                    None => batch.answer(*position, self.claim_alone(session, claim).await),
                }
            }
            let mut beside = iter(beside).buffer_unordered(Self::AT_A_TIME);
            while let Some((position, answer)) = beside.next().await {
                batch.answer(position, answer);
            }
            batch.answers()
        }
    }

    /// Completes, fails or releases each claim; the answers are in the order of the items. An end
    /// that is sent alone also succeeds where the claim has ended so before.
    fn finish_many(
        &self,
        session: &mut Self::Session<'_>,
        items: &[Finish],
    ) -> impl Future<Output = Vec<Result<()>>> + Send {
        async move {
            let limits = self.limits();
            let mut batch = Batch::new(items, |item| CheckedFinish::new(item, &limits));
            if let Some(locked) = self.turns() {
                batch.take_turns(locked);
            }
            let limits = self.round_limits(session).await;
            while let Some(round) = batch.next_round(limits) {
                let done = self.finish_round(session, &round.items).await;
                batch.settle(round, done.map(finished), Self::is_asked_singly);
            }
            let apart = batch.apart();
            let mut beside = Vec::new();
            for (position, item) in &apart {
                match Self::beside(session) {
                    Some(mut own) => beside.push(Box::pin(async move {
                        let ended = self.finish(&mut own, item.claim, &item.result).await;
                        (*position, ended)
                    })),
                    None => {
                        let ended = self.finish(session, item.claim, &item.result).await;
                        batch.answer(*position, ended);
                    }
                }
            }
            let mut beside = iter(beside).buffer_unordered(Self::AT_A_TIME);
            while let Some((position, answer)) = beside.next().await {
                batch.answer(position, answer);
            }
            batch.answers()
        }
    }
}

/// Returns whether a statement had no effect, perhaps because of one of its items: a locked key, or
/// a damaged record.
#[must_use]
pub fn may_be_anothers(error: &Error) -> bool {
    let kind = matches!(error.kind(), ErrorKind::Contention | ErrorKind::Corrupt);
    kind && error.effect() == Effect::None
}

/// Answers the items whose claim the statement has ended. The other ones are left to the single
/// operation, which knows whether a claim is lost or has ended before.
fn finished(finished: Vec<bool>) -> Vec<Option<Result<()>>> {
    let answer = |is_finished: bool| is_finished.then_some(Ok(()));
    finished.into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    struct Sized {
        key: Key,
        bytes: usize,
    }

    impl Item for Sized {
        fn key(&self) -> &Key {
            &self.key
        }

        fn bytes(&self) -> usize {
            self.bytes
        }
    }

    /// From the last to the first, each twice.
    fn batch(count: usize, bytes: usize) -> Batch<Sized, ()> {
        let ids: Vec<_> = (0..count).rev().flat_map(|id| [id, id]).collect();
        Batch::new(&ids, |id| {
            let key = Key::new("tenant", "pay", format!("{id:08}"))?;
            Ok(Sized { key, bytes })
        })
    }

    #[test]
    fn rounds_are_of_a_size_in_order_and_leave_nothing_out() {
        // A single item is sent whatever its size.
        for (items, bytes, each, largest) in [
            (1000, 1 << 20, 0, 300),
            (100, 1 << 20, 0, 100),
            (1000, 10 << 10, 134, 76),
            (1000, 10 << 10, 1 << 20, 1),
        ] {
            let mut batch = batch(300, each);
            let (mut sizes, mut seen) = (Vec::new(), HashSet::new());
            let limits = RoundLimits {
                items,
                bytes,
                beside: |key| key.id().len() - 8,
            };
            while let Some(round) = batch.next_round(limits) {
                let keys = round.items.iter().map(Item::key);
                assert!(keys.is_sorted_by(|one, other| one < other));
                assert!(round.positions.iter().all(|&at| seen.insert(at)), "twice");
                sizes.push(round.items.len());
                let answers = finished(vec![true; round.items.len()]);
                batch.settle(round, Ok(answers), may_be_anothers);
            }
            assert_eq!(seen.len(), 600);
            assert_eq!(sizes.into_iter().max(), Some(largest));
            assert_eq!(batch.answers().len(), 600);
        }
    }

    #[test]
    fn an_error_of_another_item_sets_a_round_apart_and_any_other_ends_the_batch() {
        let limits = RoundLimits {
            items: 10,
            bytes: 1,
            beside: |_| 0,
        };
        let mut apart = batch(2, 0);
        while let Some(round) = apart.next_round(limits) {
            apart.settle(round, Err(LockedKeys::error()), may_be_anothers);
        }
        assert_eq!(apart.apart().len(), 4);
        let mut failed = batch(2, 0);
        let round = failed.next_round(limits).unwrap();
        failed.settle(round, Err(Error::claim_lost()), may_be_anothers);
        assert!(failed.next_round(limits).is_none());
        let answers = failed.answers();
        assert!(answers.len() == 4 && answers.iter().all(Result::is_err));
    }
}
