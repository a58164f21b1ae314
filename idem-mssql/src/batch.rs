//! Many claims or completions in one statement.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use idem_core::backend::{TryTurn, Turn, check};
use idem_core::{
    ClaimOutcome, ClaimRequest, Completion, Error, FailedPolicy, Key, Result, StalePolicy,
};

use crate::dialect::Dialect;
use crate::error::{Access, is_lock_timeout, is_lost_race, is_overflow, is_unknown_statement};
use crate::operations::Operations;
use crate::pool::Pool;
use crate::row::Columns;
use crate::session::{Query, Session};
use crate::statements::{SIZES, Statements};
use idem_core::backend::FinalResult;
use idem_core::backend::decision::is_abandoned;

/// Most items, and about most bytes of results, that one statement takes; larger batches take several.
const MAX_ITEMS: usize = SIZES[SIZES.len() - 1];
const MAX_BYTES: usize = 16 << 20;

/// How many items that a batch leaves over are asked for at a time, each on a connection of its own.
const MAX_AT_ONCE: usize = 4;

type KeyParts<'k> = (&'k [u8], &'k [u8], &'k [u8]);

fn parts(key: &Key) -> KeyParts<'_> {
    (
        key.scope().as_bytes(),
        key.operation().as_bytes(),
        key.id().as_bytes(),
    )
}

/// The positions that one statement takes: each key once, within the limits, in the order of the keys, in which two
/// batches had best lock them; the others are left in `pending`.
fn next_round<'k>(
    pending: &mut Vec<usize>,
    key: impl Fn(usize) -> &'k Key,
    bytes: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut size = 0;
    let (mut round, rest): (Vec<_>, _) =
        std::mem::take(pending).into_iter().partition(|&position| {
            let fits = seen.len() < MAX_ITEMS && (size == 0 || size + bytes(position) <= MAX_BYTES);
            let takes = fits && seen.insert(key(position));
            if takes {
                size += bytes(position);
            }
            takes
        });
    *pending = rest;
    round.sort_by_key(|&position| parts(key(position)));
    round
}

impl Operations {
    pub(crate) async fn claim_many(
        &self,
        pool: &Pool,
        requests: &[ClaimRequest],
    ) -> Vec<Result<ClaimOutcome>> {
        let session = || Session::Pool(pool, &self.config);
        let mut answers: Vec<Option<Result<ClaimOutcome>>> = Vec::new();
        answers.resize_with(requests.len(), || None);
        let mut pending = Vec::new();
        for (position, request) in requests.iter().enumerate() {
            let checked = check::batch_items(requests.len())
                .and_then(|()| check::claim(request, &self.config.limits()));
            match checked {
                Ok(_) => pending.push(position),
                Err(error) => answers[position] = Some(Err(error)),
            }
        }
        let mut singly = Vec::new();
        while !pending.is_empty() {
            let key = |position: usize| requests[position].key();
            let round = next_round(&mut pending, key, |_| 0);
            let (round, turns) = self.with_turns(round, key, &mut singly);
            if round.is_empty() {
                continue;
            }
            let asked: Vec<_> = round.iter().map(|&position| &requests[position]).collect();
            let found = self.claim_round(&mut session(), &asked).await;
            drop(turns);
            match found {
                Ok(found) => {
                    for (position, answer) in round.into_iter().zip(found) {
                        match answer {
                            Some(outcome) if !is_abandoned(&outcome, &requests[position]) => {
                                answers[position] = Some(Ok(outcome));
                            }
                            // The row changed under the statement, is to be taken over or to be failed.
                            _ => singly.push(position),
                        }
                    }
                }
                Err(error) => {
                    let each = error.for_each_item();
                    for position in round.into_iter().chain(std::mem::take(&mut pending)) {
                        answers[position] = Some(Err(each()));
                    }
                }
            }
        }
        for few in singly.chunks(MAX_AT_ONCE) {
            let asked = few.iter().map(|&position| async move {
                let answer = self.claim(&mut session(), &requests[position]).await;
                (position, answer)
            });
            for (position, answer) in join_all(asked).await {
                answers[position] = Some(answer);
            }
        }
        answers.into_iter().flatten().collect()
    }

    /// The positions whose keys' turns can be had at once, with the turns. The others are asked for by themselves after
    /// the batch: somebody of this process waits for their lock, or they are known to be locked.
    fn with_turns<'k>(
        &self,
        round: Vec<usize>,
        key: impl Fn(usize) -> &'k Key,
        singly: &mut Vec<usize>,
    ) -> (Vec<usize>, Vec<Turn>) {
        let mut turns = Vec::with_capacity(round.len());
        let (round, others): (Vec<_>, Vec<_>) = round.into_iter().partition(|&position| match self
            .locked
            .try_turn(key(position))
        {
            TryTurn::Turn(turn) => {
                turns.push(turn);
                true
            }
            TryTurn::Busy | TryTurn::Locked(_) => false,
        });
        singly.extend(others);
        (round, turns)
    }

    /// One statement; an answer for each request, or none where the row changed under it or a race was lost.
    async fn claim_round(
        &self,
        session: &mut Session<'_>,
        requests: &[&ClaimRequest],
    ) -> Result<Vec<Option<ClaimOutcome>>> {
        let mut answers = vec![None; requests.len()];
        let statements = match self.dialect(session).await? {
            Dialect::Merge => &self.sql.claim_many_by_merge,
            Dialect::Insert => &self.sql.claim_many_by_insert,
        };
        let (statement, size) = Statements::sized(statements, requests.len());
        let mut query = Query::new(statement).bind(count(requests.len()));
        for request in filled(requests, size) {
            query = self.with_claim_row(query, request)?;
        }
        let rows = match session.rows(query, Access::Write).await {
            Err(error) if is_asked_singly(&error) => return Ok(answers),
            rows => rows?,
        };
        let positions: HashMap<KeyParts<'_>, usize> = requests
            .iter()
            .enumerate()
            .map(|(position, request)| (parts(request.key()), position))
            .collect();
        for row in &rows {
            let columns = Columns(row);
            if let Some(&position) = positions.get(&columns.key()?) {
                answers[position] = Some(columns.outcome(requests[position])?);
            }
        }
        Ok(answers)
    }

    fn with_claim_row<'q>(&self, query: Query<'q>, request: &'q ClaimRequest) -> Result<Query<'q>> {
        let checked = check::claim(request, &self.config.limits())?;
        Ok(with_key(query, request.key())
            .bind(request.fingerprint().to_bytes().to_vec())
            .bind(request.attempt().as_bytes().to_vec())
            .bind(checked.lease)
            .bind(checked.retention)
            .bind(i32::from(request.on_stale() == StalePolicy::Fail))
            .bind(i32::from(request.on_failed() == FailedPolicy::Retry))
            .bind(checked.metadata.unwrap_or_default()))
    }

    pub(crate) async fn complete_many(
        &self,
        pool: &Pool,
        completions: &[Completion],
    ) -> Vec<Result<()>> {
        let session = || Session::Pool(pool, &self.config);
        let mut answers: Vec<Option<Result<()>>> = Vec::new();
        answers.resize_with(completions.len(), || None);
        let mut sealings: Vec<Option<FinalResult>> = Vec::with_capacity(completions.len());
        let mut pending = Vec::new();
        for (position, item) in completions.iter().enumerate() {
            let sealing = check::batch_items(completions.len())
                .and_then(|()| self.response(&item.response, item.retention));
            match sealing {
                Ok(sealing) => {
                    sealings.push(Some(sealing));
                    pending.push(position);
                }
                Err(error) => {
                    sealings.push(None);
                    answers[position] = Some(Err(error));
                }
            }
        }
        let bytes = |position: usize| {
            sealings[position]
                .as_ref()
                .map_or(0, |sealing| sealing.bytes().len())
        };
        let mut singly = Vec::new();
        while !pending.is_empty() {
            let key = |position: usize| completions[position].claim.key();
            let round = next_round(&mut pending, key, bytes);
            let (round, turns) = self.with_turns(round, key, &mut singly);
            let items: Vec<_> = round
                .iter()
                .filter_map(|&position| {
                    let sealing = sealings[position].as_ref()?;
                    Some((&completions[position], sealing))
                })
                .collect();
            if items.is_empty() {
                continue;
            }
            let sealed = self.complete_round(&mut session(), &items).await;
            drop(turns);
            match sealed {
                Ok(sealed) => {
                    for (position, sealed) in round.into_iter().zip(sealed) {
                        match sealed {
                            true => answers[position] = Some(Ok(())),
                            // Lost, sealed before, or sealed otherwise: the single operation tells.
                            false => singly.push(position),
                        }
                    }
                }
                Err(error) => {
                    let each = error.for_each_item();
                    for position in round.into_iter().chain(std::mem::take(&mut pending)) {
                        answers[position] = Some(Err(each()));
                    }
                }
            }
        }
        for few in singly.chunks(MAX_AT_ONCE) {
            let sealings = &sealings;
            let asked = few.iter().map(|&position| async move {
                let sealing = sealings[position].as_ref()?;
                let claim = &completions[position].claim;
                Some((position, self.seal(&mut session(), claim, sealing).await))
            });
            for (position, answer) in join_all(asked).await.into_iter().flatten() {
                answers[position] = Some(answer);
            }
        }
        answers.into_iter().flatten().collect()
    }

    /// One statement; whether each item was sealed by it.
    async fn complete_round(
        &self,
        session: &mut Session<'_>,
        items: &[(&Completion, &FinalResult)],
    ) -> Result<Vec<bool>> {
        let (statement, size) = Statements::sized(&self.sql.complete_many, items.len());
        let mut query = Query::new(statement).bind(count(items.len()));
        for (number, (item, sealing)) in filled(items, size).enumerate() {
            // The rows that do not count need not carry their results again.
            let counts = number < items.len();
            query = with_key(query, item.claim.key())
                .bind(item.claim.token().as_i64())
                .bind(item.claim.attempt().as_bytes().to_vec())
                .bind(if counts { sealing.bytes() } else { &[] })
                .bind(sealing.retention());
        }
        let rows = match session.rows(query, Access::Write).await {
            Err(error) if is_asked_singly(&error) => return Ok(vec![false; items.len()]),
            rows => rows?,
        };
        let mut sealed: HashSet<KeyParts<'_>> = HashSet::with_capacity(rows.len());
        for row in &rows {
            sealed.insert(Columns(row).key_at(0)?);
        }
        Ok(items
            .iter()
            .map(|(item, _)| sealed.contains(&parts(item.claim.key())))
            .collect())
    }
}

/// Whether each item is asked for by itself after this error, which had no effect: one of them lost a race, is locked, or
/// has a token that cannot grow, and its neighbours have nothing to do with that; or the server, which may be none of SQL
/// Server's, does not know the statement of a batch.
fn is_asked_singly(error: &Error) -> bool {
    is_lost_race(error)
        || is_lock_timeout(error)
        || is_overflow(error)
        || is_unknown_statement(error)
}

/// The items, and the first one again and again until the statement is full.
fn filled<T>(items: &[T], size: usize) -> impl Iterator<Item = &T> {
    let fill = items.iter().take(1).cycle();
    items.iter().chain(fill).take(size)
}

/// A batch has no more items than a number of the server's can count.
fn count(items: usize) -> i32 {
    i32::try_from(items).unwrap_or(i32::MAX)
}

fn with_key<'q>(query: Query<'q>, key: &'q Key) -> Query<'q> {
    let (scope, operation, id) = parts(key);
    query.bind(scope).bind(operation).bind(id)
}
