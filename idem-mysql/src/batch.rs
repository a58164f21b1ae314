//! Many claims or completions in a few statements.

use std::collections::{HashMap, HashSet};

use idem_core::backend::{LockedKeys, TryTurn, Turn};
use idem_core::{ClaimOutcome, Error, Key, Result};
use idem_sql::batch::{Batches, CheckedFinish, Item as _, RoundLimits};
use idem_sql::claim::ClaimParams;
use idem_sql::parameters::{Parameter, Value};

use crate::claim::after;
use crate::error::{Access, is_locked};
use crate::operations::Operations;
use crate::row::{Columns, RecordState};
use crate::session::Session;
use crate::statements::{Dialect, MAX_ITEMS, add_key, filled_up};

/// The most bytes of one statement, roughly; larger batches take several. MariaDB takes packets of
/// 16 MiB by default.
const MAX_BYTES: usize = 4 << 20;

/// The same on MySQL: MySQL 9.7.4 was measured to answer a statement of 128 and more claims
/// (15 KiB) 40 ms later than one of 110, whatever its content; MariaDB does not. Lists are filled
/// up by a third at most, so this stays below.
const MAX_BYTES_OF_MYSQL: usize = 10 << 10;

/// The bytes, roughly, that an item takes beside its key and its parts of variable length.
const ITEM_BYTES: usize = 100;

/// On MySQL a probe repeats the key.
fn beside(key: &Key) -> usize {
    ITEM_BYTES + 2 * (key.scope().len() + key.operation().len() + key.id().len())
}

pub(crate) fn parts(key: &Key) -> (&[u8], &[u8], &[u8]) {
    (
        key.scope().as_bytes(),
        key.operation().as_bytes(),
        key.id().as_bytes(),
    )
}

impl Batches for Operations {
    const AT_A_TIME: usize = 1;

    async fn round_limits(&self, session: &mut Self::Session<'_>) -> RoundLimits {
        let facts = self.facts(session).await;
        // The statement itself reports an error.
        let dialect = facts.map_or(Dialect::MySql, |facts| facts.dialect);
        RoundLimits {
            items: MAX_ITEMS,
            bytes: match dialect {
                Dialect::MariaDb => MAX_BYTES,
                Dialect::MySql => MAX_BYTES_OF_MYSQL,
            },
            beside,
        }
    }

    fn turns(&self) -> Option<&LockedKeys> {
        None
    }

    fn is_asked_singly(_: &Error) -> bool {
        false
    }

    fn beside<'s>(_: &Self::Session<'s>) -> Option<Self::Session<'s>> {
        None
    }

    async fn claim_round(
        &self,
        session: &mut Self::Session<'_>,
        items: &[ClaimParams<'_>],
    ) -> Result<Vec<Option<Result<ClaimOutcome>>>> {
        let mut found = vec![None; items.len()];
        let done = self.insert_and_lookup(session, items, &mut found).await;
        let mut answers: Vec<_> = found.into_iter().map(|found| found.map(Ok)).collect();
        match done {
            Err(error) if answers.iter().all(Option::is_none) => return Err(error),
            // The inserted claims are won, whatever happens to the others.
            Err(error) => {
                let each = error.for_each_item();
                for answer in &mut answers {
                    answer.get_or_insert_with(|| Err(each()));
                }
            }
            Ok(()) => {}
        }
        Ok(answers)
    }

    /// Sends one statement for the items whose turn is free. Marks them where the statement
    /// certainly ended all their claims; when one is locked, nothing has happened.
    ///
    /// Where one claim was lost, the others have ended, and are sent again. A completion finds its
    /// result then. A release or a failure may find that another caller has the key already, or that
    /// the record was deleted, and would be answered with `ClaimLost` although it took effect. So
    /// would a result that expires before it is sent again. All three are sent alone. The errors of
    /// what is sent again have an unknown effect.
    async fn finish_round(
        &self,
        session: &mut Self::Session<'_>,
        all: &[CheckedFinish<'_>],
    ) -> Result<Vec<bool>> {
        let mut finished = vec![false; all.len()];
        let stays = |at: &usize| {
            let result = &all[*at].result;
            self.stays(result.state(), result.retention())
        };
        let positions: Vec<_> = (0..all.len()).filter(stays).collect();
        let (which, _turns) = self.free_turns(&positions, |at| all[at].key());
        if which.is_empty() {
            return Ok(finished);
        }
        let items: Vec<_> = which.iter().map(|&at| &all[at]).collect();
        let sql = self.sql(session).await?;
        let (statement, size) = sql.finish_many.at_least(items.len());
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in (1_i64..).zip(&items) {
            values.push(item.values().with(Parameter::Index, index));
        }
        let mut bound = Vec::new();
        for values in filled_up(&values, size) {
            bound.extend(values.of(sql.finish_many.item())?);
        }
        for item in filled_up(&items, size) {
            bound.push(Value::Bytes(item.result.bytes().into()));
        }
        for item in filled_up(&items, size) {
            sql.add_probe(&mut bound, item.key());
        }
        match session.write(&statement.bound(bound)).await {
            Err(error) if is_locked(&error) => session.share_retry_timeout(),
            done => match done? {
                count if count == items.len() as u64 => {
                    which.into_iter().for_each(|at| finished[at] = true);
                }
                0 => {}
                _ => session.note_perhaps_ended(items.iter().map(|item| item.key().clone())),
            },
        }
        Ok(finished)
    }

    async fn claim_alone(
        &self,
        session: &mut Self::Session<'_>,
        claim: &ClaimParams<'_>,
    ) -> Result<ClaimOutcome> {
        self.claim(session, claim.request).await
    }
}

impl Operations {
    /// Inserts the claims whose records are expected to be absent, and reads the records of the
    /// others. Then inserts the absent ones of those, and reads again where another caller was
    /// first.
    async fn insert_and_lookup(
        &self,
        session: &mut Session<'_>,
        items: &[ClaimParams<'_>],
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

    /// Inserts the missing records of these positions, as far as their turn is free. All claims are
    /// won when as many records were inserted. Otherwise the winners are the records with the
    /// attempt's id and the token of this statement, which is added to `tokens`. When one record is
    /// locked, nothing has happened, and each claim is sent alone.
    async fn insert_at(
        &self,
        session: &mut Session<'_>,
        items: &[ClaimParams<'_>],
        which: &[usize],
        tokens: &mut Vec<i64>,
        answers: &mut [Option<ClaimOutcome>],
    ) -> Result<()> {
        let (which, _turns) = self.free_turns(which, |at| items[at].request.key());
        let which = &which[..];
        if which.is_empty() {
            return Ok(());
        }
        let sql = self.sql(session).await?;
        self.without_gaps(session).await?;
        let (statement, size) = sql.insert_new.at_least(which.len());
        let values: Vec<_> = which.iter().map(|&at| items[at].values()).collect();
        let mut bound = Vec::new();
        for &at in filled_up(which, size) {
            sql.add_probe(&mut bound, items[at].request.key());
        }
        for values in filled_up(&values, size) {
            bound.extend(values.of(sql.insert_new.item())?);
        }
        let done = match session.answer(&statement.bound(bound), Access::Write).await {
            Err(error) if is_locked(&error) => {
                session.share_retry_timeout();
                return Ok(());
            }
            done => done?,
        };
        if done.affected == 0 {
            return Ok(());
        }
        let token = done.insert_id.cast_signed();
        tokens.push(token);
        if done.affected == which.len() as u64 && token != 0 {
            for &at in which {
                self.estimator.record(items[at].request.key(), false);
                answers[at] = Some(ClaimOutcome::Acquired(items[at].inserted(token)));
            }
        }
        Ok(())
    }

    /// Reads the records of these positions and answers the claims that they decide; returns the
    /// positions that have a record.
    async fn look_at(
        &self,
        session: &mut Session<'_>,
        items: &[ClaimParams<'_>],
        which: &[usize],
        tokens: &[i64],
        answers: &mut [Option<ClaimOutcome>],
    ) -> Result<HashSet<usize>> {
        let keys: HashMap<_, _> = which
            .iter()
            .map(|&at| (parts(items[at].request.key()), at))
            .collect();
        let sql = self.sql(session).await?;
        let (statement, size) = sql.lookup_many.at_least(which.len());
        let mut values = Vec::new();
        for &at in filled_up(which, size) {
            add_key(&mut values, items[at].request.key());
        }
        let rows = session.rows(&statement.bound(values), Access::Read).await;
        let rows = rows.map_err(|error| after(!tokens.is_empty(), error))?;
        let mut there = HashSet::new();
        for row in &rows {
            let columns = Columns::of(row)?;
            let Some(&at) = keys.get(&columns.key()?) else {
                continue;
            };
            there.insert(at);
            let request = items[at].request;
            answers[at] = match columns.state_for(request) {
                RecordState::Own if tokens.contains(&columns.token().as_i64()) => {
                    self.estimator.record(request.key(), false);
                    Some(ClaimOutcome::Acquired(columns.stored()?.claim(request)))
                }
                RecordState::Held => {
                    self.estimator.record(request.key(), true);
                    Some(columns.stored()?.loses(request)?)
                }
                RecordState::Own | RecordState::Free | RecordState::Abandoned => None,
            };
        }
        Ok(there)
    }

    /// Returns the positions whose turn is free, with the turns.
    fn free_turns<'k>(
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_twice() {
        let key = Key::new("tenant", "pay", "00000001").unwrap();
        assert_eq!(beside(&key), 134);
    }
}
