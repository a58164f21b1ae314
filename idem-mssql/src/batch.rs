//! Many claims or completions in one statement.

use std::collections::{HashMap, HashSet};

use idem_core::backend::LockedKeys;
use idem_core::backend::decision::is_abandoned;
use idem_core::{ClaimOutcome, Error, Key, Result};
use idem_sql::batch::{Batches, CheckedFinish, Item as _, RoundLimits};
use idem_sql::cells::Columns;
use idem_sql::claim::ClaimParams;
use idem_sql::parameters::{Parameter, Value};

use crate::dialect::Dialect;
use crate::error::{Access, is_lock_timeout, is_lost_race, is_overflow, is_unknown_statement};
use crate::operations::Operations;
use crate::session::Query;
use crate::statements::{SIZES, Statements};

/// The limits of one statement, in bytes of results; larger batches take several statements.
const LIMITS: RoundLimits = RoundLimits {
    items: SIZES[SIZES.len() - 1],
    bytes: 16 << 20,
    beside: |_| 0,
};

type KeyParts<'k> = (&'k [u8], &'k [u8], &'k [u8]);

fn parts(key: &Key) -> KeyParts<'_> {
    (
        key.scope().as_bytes(),
        key.operation().as_bytes(),
        key.id().as_bytes(),
    )
}

impl Batches for Operations {
    const AT_A_TIME: usize = 4;

    async fn round_limits(&self, _: &mut Self::Session<'_>) -> RoundLimits {
        LIMITS
    }

    fn turns(&self) -> Option<&LockedKeys> {
        Some(&self.locked)
    }

    /// Either one item lost a race, is locked, or has a token that cannot grow, which does not
    /// concern the others. Or the server, which may not be SQL Server, does not know the statement
    /// of a batch.
    fn is_asked_singly(error: &Error) -> bool {
        is_lost_race(error)
            || is_lock_timeout(error)
            || is_overflow(error)
            || is_unknown_statement(error)
    }

    fn beside<'s>(session: &Self::Session<'s>) -> Option<Self::Session<'s>> {
        session.beside()
    }

    async fn claim_alone(
        &self,
        session: &mut Self::Session<'_>,
        claim: &ClaimParams<'_>,
    ) -> Result<ClaimOutcome> {
        self.claim_checked(session, claim).await
    }

    async fn claim_round(
        &self,
        session: &mut Self::Session<'_>,
        claims: &[ClaimParams<'_>],
    ) -> Result<Vec<Option<Result<ClaimOutcome>>>> {
        let sql = &self.sql;
        let (statements, by_rows) = match self.dialect(session).await? {
            Dialect::Merge => (&sql.claim_many_by_merge, Some(&sql.claim_many_by_rows)),
            Dialect::Rows => (&sql.claim_many_by_rows, None),
            Dialect::Insert => (&sql.claim_many_by_insert, None),
        };
        let (statement, size) = Statements::sized(statements, claims.len());
        let by_rows = by_rows.map(|sized| Statements::sized(sized, claims.len()).0);
        let values: Vec<_> = claims.iter().map(ClaimParams::values).collect();
        let mut bound = vec![count(claims.len())];
        for values in filled(&values, size) {
            bound.extend(values.of(&statement.parameters)?);
        }
        let query = Query::new(statement, bound).or_by_rows(by_rows);
        let rows = session.rows(query, Access::Write).await?;
        let indexes: HashMap<KeyParts<'_>, usize> = claims
            .iter()
            .enumerate()
            .map(|(index, claim)| (parts(claim.key()), index))
            .collect();
        let mut answers: Vec<_> = claims.iter().map(|_| None).collect();
        for row in &rows {
            let columns = Columns::of(row);
            if let Some(&index) = indexes.get(&key_at(columns, Columns::AFTER)?) {
                let request = claims[index].request;
                let outcome = columns.outcome(request)?;
                answers[index] = (!is_abandoned(&outcome, request)).then_some(Ok(outcome));
            }
        }
        Ok(answers)
    }

    async fn finish_round(
        &self,
        session: &mut Self::Session<'_>,
        items: &[CheckedFinish<'_>],
    ) -> Result<Vec<bool>> {
        let (statement, size) = Statements::sized(&self.sql.finish_many, items.len());
        let counted: Vec<_> = items.iter().map(CheckedFinish::values).collect();
        // The rows that do not count need no copy of a result.
        let spare = items.first().map(CheckedFinish::values).unwrap_or_default();
        let spare = spare.with(Parameter::Result, &[][..]);
        let mut bound = vec![count(items.len())];
        let all = counted.iter().chain(std::iter::repeat(&spare));
        for values in all.take(size) {
            bound.extend(values.of(&statement.parameters)?);
        }
        let query = Query::new(statement, bound);
        let rows = session.rows(query, Access::Write).await?;
        let mut finished: HashSet<KeyParts<'_>> = HashSet::with_capacity(rows.len());
        for row in &rows {
            finished.insert(key_at(Columns::of(row), 0)?);
        }
        let is_finished = |item: &CheckedFinish<'_>| finished.contains(&parts(item.key()));
        Ok(items.iter().map(is_finished).collect())
    }
}

/// Returns the items, then the first one again until the statement is full.
fn filled<T>(items: &[T], size: usize) -> impl Iterator<Item = &T> {
    let fill = items.iter().take(1).cycle();
    items.iter().chain(fill).take(size)
}

/// Converts the count; a batch has fewer items than the server's numbers can count.
fn count(items: usize) -> Value<'static> {
    Value::Count(i32::try_from(items).unwrap_or(i32::MAX))
}

/// Returns scope, operation and id, in the columns from this index on.
fn key_at<'r>(row: Columns<'r>, index: usize) -> Result<KeyParts<'r>> {
    Ok((
        row.bytes(index)?,
        row.bytes(index + 1)?,
        row.bytes(index + 2)?,
    ))
}
