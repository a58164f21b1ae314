//! The claim: which statement comes first, and what each one proves.
//!
//! | round trips | lookup first | insert first |
//! | --- | --- | --- |
//! | duplicate | 1 | 2 |
//! | fresh key | 2 | 1 |
//! | fresh key in a caller's transaction, MariaDB | 2: the insert returns its row (`RETURNING`) | |
//! | fresh key in a caller's transaction, MySQL | 3 | |
//! | completion, release | 1 | |
//!
//! A count of 1 for the `INSERT IGNORE` proves the winner, with and without the driver's
//! `CLIENT_FOUND_ROWS`; the token, the server's clock, comes back as the insert id. A duplicate
//! that inserts first meets the lock of a caller that changes the record at that moment. So keys of
//! operations that the store has seen in callers' transactions are always read first.

use idem_core::backend::{LockedKeys, encode_failure};
use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Key, Result,
};
use idem_sql::cells::Row;
use idem_sql::claim::ClaimParams;
use idem_sql::executor::BoundStatement;
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{MAX_RETRIES, key_changed_hands};

use crate::error::{Access, is_null_refused};
use crate::operations::Operations;
use crate::row::{Columns, RecordState};
use crate::session::Session;
use crate::statements::Dialect;

/// The result of an INSERT.
enum Inserted {
    /// The record is this claim's.
    Own(Claim),
    /// The record may be this claim's.
    Perhaps,
    /// The key had a record, and nothing was written.
    Nothing,
}

/// The result of a claim for the record that it has met.
enum Met {
    Answer(ClaimOutcome),
    /// A write, whose effect the next read shows.
    Written,
    /// Nothing was written: another caller's turn has ended, or another came first.
    Again,
}

/// Returns whether the key is locked, as the server or the store knows.
fn is_refused(error: &Error) -> bool {
    error.kind() == ErrorKind::Contention && error.effect() == Effect::None
}

/// Adjusts the error of a statement that may follow one that wrote.
pub(crate) fn after(has_written: bool, error: Error) -> Error {
    match has_written {
        true => error.with_effect(Effect::Unknown),
        false => error,
    }
}

impl Operations {
    /// Inserts first where keys are mostly fresh, and reads first where they mostly are not: a read
    /// answers a duplicate without an attempt to write. Either way a write proves the winner: the
    /// count of the insert, or the row that carries this attempt's id after a write of this call.
    ///
    /// A locked key is read all the same, because the committed record may answer. Where it does
    /// not, the claim gets `Contention`.
    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let answer = self.claim_once(session, request).await;
        // The store itself may refuse, too, after a statement in doubt of this claim or of its batch.
        answer.map_err(|error| session.doubted(error))
    }

    async fn claim_once(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let params = ClaimParams::new(request, &self.config.limits())?;
        let key = request.key();
        if !session.is_transaction() && self.locked.is_locked(key) {
            let lost = self.locked.read(key, self.lost(session, &params)).await?;
            return lost.ok_or_else(LockedKeys::error);
        }
        let mut absent = !session.is_transaction() && self.inserts_first(key);
        let (mut has_looked, mut has_written) = (false, false);
        for _ in 0..MAX_RETRIES {
            if absent {
                match self.insert_permitted(session, &params).await {
                    Ok(Inserted::Own(claim)) => {
                        self.estimator.record(request.key(), false);
                        return Ok(ClaimOutcome::Acquired(claim));
                    }
                    Ok(Inserted::Perhaps) => has_written = true,
                    // An insert in doubt proves nothing: the record that carries this attempt's id
                    // may be that of an earlier call, whose lease would not begin anew.
                    Ok(Inserted::Nothing) => {}
                    Err(error) if has_looked || !is_refused(&error) => {
                        return Err(after(has_written, error));
                    }
                    // The record may exist, and be locked.
                    Err(_) => {}
                }
            }
            let seen = self.lookup(session, &params, has_written).await?;
            has_looked = true;
            absent = seen.is_none();
            let Some(seen) = seen else { continue };
            match self.meet(session, &params, &seen, has_written).await {
                Ok(Met::Answer(outcome)) => return Ok(outcome),
                Ok(Met::Written) => has_written = true,
                Ok(Met::Again) => {}
                Err(error) => return Err(after(has_written, error)),
            }
        }
        let refused = self.refuse_replica(session).await;
        refused.map_err(|error| after(true, error))?;
        Err(key_changed_hands(Effect::Unknown))
    }

    /// Returns whether the insert comes before the read.
    pub(crate) fn inserts_first(&self, key: &Key) -> bool {
        let fixed = self.config.inserts_first();
        fixed.unwrap_or_else(|| !self.estimator.expects_duplicate(key))
    }

    /// Answers the claim from the committed record, if the record answers it without a write.
    async fn lost(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
    ) -> Result<Option<ClaimOutcome>> {
        let Some(seen) = self.lookup(session, params, false).await? else {
            return Ok(None);
        };
        let columns = Columns::of(&seen)?;
        match columns.state_for(params.request) {
            RecordState::Held => columns.stored()?.loses(params.request).map(Some),
            RecordState::Own | RecordState::Free | RecordState::Abandoned => Ok(None),
        }
    }

    /// Answers the claim from the record, or changes the record.
    async fn meet(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        seen: &Row,
        has_written: bool,
    ) -> Result<Met> {
        let columns = Columns::of(seen)?;
        match columns.state_for(params.request) {
            RecordState::Own if has_written => Ok(Met::Answer(ClaimOutcome::Acquired(
                columns.stored()?.claim(params.request),
            ))),
            RecordState::Held => {
                self.estimator.record(params.request.key(), true);
                columns.stored()?.loses(params.request).map(Met::Answer)
            }
            RecordState::Abandoned => self.abandon(session, params, &columns).await,
            RecordState::Free if columns.token().as_i64() == i64::MAX => Err(Error::corrupt(
                "the record's fencing token is the greatest that there is, so no claim can be given a greater one; \
                 correct or delete the row",
            )),
            RecordState::Own | RecordState::Free => {
                let (sql, key) = (self.sql(session).await?, params.request.key());
                let Some(permit) = self.permit(&self.locked, session, key).await? else {
                    return Ok(Met::Again);
                };
                let values = params.values();
                let take = sql.take.with(&values)?;
                // Nothing changed: another caller came first, and a replica may not know.
                Ok(match permit.settle(key, session.write(&take).await)? {
                    0 => Met::Again,
                    _ => Met::Written,
                })
            }
        }
    }

    /// Reads the record, if there is one. After a write, the read shows what the write has met; if
    /// the read fails, the effect of the write is unknown.
    async fn lookup(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        has_written: bool,
    ) -> Result<Option<Row>> {
        let sql = self.sql(session).await?;
        let statement = match (session.is_transaction(), has_written) {
            (true, true) => &sql.lookup_latest,
            (true, false) => &sql.lookup_in,
            (false, _) => &sql.lookup,
        };
        let values = Values::of_key(params.request.key());
        let rows = session.rows(&statement.with(&values)?, Access::Read).await;
        let rows = rows.map_err(|error| after(has_written, error))?;
        Ok(rows.into_iter().next())
    }

    /// Inserts the record if there is none, when it is this caller's turn.
    async fn insert_permitted(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
    ) -> Result<Inserted> {
        let key = params.request.key();
        match self.permit(&self.locked, session, key).await? {
            Some(permit) => permit.settle(key, self.insert(session, params).await),
            // Another caller's turn has ended, and the record may exist.
            None => Ok(Inserted::Nothing),
        }
    }

    async fn insert(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
    ) -> Result<Inserted> {
        let (sql, values) = (self.sql(session).await?, params.values());
        // In a caller's transaction the insert id is the caller's.
        if !session.is_transaction() {
            self.without_gaps(session).await?;
            let (statement, _) = sql.insert_new.at_least(1);
            let mut bound = Vec::new();
            sql.add_probe(&mut bound, params.request.key());
            bound.extend(values.of(sql.insert_new.item())?);
            let done = session
                .answer(&statement.bound(bound), Access::Write)
                .await?;
            return Ok(match (done.affected, done.insert_id) {
                (0, _) => Inserted::Nothing,
                // A proxy has dropped the insert id.
                (_, 0) => Inserted::Perhaps,
                (_, token) => Inserted::Own(params.inserted(token.cast_signed())),
            });
        }
        if self.facts(session).await?.dialect == Dialect::MariaDb {
            let statement = sql.insert_returning.with(&values)?;
            let rows = session.rows(&statement, Access::Write).await?;
            let columns = rows.first().map(Columns::of).transpose()?;
            // A loser's row comes without the result, which the next read returns.
            return Ok(match columns {
                Some(columns) if columns.state_for(params.request) == RecordState::Own => {
                    Inserted::Own(columns.stored()?.claim(params.request))
                }
                _ => Inserted::Perhaps,
            });
        }
        match session.write(&sql.insert.with(&values)?).await {
            Err(error) if is_null_refused(&error) => {
                let statement = sql.insert_plain.with(&values)?;
                self.insert_in(session, &statement).await?;
            }
            done => drop(done?),
        }
        Ok(Inserted::Perhaps)
    }

    /// Keeps the next statement from locking gaps, where a caller's session does: two statements
    /// that probe for neighbouring keys would block each other's inserts. The store's own sessions
    /// never lock gaps.
    pub(crate) async fn without_gaps(&self, session: &mut Session<'_>) -> Result<()> {
        let facts = self.facts(session).await?;
        if session.is_callers() && facts.dialect == Dialect::MySql && facts.locks_gaps {
            let level = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
            session.unprepared(level).await?;
        }
        Ok(())
    }

    /// Sends an INSERT in a caller's transaction that may lock gaps until its end, so without a
    /// probe. On MySQL the session waits one second for a lock, the shortest time that it knows;
    /// afterwards its setting is restored.
    pub(crate) async fn insert_in(
        &self,
        session: &mut Session<'_>,
        statement: &BoundStatement<'_>,
    ) -> Result<u64> {
        if self.facts(session).await?.dialect == Dialect::MariaDb {
            return session.write(statement).await;
        }
        session
            .unprepared(
                "SET @idem_lock_wait = @@innodb_lock_wait_timeout, \
                 SESSION innodb_lock_wait_timeout = 1",
            )
            .await?;
        let done = session.write(statement).await;
        session
            .unprepared("SET SESSION innodb_lock_wait_timeout = @idem_lock_wait")
            .await
            .map_err(|error| after(true, error))?;
        done
    }

    /// Fails the stale record that was read, unless it has changed since.
    async fn abandon(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
        seen: &Columns<'_>,
    ) -> Result<Met> {
        let failure = encode_failure(&Failure::abandoned())?;
        let (sql, key, token) = (self.sql(session).await?, params.request.key(), seen.token());
        let Some(permit) = self.permit(&self.locked, session, key).await? else {
            return Ok(Met::Again);
        };
        let values = Values::of_key(key)
            .with(Parameter::Token, token.as_i64())
            .with(Parameter::Result, &failure[..]);
        let statement = sql.abandon.with(&values)?;
        let failed = permit.settle(key, session.write(&statement).await)?;
        if failed == 0 {
            // Its holder came first, or another caller.
            return Ok(Met::Again);
        }
        let row = self.lookup(session, params, true).await?;
        let columns = row.as_ref().map(Columns::of).transpose()?;
        match columns {
            Some(columns) if columns.is_failed(token) => {
                columns.stored()?.loses(params.request).map(Met::Answer)
            }
            _ => Ok(Met::Written),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Config;

    fn inserts_first(samples: &[bool]) -> bool {
        let operations = Operations::new(Config::new(), Arc::default());
        let key = Key::new("tenant", "pay", "one").unwrap();
        for &has_record in samples {
            operations.estimator.record(&key, has_record);
        }
        operations.inserts_first(&key)
    }

    #[test]
    fn the_estimator_decides_the_order() {
        assert!(inserts_first(&[]), "nothing is known yet");
        assert!(inserts_first(&[false; 50]));
        assert!(!inserts_first(&[true; 50]));
    }
}
