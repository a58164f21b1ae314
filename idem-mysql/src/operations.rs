//! The operations except claims, on a connection of the store or in a caller's transaction.

use std::sync::{Arc, OnceLock};

use idem_core::backend::{DuplicateEstimator, LockedKeys, StoredRecord};
use idem_core::{Advance, Claim, Effect, Error, ErrorKind, Key, Limits, Record, Result};
use idem_sql::cells::{self, Row};
use idem_sql::operations::{self, Operations as _, Read, Write};
use idem_sql::parameters::{Parameter, Value, Values};
use idem_sql::step::{Step, not_advanced};

use crate::claim::after;
use crate::config::Config;
use crate::counters::Counters;
use crate::error::Access;
use crate::row::Columns;
use crate::server::{Facts, Server};
use crate::session::{MAX_RACES, Session};
use crate::statements::{Dialect, Statements};

/// The state that all operations need beside a session.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) config: Config,
    texts: [Statements; 2],
    pub(crate) counters: Counters,
    pub(crate) estimator: DuplicateEstimator,
    /// The keys of records, and the sources of marks, that others have locked.
    pub(crate) locked: LockedKeys,
    pub(crate) locked_marks: LockedKeys,
    facts: Arc<OnceLock<Facts>>,
}

impl Operations {
    /// `facts` are set by the first connection that the store opens, or read by the first operation.
    pub(crate) fn new(config: Config, facts: Arc<OnceLock<Facts>>) -> Self {
        Self {
            texts: [Dialect::MariaDb, Dialect::MySql]
                .map(|dialect| Statements::new(&config, dialect)),
            estimator: DuplicateEstimator::new(),
            config,
            counters: Counters::default(),
            locked: LockedKeys::new(),
            locked_marks: LockedKeys::new(),
            facts,
        }
    }

    /// Returns the facts about the server.
    pub(crate) async fn facts(&self, session: &mut Session<'_>) -> Result<Facts> {
        if self.facts.get().is_none() {
            session.open().await?;
        }
        let facts = match self.facts.get() {
            Some(facts) => *facts,
            None => {
                let read = Server::read(session).await?.facts();
                *self.facts.get_or_init(|| read)
            }
        };
        session.set_facts(facts);
        Ok(facts)
    }

    /// Returns whether a result is still there at the end of the operation that stores it: others
    /// retry failures and claim what was released. The factor is there because the server's clock
    /// counts the retention, and this machine's the timeout.
    pub(crate) fn stays(&self, state: i64, retention: i64) -> bool {
        let operation = i64::try_from(2 * self.config.timeout().as_micros()).unwrap_or(i64::MAX);
        state == StoredRecord::COMPLETED && retention > operation
    }

    fn would_stay(&self, what: Write, values: &Values<'_>) -> Result<bool> {
        if what != Write::Seal {
            return Ok(false);
        }
        let values = values.of(&[Parameter::State, Parameter::Retention])?;
        Ok(
            matches!(values[..], [Value::Number(state), Value::Number(retention)]
            if self.stays(state, retention)),
        )
    }

    /// Returns the statements in the server's dialect.
    pub(crate) async fn sql(&self, session: &mut Session<'_>) -> Result<&Statements> {
        let [maria, my] = &self.texts;
        Ok(match self.facts(session).await?.dialect {
            Dialect::MariaDb => maria,
            Dialect::MySql => my,
        })
    }
}

impl operations::Operations for Operations {
    type Session<'s> = Session<'s>;

    fn limits(&self) -> Limits {
        self.config.limits()
    }

    /// The statements return no rows, except that a renewal reads its lease afterwards. A checkpoint
    /// that changes nothing counts as written where the claim holds the record and it is stored
    /// already.
    async fn write(
        &self,
        session: &mut Self::Session<'_>,
        key: &Key,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let sql = self.sql(session).await?;
        let statement = sql.to_write(what).with(values)?;
        let mut is_written = self.write_locked(session, key, &statement).await? > 0;
        let written: Row = Box::new(());
        if what == Write::Checkpoint {
            let mut races = 0;
            while !is_written && races < MAX_RACES {
                let held = self
                    .read(session, key, Read::LastCheckpoint, values)
                    .await?;
                let Some(held) = held else {
                    break;
                };
                if is_checkpoint(&held, values)? {
                    return Ok(Some(written));
                }
                // The claim was not held when the statement ran: the server's clock has gone back
                // since, or this node has received the claim since. Or another was stored since.
                is_written = self.write_locked(session, key, &statement).await? > 0;
                races += 1;
            }
        }
        match what {
            Write::Renew if is_written => {
                let rows = session.rows(&sql.lease.with(values)?, Access::Read).await;
                let rows = rows.map_err(|error| after(true, error))?;
                if rows.is_empty() {
                    let refused = self.refuse_replica(session).await;
                    refused.map_err(|error| after(true, error))?;
                }
                let row = rows.into_iter().next();
                row.ok_or_else(renewed_and_lost).map(Some)
            }
            Write::Renew | Write::Checkpoint | Write::Force | Write::Rewrite
                if !is_written && session.is_in_doubt() =>
            {
                Err(in_doubt())
            }
            _ => Ok(is_written.then_some(written)),
        }
    }

    async fn read(
        &self,
        session: &mut Self::Session<'_>,
        _: &Key,
        what: Read,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let sql = self.sql(session).await?;
        let statement = match (what, session.is_transaction()) {
            (Read::Owned, true) => &sql.owned_latest,
            (Read::LastCheckpoint, true) => &sql.last_checkpoint_latest,
            (what, _) => sql.to_read(what),
        };
        let rows = session.rows(&statement.with(values)?, Access::Read).await?;
        let state = |row: &Row| cells::Columns::of(row).number(0);
        let shows_less = match (what, rows.first()) {
            (Read::Owned | Read::LastCheckpoint | Read::Record, None) => true,
            // The step that has changed nothing would have ended the claim.
            (Read::Owned, Some(row)) => state(row)? == StoredRecord::IN_FLIGHT,
            _ => false,
        };
        if shows_less {
            self.refuse_replica(session).await?;
        }
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        let counts = what != Read::Watermark || Mark::of(&row)?.is_live;
        Ok(counts.then_some(row))
    }

    async fn list(&self, session: &mut Self::Session<'_>, values: &Values<'_>) -> Result<Vec<Row>> {
        let sql = self.sql(session).await?;
        session.rows(&sql.list.with(values)?, Access::Read).await
    }

    fn record(row: &Row) -> Result<Option<Record>> {
        Columns::of(row)?.record().map(Some)
    }

    async fn step(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Step<Row>> {
        let done = self.step_once(session, claim, what, values).await;
        done.map_err(|error| match error.kind() {
            // What the record shows is certain.
            ErrorKind::ClaimLost | ErrorKind::AlreadySealed => error,
            _ => after(session.has_perhaps_ended(claim.key()), error),
        })
    }

    /// Reads first, because a stale version or a repetition is then answered without a write. The
    /// count of the raising statement proves whether this call raised the mark.
    async fn raise(
        &self,
        session: &mut Self::Session<'_>,
        source: &Key,
        version: u64,
        values: &Values<'_>,
        tries: u32,
    ) -> Result<Option<Advance>> {
        let sql = self.sql(session).await?;
        let read = match tries > 0 && session.is_transaction() {
            true => &sql.watermark_latest,
            false => &sql.watermark,
        };
        let rows = session.rows(&read.with(values)?, Access::Read).await?;
        let mark = rows.first().map(Mark::of).transpose()?;
        if let Some(mark) = mark
            && mark.is_live
            && mark.version >= version
        {
            if session.is_in_doubt() {
                return Err(in_doubt());
            }
            return Ok(Some(not_advanced(mark.version, version)));
        }
        let permit = self.permit(&self.locked_marks, session, source).await?;
        let Some(permit) = permit else {
            return Ok(None);
        };
        let raised = match (mark.is_some(), session.is_transaction()) {
            (true, _) => session.write(&sql.raise.with(values)?).await,
            (false, true) => {
                let first = sql.first_mark_plain.with(values)?;
                self.insert_in(session, &first).await
            }
            (false, false) => {
                self.without_gaps(session).await?;
                session.write(&sql.first_mark.with(values)?).await
            }
        };
        let is_raised = permit.settle(source, raised)? > 0;
        Ok(is_raised.then_some(Advance::Advanced))
    }
}

impl Operations {
    /// Refuses the replica to which a proxy may send reads, after a read that shows less than the
    /// primary may have. In a caller's transaction, the server is the one that writes.
    pub(crate) async fn refuse_replica(&self, session: &mut Session<'_>) -> Result<()> {
        match session.is_transaction() {
            true => Ok(()),
            false => Server::read(session).await?.check_reads(),
        }
    }

    async fn step_once(
        &self,
        session: &mut Session<'_>,
        claim: &Claim,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Step<Row>> {
        if let Some(row) = self.write(session, claim.key(), what, values).await? {
            return Ok(Step::Done(row));
        }
        match self.owned(session, claim).await? {
            // The record shows whether it was this step that ended the claim. So does its absence,
            // where it would have stayed.
            None if session.is_in_doubt() && !self.would_stay(what, values)? => Err(in_doubt()),
            owned => Step::met(owned),
        }
    }
}

/// Returns the error of a write that a node has refused, and that has changed nothing when it
/// was sent again: what the first one did is not to be seen any more.
fn in_doubt() -> Error {
    let why = "the node refused the write (1213, 3101), and may have lost the other nodes meanwhile, \
               which may have it; ask again";
    Error::new(ErrorKind::Contention, Effect::Unknown, why)
}

/// Returns the error of a renewal that others have seen, and whose claim was lost before its lease was
/// read: this caller was paused for that long. `ClaimLost` would say that nothing was renewed.
fn renewed_and_lost() -> Error {
    let why = "the lease was extended, and is over or was taken away already; ask again";
    Error::new(ErrorKind::Contention, Effect::Unknown, why)
}

/// Returns whether the row of [`Read::LastCheckpoint`] is the checkpoint of the values.
fn is_checkpoint(row: &Row, values: &Values<'_>) -> Result<bool> {
    let stored = cells::Columns::of(row).optional_bytes(0)?;
    let sent = values.of(&[Parameter::Result])?;
    Ok(matches!(&sent[..], [Value::Bytes(sent)] if stored == Some(&**sent)))
}

/// A mark, as the store read it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    version: u64,
    is_live: bool,
}

impl Mark {
    fn of(row: &Row) -> Result<Self> {
        let row = cells::Columns::of(row);
        Ok(Self {
            version: row.number(0)?.cast_unsigned(),
            is_live: row.number(1)? != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::Duration;

    use idem_core::{AttemptId, Checkpoint, FencingToken, Timestamp, async_trait};
    use idem_sql::cells::{Cells, unexpected};
    use idem_sql::executor::{Answer, BoundStatement, Executor};

    use super::*;
    use crate::drivers::BoxExecutor;
    use crate::drivers::connected::Connected;

    /// A server that has the next of these checkpoints in the claim's record whenever a statement
    /// comes, or no record that is live. No real one can be told to set its clock back just then.
    #[derive(Debug)]
    struct Scripted {
        moments: VecDeque<Option<Vec<u8>>>,
        stored: bool,
    }

    impl Connected for Scripted {
        fn executor(&mut self) -> Result<BoxExecutor<'_>> {
            Ok(Box::new(Statements(self)))
        }
    }

    #[derive(Debug)]
    struct Statements<'s>(&'s mut Scripted);

    #[derive(Debug)]
    struct Stored(Vec<u8>);

    impl Cells for Stored {
        fn width(&self) -> usize {
            1
        }

        fn number(&self, index: usize) -> Result<Option<i64>> {
            Err(unexpected(index))
        }

        fn bytes(&self, _: usize) -> Result<Option<&[u8]>> {
            Ok(Some(&self.0))
        }
    }

    #[async_trait]
    impl Executor for Statements<'_> {
        type Error = idem_core::Error;

        /// Without `CLIENT_FOUND_ROWS`: what is stored already does not count.
        async fn run(&mut self, statement: &BoundStatement<'_>) -> Result<Answer> {
            let moment = self.0.moments.pop_front().expect("another statement");
            let mut answer = Answer::default();
            if statement.text.contains(" SET result = ") {
                let [Value::Bytes(sent), ..] = &statement.values[..] else {
                    panic!("{statement:?}");
                };
                let changes = moment.is_some_and(|stored| stored[..] != sent[..]);
                self.0.stored |= changes;
                answer.affected = u64::from(changes);
            } else if statement.text.contains(" expires_at = expires_at + ") {
                answer.affected = u64::from(moment.is_some());
            } else if statement.text.starts_with("SELECT result ") {
                answer
                    .rows
                    .extend(moment.map(|stored| -> Row { Box::new(Stored(stored)) }));
            }
            Ok(answer)
        }
    }

    fn operations() -> Operations {
        let facts = Facts {
            dialect: Dialect::MariaDb,
            keeps_transaction: true,
            is_galera: false,
            locks_gaps: false,
        };
        Operations::new(Config::new(), Arc::new(OnceLock::from(facts)))
    }

    fn claim() -> Claim {
        let key = Key::new("tenant", "operation", "id").unwrap();
        Claim::new(
            key,
            FencingToken::from_i64(7),
            AttemptId::random(),
            1,
            Timestamp::from_micros(0),
            Timestamp::from_micros(1),
        )
    }

    async fn checkpoint(moments: &[Option<&str>]) -> (Result<()>, bool) {
        let operations = operations();
        let encoded = |text: &str| {
            let checkpoint = Checkpoint::new("step", text.to_owned()).unwrap();
            checkpoint.encode(&operations.limits()).unwrap().to_vec()
        };
        let mut server = Scripted {
            moments: moments.iter().map(|text| text.map(encoded)).collect(),
            stored: false,
        };
        let claim = claim();
        let new = Checkpoint::new("step", "new").unwrap();
        let mut session = Session::in_transaction(&mut server, &operations.counters).unwrap();
        let storing = operations.checkpoint(&mut session, &claim, &new);
        // With every driver it is large.
        let result = Box::pin(storing).await;
        drop(session);
        assert!(server.moments.is_empty(), "{server:?}");
        (result, server.stored)
    }

    #[tokio::test]
    async fn a_renewal_that_others_have_seen_does_not_say_that_nothing_happened() {
        let operations = operations();
        for (moments, kind, effect) in [
            // UPDATE, and what the record is instead.
            (vec![None, None], ErrorKind::ClaimLost, Effect::None),
            // A sweep comes between the UPDATE and its SELECT.
            (
                vec![Some(Vec::new()), None],
                ErrorKind::Contention,
                Effect::Unknown,
            ),
        ] {
            let mut server = Scripted {
                moments: moments.into(),
                stored: false,
            };
            let mut session = Session::in_transaction(&mut server, &operations.counters).unwrap();
            let claim = claim();
            let renewing = operations.renew(&mut session, &claim, Duration::from_secs(1));
            let error = Box::pin(renewing).await.unwrap_err();
            assert_eq!((error.kind(), error.effect()), (kind, effect));
            drop(session);
            assert!(server.moments.is_empty(), "{server:?}");
        }
    }

    #[tokio::test]
    async fn a_checkpoint_counts_as_stored_only_where_it_is() {
        // UPDATE, and SELECT where it changes nothing.
        let (result, stored) = checkpoint(&[Some("old")]).await;
        assert!(result.is_ok() && stored);
        let (result, stored) = checkpoint(&[Some("new"), Some("new")]).await;
        assert!(result.is_ok() && !stored);
        // The clock goes back after the UPDATE, to before the end of the record.
        let (result, stored) = checkpoint(&[None, Some("old"), Some("old")]).await;
        assert!(result.is_ok() && stored, "{result:?}");
        // Another call of the same holder comes between.
        let (result, stored) = checkpoint(&[Some("new"), Some("other"), Some("other")]).await;
        assert!(result.is_ok() && stored, "{result:?}");
        // UPDATE, SELECT, and what the record is instead.
        let (result, stored) = checkpoint(&[None, None, None]).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ClaimLost);
        assert!(!stored);
        // A pooler that reads from a server behind shows the claim to every SELECT.
        let mut behind = vec![None];
        for _ in 0..MAX_RACES {
            behind.extend([Some("old"), None]);
        }
        behind.push(None);
        let (result, stored) = checkpoint(&behind).await;
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ClaimLost);
        assert!(!stored);
    }
}
