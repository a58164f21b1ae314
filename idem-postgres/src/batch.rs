//! Many claims, or the ends of many, in one statement.

use idem_core::backend::LockedKeys;
use idem_core::backend::decision::is_abandoned;
use idem_core::{ClaimOutcome, Error, Key, Record, Result};
use idem_sql::batch::{Batch, Batches, CheckedFinish, Item as _, RoundLimits, may_be_anothers};
use idem_sql::cells::Columns;
use idem_sql::claim::ClaimParams;
use idem_sql::operations::Operations as _;
use idem_sql::parameters::{Parameter, Value, Values};

use crate::error::{Access, is_of_standby};
use crate::operations::Operations;
use crate::row;
use crate::session::Session;

/// The limits of one statement, in bytes of results; larger batches take several statements.
const LIMITS: RoundLimits = RoundLimits {
    items: 1_000,
    bytes: 16 << 20,
    beside: |_| 0,
};

/// The most records that one statement reads; each may come with its result.
pub(crate) const MAX_READS: usize = 128;

type KeyParts<'k> = (&'k str, &'k str, &'k str);

/// The parts of a key in the order in which the keys of a statement, and [`Key`]s, are sorted: byte
/// by byte, as in the server's collation "C".
fn parts(key: &Key) -> KeyParts<'_> {
    (key.scope(), key.operation(), key.id())
}

/// The answers; `None` where the row changed under the statement.
type Answers = Vec<Option<Result<ClaimOutcome>>>;

fn unanswered(items: usize) -> Answers {
    std::iter::repeat_with(|| None).take(items).collect()
}

impl Batches for Operations {
    const AT_A_TIME: usize = 8;

    async fn round_limits(&self, _: &mut Self::Session<'_>) -> RoundLimits {
        LIMITS
    }

    fn turns(&self) -> Option<&LockedKeys> {
        Some(&self.locked)
    }

    fn is_asked_singly(error: &Error) -> bool {
        may_be_anothers(error)
    }

    fn beside<'s>(session: &Self::Session<'s>) -> Option<Self::Session<'s>> {
        session.beside()
    }

    /// Answers the claims that a read of their records decides, where records are expected. A read
    /// waits for no lock and writes nothing.
    async fn read_first(
        &self,
        session: &mut Self::Session<'_>,
        batch: &mut Batch<ClaimParams<'_>, ClaimOutcome>,
    ) {
        // Standbys may have to have the record first: then each claim is answered alone.
        if self.config.waits_for_standbys() || self.expects_fresh(batch.pending()) {
            return;
        }
        let mut expected = batch.take(|claim| self.estimator.expects_duplicate(claim.key()));
        let mut left = Vec::new();
        while !expected.is_empty() {
            let rest = expected.split_off(MAX_READS.min(expected.len()));
            let chunk = std::mem::replace(&mut expected, rest);
            match self.read_round(session, &chunk).await {
                Ok(found) => {
                    for ((position, claim), outcome) in chunk.into_iter().zip(found) {
                        match outcome {
                            Some(outcome) => {
                                self.estimator.record(claim.key(), true);
                                batch.answer(position, Ok(outcome));
                            }
                            None => left.push((position, claim)),
                        }
                    }
                }
                // A record may be damaged, or a standby answers: a statement that writes decides.
                Err(error) if may_be_anothers(&error) || is_of_standby(&error) => {
                    left.extend(chunk);
                }
                Err(error) => {
                    let each = error.for_each_item();
                    for (position, _) in chunk.into_iter().chain(expected.drain(..)) {
                        batch.answer(position, Err(each()));
                    }
                }
            }
        }
        batch.put_back(left);
    }

    /// Sends one statement, or two. Where the estimator expects fresh keys, the claims are inserted
    /// first, and those whose key has a row go to the statement that decides everything.
    async fn claim_round(
        &self,
        session: &mut Self::Session<'_>,
        claims: &[ClaimParams<'_>],
    ) -> Result<Answers> {
        let mut answers = unanswered(claims.len());
        if self.expects_fresh(claims.iter()) {
            self.insert_round(session, claims, &mut answers).await?;
        }
        let left: Vec<usize> = (0..claims.len())
            .filter(|&at| answers[at].is_none())
            .collect();
        if !left.is_empty() {
            let left_claims: Vec<_> = left.iter().map(|&at| &claims[at]).collect();
            match self.decide_round(session, &left_claims).await {
                Ok(found) => left
                    .into_iter()
                    .zip(found)
                    .for_each(|(at, found)| answers[at] = found),
                // Each is sent alone.
                Err(error) if may_be_anothers(&error) => {}
                // The inserted claims are won, whatever happens to the others.
                Err(error) => {
                    let each = error.for_each_item();
                    left.into_iter()
                        .for_each(|at| answers[at] = Some(Err(each())));
                }
            }
        }
        for (claim, answer) in claims.iter().zip(&answers) {
            let acquired = matches!(answer, Some(Ok(ClaimOutcome::Acquired(_))));
            self.estimator.record(claim.key(), !acquired);
        }
        Ok(answers)
    }

    async fn finish_round(
        &self,
        session: &mut Self::Session<'_>,
        items: &[CheckedFinish<'_>],
    ) -> Result<Vec<bool>> {
        let topics: Vec<_> = items.iter().map(|item| self.topic(item.key())).collect();
        let values: Vec<_> = std::iter::zip(items, &topics)
            .map(|(item, topic)| {
                let topic = Value::OptionalText(topic.as_deref());
                item.values().with(Parameter::Topic, topic)
            })
            .collect();
        let query = self.sql.finish_many.with_all(&values)?;
        let rows = session.rows(query, Access::Write).await?;
        let mut finished = vec![false; items.len()];
        for row in &rows {
            // The server counts from one.
            let index = usize::try_from(Columns::of(row).number(0)? - 1).ok();
            let item = index.and_then(|index| finished.get_mut(index));
            *item.ok_or_else(|| Error::corrupt("a claim that was not sent has ended"))? = true;
        }
        Ok(finished)
    }

    async fn claim_alone(
        &self,
        session: &mut Self::Session<'_>,
        claim: &ClaimParams<'_>,
    ) -> Result<ClaimOutcome> {
        let outcome = self.claim_in_steps(session, claim).await?;
        self.replicated(session, claim.key(), outcome).await
    }
}

impl Operations {
    /// Reads the records of these keys; an answer for each, in order.
    pub(crate) async fn get_many(
        &self,
        session: &mut Session<'_>,
        keys: &[Key],
    ) -> Result<Vec<Option<Record>>> {
        let values: Vec<_> = keys.iter().map(Values::of_key).collect();
        let query = self.sql.get_many.with_all(&values)?;
        let rows = session.rows(query, Access::Read).await?;
        let mut found: Vec<_> = keys.iter().map(|_| None).collect();
        for row in &rows {
            let columns = Columns::of(row);
            // The server counts from one.
            let index = usize::try_from(columns.number(Columns::AFTER)? - 1).ok();
            if let Some(found) = index.and_then(|at| found.get_mut(at)) {
                *found = row::live_record(columns)?;
            }
        }
        Ok(found)
    }

    /// Sends one read; returns the outcome of each claim that meets a live record which it must not
    /// touch.
    async fn read_round(
        &self,
        session: &mut Session<'_>,
        claims: &[(usize, ClaimParams<'_>)],
    ) -> Result<Vec<Option<ClaimOutcome>>> {
        let values: Vec<_> = claims.iter().map(|(_, claim)| claim.values()).collect();
        let query = self.sql.lookup_many.with_all(&values)?;
        let rows = session.rows(query, Access::Read).await?;
        let mut found: Vec<_> = claims.iter().map(|_| None).collect();
        for row in &rows {
            let columns = Columns::of(row);
            // The server counts from one.
            let index = usize::try_from(columns.number(Columns::AFTER)? - 1).ok();
            if let Some((index, (_, claim))) = index.and_then(|at| Some((at, claims.get(at)?))) {
                found[index] = row::lost(columns, claim.request)?;
            }
        }
        Ok(found)
    }

    fn expects_fresh<'c>(
        &self,
        claims: impl ExactSizeIterator<Item = &'c ClaimParams<'c>>,
    ) -> bool {
        let all = claims.len();
        let duplicates = claims.filter(|claim| self.estimator.expects_duplicate(claim.key()));
        // Up to an eighth of duplicates cost no more than a second statement.
        duplicates.count() * 8 <= all
    }

    /// Claims the keys that have no row.
    async fn insert_round(
        &self,
        session: &mut Session<'_>,
        claims: &[ClaimParams<'_>],
        answers: &mut Answers,
    ) -> Result<()> {
        let values: Vec<_> = claims.iter().map(ClaimParams::values).collect();
        let query = self.sql.insert_many.with_all(&values)?;
        let claims: Vec<_> = claims.iter().collect();
        let rows = session.rows(query, Access::Write).await?;
        let mut next = 0;
        for row in &rows {
            let columns = Columns::of(row);
            if let Some(at) = index_of(&claims, next, row::key(columns, 2)?) {
                next = at + 1;
                let claim = claims[at].inserted(columns.number(0)?);
                answers[at] = Some(Ok(ClaimOutcome::Acquired(claim)));
            }
        }
        Ok(())
    }

    async fn decide_round(
        &self,
        session: &mut Session<'_>,
        claims: &[&ClaimParams<'_>],
    ) -> Result<Answers> {
        let values: Vec<_> = claims.iter().map(|claim| claim.values()).collect();
        let query = self.sql.claim_many.with_all(&values)?;
        let rows = session.rows(query, Access::Write).await?;
        let mut answers = unanswered(claims.len());
        let mut next = 0;
        for row in &rows {
            let columns = Columns::of(row);
            if let Some(at) = index_of(claims, next, row::key(columns, Columns::AFTER)?) {
                next = at + 1;
                let request = claims[at].request;
                let outcome = columns.outcome(request)?;
                // A record that has to be failed first is claimed alone, as is one that standbys may
                // have to have first.
                let is_alone = is_abandoned(&outcome, request)
                    || self.config.waits_for_standbys()
                        && !matches!(outcome, ClaimOutcome::Acquired(_));
                answers[at] = (!is_alone).then_some(Ok(outcome));
            }
        }
        Ok(answers)
    }
}

/// Returns the index of the key among the claims, which are sorted; mostly it is the next one.
fn index_of(claims: &[&ClaimParams<'_>], next: usize, key: KeyParts<'_>) -> Option<usize> {
    if claims
        .get(next)
        .is_some_and(|next| parts(next.key()) == key)
    {
        return Some(next);
    }
    claims
        .binary_search_by(|claim| parts(claim.key()).cmp(&key))
        .ok()
}
