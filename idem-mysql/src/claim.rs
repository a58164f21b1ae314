//! The claim: which statement comes first, and what each proves.

use std::sync::Arc;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind, Failure, Key, Result,
    encode_failure,
};
use sqlx::mysql::MySqlRow;

use crate::asked::Asked;
use crate::config::{ClaimOrder, Returning};
use crate::error::Sent;
use crate::operations::{MAX_ASKS, Operations, bind_key};
use crate::row::{Columns, Found};
use crate::server::Server;
use crate::session::Session;

/// What an INSERT has told.
enum Inserted {
    /// The record is this claim's.
    Own(Claim),
    /// The record may be this claim's.
    Perhaps,
    /// There was one, and nothing was written.
    Nothing,
}

impl Operations {
    /// Inserts first where keys are mostly fresh, and looks first where they are mostly not: a duplicate is then answered
    /// without a try to write. Either way it is proven by what was written: the count of the insert, or the row that
    /// carries this attempt's id after a write of this call.
    pub(crate) async fn claim(
        &self,
        session: &mut Session<'_>,
        request: &ClaimRequest,
    ) -> Result<ClaimOutcome> {
        let asked = Asked::new(request, &self.config)?;
        let mut absent = self.counts(session) && self.inserts_first(request.key());
        let mut has_written = false;
        for _ in 0..MAX_ASKS {
            if absent {
                match self.insert(session, &asked).await? {
                    Inserted::Own(claim) => {
                        self.traffic.learn(request.key(), false);
                        return Ok(ClaimOutcome::Acquired(claim));
                    }
                    Inserted::Perhaps => has_written = true,
                    Inserted::Nothing => {}
                }
            }
            let seen = self.look(session, &asked, has_written).await?;
            absent = seen.is_none();
            let Some(seen) = seen else { continue };
            if let Some(outcome) = self.meet(session, &asked, &seen, has_written).await? {
                return Ok(outcome);
            }
            has_written = true;
        }
        Err(Error::new(
            ErrorKind::Contention,
            Effect::Unknown,
            format!("the key changed hands {MAX_ASKS} times while it was claimed; ask again"),
        ))
    }

    /// Whether the insert comes before the look.
    pub(crate) fn inserts_first(&self, key: &Key) -> bool {
        match self.config.claim_order() {
            ClaimOrder::LookFirst => false,
            ClaimOrder::InsertFirst => true,
            ClaimOrder::Learnt => !self.traffic.expects_record(key),
        }
    }

    /// What the record answers. `None` after a write, whose effect the next look tells.
    async fn meet(
        &self,
        session: &mut Session<'_>,
        asked: &Asked<'_>,
        seen: &MySqlRow,
        has_written: bool,
    ) -> Result<Option<ClaimOutcome>> {
        let columns = Columns::of(seen)?;
        match columns.found(asked.request) {
            Found::Own if has_written => Ok(Some(ClaimOutcome::Acquired(
                columns.stored()?.claim(asked.request),
            ))),
            Found::Held => {
                self.traffic.learn(asked.request.key(), true);
                columns.stored()?.loses(asked.request).map(Some)
            }
            Found::Abandoned => self.abandon(session, asked, &columns).await,
            Found::Own | Found::Free => {
                session.write(|| asked.take(&self.sql.take)).await?;
                Ok(None)
            }
        }
    }

    /// The record, if there is one. After a write it tells what the write has met, and its failure leaves the effect
    /// of that unknown.
    async fn look(
        &self,
        session: &mut Session<'_>,
        asked: &Asked<'_>,
        has_written: bool,
    ) -> Result<Option<Arc<MySqlRow>>> {
        if !has_written {
            return self.first_look(session, asked).await;
        }
        let statement = match session.is_transaction() {
            true => &self.sql.look_latest,
            false => &self.sql.look,
        };
        let rows = session.rows(|| asked.look(statement), Sent::Write).await?;
        Ok(rows.into_iter().next().map(Arc::new))
    }

    /// Whether an insert is proven by its count. Not in a caller's transaction, whose insert id is the caller's.
    fn counts(&self, session: &Session<'_>) -> bool {
        !session.is_transaction() && self.config.returning() != Returning::Always
    }

    /// Inserts the record where there is none.
    async fn insert(&self, session: &mut Session<'_>, asked: &Asked<'_>) -> Result<Inserted> {
        if self.counts(session) {
            let (statement, _) = self.sql.insert_new.at_least(1);
            let query = || asked.bind_row(sqlx::query(statement.text()));
            let done = session.execute(query).await?;
            return Ok(match (done.rows_affected(), done.last_insert_id()) {
                (0, _) => Inserted::Nothing,
                // A proxy has kept the insert id to itself.
                (_, 0) => Inserted::Perhaps,
                (_, token) => Inserted::Own(asked.inserted(token.cast_signed())),
            });
        }
        if self.has_returning(session).await? {
            let query = || asked.bind_row(sqlx::query(self.sql.insert_returning.text()));
            let rows = session.rows(query, Sent::Write).await?;
            let columns = rows.first().map(Columns::of).transpose()?;
            // A loser's row comes without the result, which is then read.
            return Ok(match columns {
                Some(columns) if columns.found(asked.request) == Found::Own => {
                    Inserted::Own(columns.stored()?.claim(asked.request))
                }
                _ => Inserted::Perhaps,
            });
        }
        let query = || asked.bind_row(sqlx::query(self.sql.insert.text()));
        session.write(query).await?;
        Ok(Inserted::Perhaps)
    }

    /// Whether the server answers an INSERT with rows.
    pub(crate) async fn has_returning(&self, session: &mut Session<'_>) -> Result<bool> {
        if let Some(&known) = self.returning.get() {
            return Ok(known);
        }
        let has = match self.config.returning() {
            Returning::Always => true,
            Returning::Never => false,
            Returning::Detect => Server::read(session).await?.has_returning(),
        };
        Ok(*self.returning.get_or_init(|| has))
    }

    /// Fails the stale record that was seen; `None` when it has changed since.
    async fn abandon(
        &self,
        session: &mut Session<'_>,
        asked: &Asked<'_>,
        seen: &Columns<'_>,
    ) -> Result<Option<ClaimOutcome>> {
        let failure = encode_failure(&Failure::abandoned())?;
        let token = seen.token();
        let query = || {
            let query = sqlx::query(self.sql.abandon.text()).bind(&failure[..]);
            bind_key(query, asked.request.key()).bind(token.as_i64())
        };
        session.write(query).await?;
        let row = self.look(session, asked, true).await?;
        let columns = row.as_deref().map(Columns::of).transpose()?;
        match columns {
            Some(columns) if columns.is_failed(token) => {
                columns.stored()?.loses(asked.request).map(Some)
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn inserts_first(order: ClaimOrder, lessons: &[bool]) -> bool {
        let operations = Operations::new(Config::new().with_claim_order(order));
        let key = Key::new("tenant", "pay", "one").unwrap();
        for &met_record in lessons {
            operations.traffic.learn(&key, met_record);
        }
        operations.inserts_first(&key)
    }

    #[test]
    fn the_order_is_learnt_unless_it_is_set() {
        use ClaimOrder::{InsertFirst, Learnt, LookFirst};
        assert!(!inserts_first(Learnt, &[]), "nothing is known yet");
        for (lessons, mostly_fresh) in [([false; 50], true), ([true; 50], false)] {
            assert_eq!(inserts_first(Learnt, &lessons), mostly_fresh);
            assert!(inserts_first(InsertFirst, &lessons));
            assert!(!inserts_first(LookFirst, &lessons));
        }
    }
}
