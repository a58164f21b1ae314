//! Many claims in one statement, many completions in one transaction: one commit to disk for all.

use idem_core::backend::LockedKeys;
use idem_core::{ClaimOutcome, Error, Key, Result};
use idem_sql::batch::{Batch, Batches, CheckedFinish, RoundLimits, may_be_anothers};
use idem_sql::cells::Columns;
use idem_sql::claim::ClaimParams;

use crate::held::Name;
use crate::operations::Operations;
use crate::session::Session;
use crate::statements::{INSERTED_AT_MOST, inserted};

/// The bytes of a round: together its values are in memory some three times.
const MAX_BYTES: usize = 8 << 20;

impl Operations {
    /// Returns whether a round may write the record. In a transaction it may, in its turn.
    async fn is_free(&self, session: &mut Session<'_>, key: &Key) -> Result<bool> {
        let name = Name::record(key);
        if session.commits_each() {
            return Ok(!session.is_held_elsewhere(&name)?);
        }
        session.turn(&name, self.config.retry_timeout()).await?;
        Ok(true)
    }
}

impl Batches for Operations {
    const AT_A_TIME: usize = 4;

    async fn round_limits(&self, _: &mut Self::Session<'_>) -> RoundLimits {
        RoundLimits {
            items: INSERTED_AT_MOST,
            bytes: MAX_BYTES,
            beside: |_: &Key| 0,
        }
    }

    fn turns(&self) -> Option<&LockedKeys> {
        None
    }

    /// A conflict is of one key, and fails the whole round.
    fn is_asked_singly(error: &Error) -> bool {
        may_be_anothers(error)
    }

    fn beside<'s>(session: &Self::Session<'s>) -> Option<Self::Session<'s>> {
        match session {
            Session::Store(pool, config) => Some(Session::Store(pool, config)),
            Session::Transaction(_) => None,
        }
    }

    /// Answers expected duplicates by a read.
    async fn read_first(
        &self,
        session: &mut Self::Session<'_>,
        batch: &mut Batch<ClaimParams<'_>, ClaimOutcome>,
    ) {
        let expects = |claim: &ClaimParams<'_>| {
            let key = claim.request.key();
            self.estimator.expects_duplicate(key)
        };
        let mut open = Vec::new();
        for (position, claim) in batch.take(expects) {
            match self.held(session, &claim).await.transpose() {
                Some(answer) => batch.answer(position, answer),
                None => open.push((position, claim)),
            }
        }
        batch.put_back(open);
    }

    /// Inserts the claims whose keys have no row: such a claim is won. The others are sent alone,
    /// and so are those whose keys an open transaction holds.
    async fn claim_round(
        &self,
        session: &mut Self::Session<'_>,
        claims: &[ClaimParams<'_>],
    ) -> Result<Vec<Option<Result<ClaimOutcome>>>> {
        let mut values = Vec::with_capacity(claims.len());
        for claim in claims {
            let key = claim.request.key();
            if self.is_free(session, key).await? {
                values.push(inserted(key, &claim.values())?);
            }
        }
        if values.is_empty() {
            return Ok(claims.iter().map(|_| None).collect());
        }
        let rows = session.write(self.sql.insert_many(values)).await?;
        let mut tokens = std::collections::HashMap::with_capacity(rows.len());
        for row in &rows {
            let row = Columns::of(row);
            tokens.insert(row.bytes(0)?, row.number(1)?);
        }
        let answer = |claim: &ClaimParams<'_>| {
            let key = claim.request.key();
            let token = *tokens.get(key.path().as_bytes())?;
            self.estimator.record(key, false);
            Some(Ok(ClaimOutcome::Acquired(claim.inserted(token))))
        };
        Ok(claims.iter().map(answer).collect())
    }

    async fn finish_round(
        &self,
        session: &mut Self::Session<'_>,
        items: &[CheckedFinish<'_>],
    ) -> Result<Vec<bool>> {
        let statement = |item: &CheckedFinish<'_>| match item.result.is_release() {
            true => self.sql.release.with(&item.values()),
            false => self.sql.seal.with(&item.values()),
        };
        let (mut sent, mut statements) = (Vec::with_capacity(items.len()), Vec::new());
        for (index, item) in items.iter().enumerate() {
            if self.is_free(session, item.claim.key()).await? {
                sent.push(index);
                statements.push(statement(item)?);
            }
        }
        let mut done = vec![false; items.len()];
        if !statements.is_empty() {
            let rows = session.write_all(statements).await?;
            for (index, rows) in sent.into_iter().zip(rows) {
                done[index] = !rows.is_empty();
            }
        }
        Ok(done)
    }

    /// The record exists, so a read comes first.
    async fn claim_alone(
        &self,
        session: &mut Self::Session<'_>,
        claim: &ClaimParams<'_>,
    ) -> Result<ClaimOutcome> {
        self.claim_with(session, claim, false).await
    }
}
