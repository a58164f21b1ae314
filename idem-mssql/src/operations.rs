//! The operations, on the pool or in a caller's transaction.

use idem_core::backend::{LockedKeys, StoredRecord, encode_failure};
use idem_core::{
    Advance, Claim, ClaimOutcome, ClaimRequest, Effect, Error, Failure, Key, Limits, Result,
};
use idem_sql::cells::{Columns, Row};
use idem_sql::claim::ClaimParams;
use idem_sql::maintenance::Task;
use idem_sql::operations::{self, Operations as _, Read, Write};
use idem_sql::parameters::{Parameter, Values};
use idem_sql::step::{MAX_RETRIES, Step, key_changed_hands, not_advanced};
use tokio::sync::OnceCell;

use crate::config::Config;
use crate::dialect::{Dialect, Server};
use crate::error::{Access, is_lost_race};
use crate::executor::ClientExecutor;
use crate::pool::Client;
use crate::session::{Query, Session};
use crate::statements::{Statement, Statements};

/// The most rows that one statement of `delete_expired` or `fail_abandoned` takes: below the 5,000
/// locks at which the server locks the table.
const MAX_LOCKED_ROWS: u32 = 1_000;

/// The state that all operations need beside a session.
#[derive(Debug)]
pub(crate) struct Operations {
    pub(crate) config: Config,
    pub(crate) sql: Statements,
    /// The keys of records, and sources of watermarks, that open transactions hold locked.
    pub(crate) locked: LockedKeys,
    pub(crate) locked_marks: LockedKeys,
    server: OnceCell<Server>,
}

impl Operations {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            sql: Statements::new(&config),
            locked: LockedKeys::new(),
            locked_marks: LockedKeys::new(),
            server: OnceCell::new(),
            config,
        }
    }

    /// Returns how claims are made on this server.
    pub(crate) async fn dialect(&self, session: &mut Session<'_>) -> Result<Dialect> {
        match Dialect::forced(self.config.claim_method()) {
            Some(dialect) => Ok(dialect),
            None => self.server(session).await.map(Dialect::of),
        }
    }

    /// Returns the maker of the server, which is read once.
    pub(crate) async fn server(&self, session: &mut Session<'_>) -> Result<Server> {
        let asked = self.server.get_or_try_init(|| self.ask_server(session));
        asked.await.copied()
    }

    async fn ask_server(&self, session: &mut Session<'_>) -> Result<Server> {
        let version = self.server_version(session).await?;
        if let server @ (Server::Babelfish | Server::Other) = Server::of_version(&version) {
            return Ok(server);
        }
        let query = Query::new(&self.sql.babelfish, Vec::new());
        let rows = session.rows(query, Access::Read).await?;
        let row = rows.first().map(|row| row.text(0));
        Ok(match row.transpose()?.flatten() {
            Some(_) => Server::Babelfish,
            None => Server::Microsoft,
        })
    }

    /// Creates a session in the caller's transaction.
    pub(crate) async fn in_transaction<'s>(&self, client: &'s mut Client) -> Result<Session<'s>> {
        let mut session = Session::Transaction(Box::new(ClientExecutor(client)), Server::Other);
        let server = self.server(&mut session).await?;
        if let Session::Transaction(_, product) = &mut session {
            *product = server;
        }
        Ok(session)
    }

    /// Returns the version that the server reports.
    pub(crate) async fn server_version(&self, session: &mut Session<'_>) -> Result<String> {
        let query = Query::new(&self.sql.server, Vec::new());
        let rows = session.rows(query, Access::Read).await?;
        let text = rows.first().map(|row| row.text(0));
        Ok(text.transpose()?.flatten().unwrap_or_default().to_owned())
    }

    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let params = ClaimParams::new(request, &self.config.limits())?;
        self.claim_checked(session, &params).await
    }

    pub(crate) async fn claim_checked(
        &self,
        session: &mut Session<'_>,
        params: &ClaimParams<'_>,
    ) -> Result<ClaimOutcome> {
        let (request, values) = (params.request, params.values());
        let sql = &self.sql;
        let (statement, by_rows) = match self.dialect(session).await? {
            Dialect::Merge => (&sql.claim_by_merge, Some(&sql.claim_by_rows)),
            Dialect::Rows => (&sql.claim_by_rows, None),
            Dialect::Insert => (&sql.claim_by_insert, None),
        };
        let lookup = Query::of(&sql.lookup, &values)?;
        let query = Query::of(statement, &values)?.or_by_rows(by_rows);
        for _ in 0..MAX_RETRIES {
            let key = request.key();
            let asked = self.look_or_in_turn(session, &self.locked, key, &lookup, &query);
            let rows = match asked.await {
                Err(error) if is_lost_race(&error) && session.repeats() => continue,
                rows => rows?,
            };
            let Some(row) = rows.first() else {
                tokio::task::yield_now().await;
                continue;
            };
            if let Some(outcome) = self.claimed(session, request, row).await? {
                return Ok(outcome);
            }
        }
        Err(key_changed_hands(Effect::None))
    }

    pub(crate) async fn maintain(
        &self,
        session: &mut Session<'_>,
        task: Task,
        limit: u32,
    ) -> Result<u64> {
        let failure = encode_failure(&Failure::abandoned())?;
        let statement = match task {
            Task::DeleteExpired => &self.sql.delete_expired,
            Task::FailAbandoned => &self.sql.fail_abandoned,
            Task::DeleteExpiredWatermarks => &self.sql.delete_expired_watermarks,
        };
        let values = Values::default().with(Parameter::Result, &failure[..]);
        in_steps(session, limit, statement, values).await
    }
}

impl operations::Operations for Operations {
    type Session<'s> = Session<'s>;

    fn limits(&self) -> Limits {
        self.config.limits()
    }

    async fn write(
        &self,
        session: &mut Self::Session<'_>,
        key: &Key,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let query = Query::of(self.sql.to_write(what), values)?;
        let written = self.in_turn(session, &self.locked, key, query, Access::Write);
        Ok(written.await?.into_iter().next())
    }

    async fn read(
        &self,
        session: &mut Self::Session<'_>,
        key: &Key,
        what: Read,
        values: &Values<'_>,
    ) -> Result<Option<Row>> {
        let locked = match what {
            Read::Watermark => &self.locked_marks,
            _ => &self.locked,
        };
        let query = Query::of(self.sql.to_read(what), values)?;
        let rows = self.read_locked(session, locked, key, query).await?;
        Ok(rows.into_iter().next())
    }

    async fn list(&self, session: &mut Self::Session<'_>, values: &Values<'_>) -> Result<Vec<Row>> {
        let query = Query::of(&self.sql.list, values)?;
        session.rows(query, Access::Read).await
    }

    async fn step(
        &self,
        session: &mut Self::Session<'_>,
        claim: &Claim,
        what: Write,
        values: &Values<'_>,
    ) -> Result<Step<Row>> {
        let mut is_repeated = false;
        loop {
            if let Some(row) = self.write(session, claim.key(), what, values).await? {
                return Ok(Step::Done(row));
            }
            let again = match self.owned(session, claim).await? {
                // The record was committed after the statement's read.
                Some((StoredRecord::IN_FLIGHT, _)) => session.repeats(),
                Some((state, result)) => return Ok(Step::Met(state, result)),
                None => !is_repeated && self.may_have_been_hidden(session, claim.key()).await?,
            };
            if is_repeated || !again {
                return Err(Error::claim_lost());
            }
            is_repeated = true;
        }
    }

    async fn raise(
        &self,
        session: &mut Self::Session<'_>,
        source: &Key,
        version: u64,
        values: &Values<'_>,
        _: u32,
    ) -> Result<Option<Advance>> {
        let lookup = Query::of(&self.sql.lookup_at_mark, values)?;
        let query = Query::of(&self.sql.advance, values)?;
        let asked = self.look_or_in_turn(session, &self.locked_marks, source, &lookup, &query);
        let rows = match asked.await {
            Err(error) if is_lost_race(&error) && session.repeats() => return Ok(None),
            rows => rows?,
        };
        let advance = |row: &Row| {
            let row = Columns::of(row);
            Ok(match row.number(0)? {
                1 => Advance::Advanced,
                _ => not_advanced(row.number(1)?.cast_unsigned(), version),
            })
        };
        rows.first().map(advance).transpose()
    }
}

/// Sends a statement that counts its rows until it has taken `limit` rows or finds no more.
async fn in_steps(
    session: &mut Session<'_>,
    limit: u32,
    statement: &Statement,
    values: Values<'_>,
) -> Result<u64> {
    let mut done = 0;
    while done < limit {
        let step = (limit - done).min(MAX_LOCKED_ROWS);
        let values = values.clone().with(Parameter::Limit, i64::from(step));
        let rows = session.rows(Query::of(statement, &values)?, Access::Write);
        let rows = rows.await;
        let rows = rows.map_err(|error| match done {
            0 => error,
            // Earlier steps are committed.
            _ => error.with_effect(Effect::Unknown),
        })?;
        let row = rows.first();
        let row = Columns::of(row.ok_or_else(|| Error::corrupt("a count has no row"))?);
        let count = u32::try_from(row.number(0)?).unwrap_or(0);
        done += count;
        if count < step {
            break;
        }
    }
    Ok(done.into())
}
