//! Many claims or completions at once.
//!
//! For operations whose claims mostly meet a record, one command reads all keys of a batch, so
//! duplicates share one round trip. One command claims many fresh keys, and one read proves the
//! claims, because the answer of a batched write does not. The other writes go key by key, a few at
//! a time.

use std::collections::HashMap;

use futures_util::{StreamExt, stream};
use idem_core::backend::{FinalResult, check};
use idem_core::{ClaimOutcome, ClaimRequest, Finish, Key, Result};

use crate::claim_batcher::{Answer as Answered, MAX_BATCH_SIZE};
use crate::operations::{Operations, since};
use crate::row::Row;
use crate::session::Session;
use crate::statements::ClaimParams;

/// Most keys in progress at a time; for claims, the keys of one read.
const MAX_ITEMS: usize = 500;

/// Most items written at a time.
const AT_A_TIME: usize = 32;

/// The state of the first claim of a key, before it is made by itself.
enum First {
    /// The record that was read, if there is one.
    Seen(Option<Row>),
    /// A batch has tried it.
    Tried(Answered),
}

/// An item's position in the batch, and its result.
type Answer<T> = (usize, Result<T>);

/// Returns the positions of each key; those of one key are handled one after the other.
fn by_key<'k>(keys: impl Iterator<Item = &'k Key>) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut indexes: HashMap<&Key, usize> = HashMap::new();
    for (position, key) in keys.enumerate() {
        let index = *indexes.entry(key).or_insert(groups.len());
        match groups.get_mut(index) {
            Some(group) => group.push(position),
            None => groups.push(vec![position]),
        }
    }
    groups
}

fn in_order<T>(mut answers: Vec<Answer<T>>) -> Vec<Result<T>> {
    answers.sort_by_key(|(position, _)| *position);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn some_at_a_time<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    stream::iter(futures)
        .buffer_unordered(AT_A_TIME)
        .collect()
        .await
}

impl Operations {
    pub(crate) async fn claim_many(&self, requests: &[ClaimRequest]) -> Vec<Result<ClaimOutcome>> {
        let mut answers = Vec::with_capacity(requests.len());
        let groups = by_key(requests.iter().map(ClaimRequest::key));
        let checked = check::batch_items(requests.len());
        for groups in groups.chunks(MAX_ITEMS) {
            let found = match &checked {
                Ok(()) => self.lookup_many(requests, groups).await,
                Err(_) => check::batch_items(requests.len()).map(|()| HashMap::new()),
            };
            match found {
                Ok(mut seen) => {
                    let mut tried = self.claim_unseen(requests, groups, &seen).await;
                    let claims = groups.iter().map(|group| {
                        let first = group.first().and_then(|&position| requests.get(position));
                        let first = match first.map(|first| first.key().path()) {
                            Some(path) => match tried.remove(&path) {
                                Some(answer) => First::Tried(answer),
                                None => First::Seen(seen.remove(&path)),
                            },
                            None => First::Seen(None),
                        };
                        self.claim_group(requests, group, first)
                    });
                    let done = some_at_a_time(claims.collect()).await;
                    answers.extend(done.into_iter().flatten());
                }
                Err(error) => {
                    let each = error.for_each_item();
                    let positions = groups.iter().flatten();
                    answers.extend(positions.map(|&position| (position, Err(each()))));
                }
            }
        }
        in_order(answers)
    }

    /// Reads the records of the keys to look up, each by its `_id`.
    async fn lookup_many(
        &self,
        requests: &[ClaimRequest],
        groups: &[Vec<usize>],
    ) -> Result<HashMap<String, Row>> {
        self.ready(&Session::alone(&self.config)).await?;
        let first = groups.iter().filter_map(|group| group.first());
        let keys: Vec<_> = first
            .filter_map(|&position| requests.get(position).map(ClaimRequest::key))
            .filter(|key| self.looks_up_first(key))
            .map(Key::path)
            .collect();
        match keys.is_empty() {
            true => Ok(HashMap::new()),
            false => self.rows_of(keys).await,
        }
    }

    /// Claims each key without a record, for the first of its claims, with many keys in a command.
    async fn claim_unseen(
        &self,
        requests: &[ClaimRequest],
        groups: &[Vec<usize>],
        seen: &HashMap<String, Row>,
    ) -> HashMap<String, Answered> {
        let first = groups.iter().filter_map(|group| group.first());
        let unseen: Vec<_> = first
            .filter_map(|&position| requests.get(position))
            .filter(|request| !seen.contains_key(&request.key().path()))
            .collect();
        let mut tried = HashMap::new();
        for batch in unseen
            .chunks(MAX_BATCH_SIZE)
            .filter(|batch| batch.len() > 1)
        {
            let answers = self.claim_together(batch).await;
            let paths = batch.iter().map(|request| request.key().path());
            tried.extend(paths.zip(answers));
        }
        tried
    }

    /// Handles the claims of one key.
    async fn claim_group(
        &self,
        requests: &[ClaimRequest],
        group: &[usize],
        first: First,
    ) -> Vec<Answer<ClaimOutcome>> {
        let mut answers = Vec::with_capacity(group.len());
        let mut first = Some(first);
        for &position in group {
            let Some(request) = requests.get(position) else {
                continue;
            };
            let answer = match first.take() {
                Some(First::Tried(Answered::Decided(outcome))) => outcome,
                Some(First::Tried(Answered::Alone(sent))) => {
                    let claimed = self.claim_after(request, None).await;
                    claimed.map_err(|error| since(error, sent))
                }
                Some(First::Seen(seen)) => self.claim_after(request, seen).await,
                None => self.claim(&mut Session::alone(&self.config), request).await,
            };
            answers.push((position, answer));
        }
        answers
    }

    /// Claims by itself, after a lookup or a batch.
    async fn claim_after(&self, request: &ClaimRequest, seen: Option<Row>) -> Result<ClaimOutcome> {
        let params = ClaimParams::new(request, check::claim(request, &self.config.limits())?);
        let mut session = Session::alone(&self.config);
        self.claim_from(&mut session, &params, seen).await
    }

    pub(crate) async fn finish_many(&self, items: &[Finish]) -> Vec<Result<()>> {
        let groups = by_key(items.iter().map(|item| item.claim().key()));
        let mut answers = Vec::with_capacity(items.len());
        for groups in groups.chunks(MAX_ITEMS) {
            let finished = groups.iter().map(|group| self.finish_group(items, group));
            let done = some_at_a_time(finished.collect()).await;
            answers.extend(done.into_iter().flatten());
        }
        in_order(answers)
    }

    async fn finish_group(&self, items: &[Finish], group: &[usize]) -> Vec<Answer<()>> {
        let limits = self.config.limits();
        let mut answers = Vec::with_capacity(group.len());
        for &position in group {
            let Some(item) = items.get(position) else {
                continue;
            };
            let result =
                check::batch_items(items.len()).and_then(|()| FinalResult::new(item, &limits));
            let answer = match result {
                Ok(result) => {
                    let mut session = Session::alone(&self.config);
                    self.finish(&mut session, item.claim(), &result).await
                }
                Err(error) => Err(error),
            };
            answers.push((position, answer));
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_of_one_key_stay_together_and_in_order() {
        let key = |id: &str| Key::new("tenant", "pay", id).unwrap();
        let keys = [key("a"), key("b"), key("a"), key("c"), key("b")];
        assert_eq!(by_key(keys.iter()), [vec![0, 2], vec![1, 4], vec![3]]);
    }
}
