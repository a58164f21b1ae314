//! Many claims or completions in a few statements.

use std::collections::{HashMap, HashSet};

use idem_core::backend::{TryTurn, Turn, check};
use idem_core::{ClaimOutcome, ClaimRequest, Completion, Key, Result};

use crate::claim_params::ClaimParams;
use crate::error::{Access, is_locked};
use crate::operations::{Operations, bind_claim, bind_key};
use crate::row::{Columns, Found};
use crate::session::Session;
use crate::statements::{Dialect, MAX_ITEMS, filled_up};
use idem_core::backend::FinalResult;

/// About most bytes that one statement takes; larger batches take several. MariaDB takes packets of 16 MiB unless set otherwise.
const MAX_BYTES: usize = 4 << 20;

/// The same on MySQL: 9.7.4 was measured to answer a statement of 128 claims (15 KiB) and more 40 ms later than one of 110, whatever
/// is in it, where MariaDB does not. Lists are filled up by a third at most, so this stays below.
const MAX_BYTES_OF_MYSQL: usize = 10 << 10;

/// About what an item takes beside its key and what is of any length.
const ITEM_BYTES: usize = 100;

/// The positions that one statement takes: each key once, within the limits, in the order of keys, so that two batches
/// never wait for each other in a circle; the others are left in `pending`.
fn next_round<'k>(
    pending: &mut Vec<usize>,
    most_bytes: usize,
    key: impl Fn(usize) -> &'k Key,
    bytes: impl Fn(usize) -> usize,
) -> Vec<usize> {
    let mut seen = HashSet::new();
    let mut size = 0;
    let (mut round, rest): (Vec<_>, _) =
        std::mem::take(pending).into_iter().partition(|&position| {
            let (scope, operation, id) = parts(key(position));
            let name = scope.len() + operation.len() + id.len();
            // On MySQL a probe has the key once more.
            let bytes = ITEM_BYTES + 2 * name + bytes(position);
            let fits = seen.len() < MAX_ITEMS && (size == 0 || size + bytes <= most_bytes);
            let takes = fits && seen.insert(key(position));
            if takes {
                size += bytes;
            }
            takes
        });
    *pending = rest;
    round.sort_by_key(|&position| parts(key(position)));
    round
}

pub(crate) fn parts(key: &Key) -> (&[u8], &[u8], &[u8]) {
    (
        key.scope().as_bytes(),
        key.operation().as_bytes(),
        key.id().as_bytes(),
    )
}

impl Operations {
    /// About most bytes of one statement.
    async fn most_bytes(&self, session: &mut Session<'_>) -> usize {
        let facts = self.facts(session).await;
        // What was wrong the statement will tell.
        let dialect = facts.map_or(Dialect::MySql, |facts| facts.dialect);
        match dialect {
            Dialect::MariaDb => MAX_BYTES,
            Dialect::MySql => MAX_BYTES_OF_MYSQL,
        }
    }

    pub(crate) async fn claim_many(
        &self,
        session: &mut Session<'_>,
        requests: &[ClaimRequest],
    ) -> Vec<Result<ClaimOutcome>> {
        let mut answers: Vec<Option<Result<ClaimOutcome>>> = Vec::new();
        answers.resize_with(requests.len(), || None);
        let mut asked = Vec::with_capacity(requests.len());
        let mut pending = Vec::with_capacity(requests.len());
        for (position, request) in requests.iter().enumerate() {
            let checked = check::batch_items(requests.len())
                .and_then(|()| ClaimParams::new(request, &self.config));
            match checked {
                Ok(item) => {
                    pending.push(position);
                    asked.push(Some(item));
                }
                Err(error) => {
                    answers[position] = Some(Err(error));
                    asked.push(None);
                }
            }
        }
        let most_bytes = self.most_bytes(session).await;
        while !pending.is_empty() {
            let key = |position: usize| requests[position].key();
            let bytes = |position: usize| {
                asked[position]
                    .as_ref()
                    .map_or(0, ClaimParams::metadata_bytes)
            };
            let round = next_round(&mut pending, most_bytes, key, bytes);
            let items: Vec<_> = round.iter().filter_map(|&at| asked[at].as_ref()).collect();
            let mut found = vec![None; items.len()];
            let done = self.claim_round(session, &items, &mut found).await;
            let failed = done.err().map(|error| error.for_each_item());
            for (position, answer) in round.into_iter().zip(found) {
                answers[position] = Some(match (answer, &failed) {
                    (Some(outcome), _) => Ok(outcome),
                    (None, Some(each)) => Err(each()),
                    // There is a record, and it is to be taken over or failed; or it is another caller's turn, or somebody
                    // has locked this key or another of the batch.
                    (None, None) => self.claim(session, &requests[position]).await,
                });
            }
            if let Some(each) = failed {
                for position in std::mem::take(&mut pending) {
                    answers[position] = Some(Err(each()));
                }
            }
        }
        answers.into_iter().flatten().collect()
    }

    /// An answer for each claim, but for those that more has to be done for. Inserts what is expected to be absent, looks
    /// at the rest, inserts what is absent of that, and looks again where somebody else was first.
    async fn claim_round(
        &self,
        session: &mut Session<'_>,
        items: &[&ClaimParams<'_>],
        answers: &mut [Option<ClaimOutcome>],
    ) -> Result<()> {
        let mut tokens = Vec::new();
        let mut absent: Vec<usize> = (0..items.len())
            .filter(|&at| self.inserts_first(items[at].request.key()))
            .collect();
        let mut all: Vec<usize> = (0..items.len()).collect();
        for _ in 0..2 {
            self.insert_at(session, items, &absent, &mut tokens, answers)
                .await?;
            all.retain(|&at| answers[at].is_none());
            if all.is_empty() {
                return Ok(());
            }
            let there = self.look_at(session, items, &all, &tokens, answers).await?;
            all.retain(|at| !there.contains(at));
            absent.clone_from(&all);
            if absent.is_empty() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Inserts the records of these positions that are not there, of those whose turn it is. All are acquired when as many were
    /// inserted; otherwise those that carry the attempt's id and the token of this statement, which is added to `tokens`. When
    /// one of them is locked, nothing has happened, and each is asked for by itself.
    async fn insert_at(
        &self,
        session: &mut Session<'_>,
        items: &[&ClaimParams<'_>],
        which: &[usize],
        tokens: &mut Vec<i64>,
        answers: &mut [Option<ClaimOutcome>],
    ) -> Result<()> {
        let (which, _turns) = self.turns(which, |at| items[at].request.key());
        let which = &which[..];
        if which.is_empty() {
            return Ok(());
        }
        let sql = self.sql(session).await?;
        self.without_gaps(session).await?;
        let (statement, size) = sql.insert_new.at_least(which.len());
        let insert = || {
            let probe = filled_up(which, size).fold(sqlx::query(statement.text()), |query, &at| {
                sql.bind_probe(query, items[at].request.key())
            });
            filled_up(which, size).fold(probe, |query, &at| items[at].bind_row(query))
        };
        let done = match session.execute(insert).await {
            Err(error) if is_locked(&error) => {
                session.share_patience();
                return Ok(());
            }
            done => done?,
        };
        if done.rows_affected() == 0 {
            return Ok(());
        }
        let token = done.last_insert_id().cast_signed();
        tokens.push(token);
        if done.rows_affected() == which.len() as u64 && token != 0 {
            for &at in which {
                self.estimator.record(items[at].request.key(), false);
                answers[at] = Some(ClaimOutcome::Acquired(items[at].inserted(token)));
            }
        }
        Ok(())
    }

    /// Reads the records of these positions and answers what they answer; the positions that have one.
    async fn look_at(
        &self,
        session: &mut Session<'_>,
        items: &[&ClaimParams<'_>],
        which: &[usize],
        tokens: &[i64],
        answers: &mut [Option<ClaimOutcome>],
    ) -> Result<HashSet<usize>> {
        let keys: HashMap<_, _> = which
            .iter()
            .map(|&at| (parts(items[at].request.key()), at))
            .collect();
        let sql = self.sql(session).await?;
        let (statement, size) = sql.look_many.at_least(which.len());
        let query = || {
            filled_up(which, size).fold(sqlx::query(statement.text()), |query, &at| {
                bind_key(query, items[at].request.key())
            })
        };
        let sent = match tokens {
            [] => Access::Read,
            _ => Access::Write,
        };
        let rows = session.rows(query, sent).await?;
        let mut there = HashSet::new();
        for row in &rows {
            let columns = Columns::of(row)?;
            let Some(&at) = keys.get(&columns.key()?) else {
                continue;
            };
            there.insert(at);
            let request = items[at].request;
            answers[at] = match columns.found(request) {
                Found::Own if tokens.contains(&columns.token().as_i64()) => {
                    self.estimator.record(request.key(), false);
                    Some(ClaimOutcome::Acquired(columns.stored()?.claim(request)))
                }
                Found::Held => {
                    self.estimator.record(request.key(), true);
                    Some(columns.stored()?.loses(request)?)
                }
                Found::Own | Found::Free | Found::Abandoned => None,
            };
        }
        Ok(there)
    }

    /// Of these positions those whose turn it is, with the turns.
    fn turns<'k>(
        &self,
        which: &[usize],
        key: impl Fn(usize) -> &'k Key,
    ) -> (Vec<usize>, Vec<Turn>) {
        let turn = |&at: &usize| match self.locked.try_turn(key(at)) {
            TryTurn::Turn(turn) => Some((at, turn)),
            TryTurn::Busy | TryTurn::Locked(_) => None,
        };
        which.iter().filter_map(turn).unzip()
    }

    pub(crate) async fn complete_many(
        &self,
        session: &mut Session<'_>,
        completions: &[Completion],
    ) -> Vec<Result<()>> {
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
        let most_bytes = self.most_bytes(session).await;
        while !pending.is_empty() {
            let key = |position: usize| completions[position].claim.key();
            let round = next_round(&mut pending, most_bytes, key, bytes);
            let items: Vec<_> = round
                .iter()
                .filter_map(|&position| {
                    let sealing = sealings[position].as_ref()?;
                    Some((&completions[position], sealing))
                })
                .collect();
            let mut sealed = vec![false; items.len()];
            match self.complete_round(session, &items, &mut sealed).await {
                Ok(()) => {
                    let items = items.into_iter().zip(sealed);
                    for (position, ((item, sealing), is_sealed)) in round.into_iter().zip(items) {
                        answers[position] = Some(match is_sealed {
                            true => Ok(()),
                            // It is locked, or it is another caller's turn, or one of them is lost or sealed already.
                            // Those that were sealed just now say so.
                            false => self.seal(session, &item.claim, sealing).await,
                        });
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
        answers.into_iter().flatten().collect()
    }

    /// One statement for the items whose turn it is. They are marked where it is certain that it has sealed all of them; when
    /// one is locked, nothing has happened.
    async fn complete_round(
        &self,
        session: &mut Session<'_>,
        all: &[(&Completion, &FinalResult)],
        sealed: &mut [bool],
    ) -> Result<()> {
        let positions: Vec<_> = (0..all.len()).collect();
        let (which, _turns) = self.turns(&positions, |at| all[at].0.claim.key());
        if which.is_empty() {
            return Ok(());
        }
        let items: Vec<_> = which.iter().map(|&at| all[at]).collect();
        let sql = self.sql(session).await?;
        let (statement, size) = sql.complete_many.at_least(items.len());
        let places: Vec<_> = (1..).zip(&items).collect();
        let query = || {
            let rows = filled_up(&places, size).fold(
                sqlx::query(statement.text()),
                |query, (place, (item, sealing))| {
                    bind_claim(query, &item.claim)
                        .bind(sealing.retention())
                        .bind(*place)
                },
            );
            let results = filled_up(&items, size)
                .fold(rows, |query, (_, sealing)| query.bind(sealing.bytes()));
            filled_up(&items, size).fold(results, |query, (item, _)| {
                sql.bind_probe(query, item.claim.key())
            })
        };
        match session.write(query).await {
            Err(error) if is_locked(&error) => session.share_patience(),
            done => {
                if done? == items.len() as u64 {
                    which.into_iter().for_each(|at| sealed[at] = true);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: usize) -> Vec<Key> {
        // From the last to the first, each twice.
        let ids = (0..count).rev().flat_map(|id| [id, id]);
        let key = |id: usize| Key::new("tenant", "pay", format!("{id:08}")).unwrap();
        ids.map(key).collect()
    }

    #[test]
    fn rounds_are_of_a_size_in_order_and_leave_nothing_out() {
        let keys = keys(300);
        for (most, bytes, largest) in [
            (MAX_BYTES, 0, 300),
            (MAX_BYTES_OF_MYSQL, 0, MAX_BYTES_OF_MYSQL / 134),
            // Whatever its size, one goes.
            (MAX_BYTES_OF_MYSQL, 1 << 20, 1),
        ] {
            let mut pending: Vec<_> = (0..keys.len()).collect();
            let (mut sizes, mut seen) = (Vec::new(), HashSet::new());
            while !pending.is_empty() {
                let round = next_round(&mut pending, most, |at| &keys[at], |_| bytes);
                assert!(
                    round
                        .windows(2)
                        .all(|two| keys[two[0]].id() < keys[two[1]].id())
                );
                assert!(round.iter().all(|&at| seen.insert(at)), "one goes twice");
                sizes.push(round.len());
            }
            assert_eq!(seen.len(), keys.len());
            assert_eq!(sizes.into_iter().max(), Some(largest));
        }
    }
}
