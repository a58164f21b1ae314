//! Keys that an open transaction holds locked: few callers wait for them, and none waits long.

use std::time::Duration;

use idem_core::backend::{LockedKeys, TryTurn};
use idem_core::{Error, Key, Result};
use idem_sql::cells::Row;
use idem_sql::parameters::Values;
use tokio::time::Instant;

use crate::dialect::Dialect;
use crate::error::{Access, is_lock_timeout};
use crate::operations::Operations;
use crate::session::{Query, Session};
use crate::statements::Wait;

/// Returns the answer for a locked key, with the server's error as the source.
fn is_held(error: Error) -> Error {
    LockedKeys::error().with_source(error)
}

impl Operations {
    /// Sends a statement that may wait for the key's lock. On the pool, one caller of this process
    /// at a time does so. A caller's transaction may hold the lock itself, so it sends at once, and
    /// without a wait if the key is known to be locked.
    pub(crate) async fn in_turn(
        &self,
        session: &mut Session<'_>,
        locked: &LockedKeys,
        key: &Key,
        query: Query<'_>,
        sent: Access,
    ) -> Result<Vec<Row>> {
        if !session.repeats() {
            return in_transaction(session, locked, key, query, sent).await;
        }
        let begun = Instant::now();
        let turn = loop {
            if let Some(turn) = locked.turn(key, self.left(begun)).await? {
                break turn;
            }
        };
        match session.rows(query, sent).await {
            Err(error) if is_lock_timeout(&error) => {
                turn.found_locked();
                Err(is_held(error))
            }
            answer => answer,
        }
    }

    /// Sends a statement that begins with a read, `look`, which answers most callers. Callers that
    /// would have to wait for another caller's turn send the read first, and so do callers whose
    /// key is known to be locked.
    pub(crate) async fn look_or_in_turn(
        &self,
        session: &mut Session<'_>,
        locked: &LockedKeys,
        key: &Key,
        look: &Query<'_>,
        query: &Query<'_>,
    ) -> Result<Vec<Row>> {
        if !session.repeats() {
            return in_transaction(session, locked, key, query.clone(), Access::Write).await;
        }
        let begun = Instant::now();
        loop {
            match locked.try_turn(key) {
                TryTurn::Turn(turn) => {
                    return match session.rows(query.clone(), Access::Write).await {
                        Err(error) if is_lock_timeout(&error) => {
                            turn.found_locked();
                            Err(is_held(error))
                        }
                        answer => answer,
                    };
                }
                TryTurn::Busy => {
                    let rows = look_at_once(session, look.clone()).await?;
                    if !rows.is_empty() {
                        return Ok(rows);
                    }
                }
                TryTurn::Locked(error) => {
                    let read = Box::pin(async {
                        let rows = look_at_once(session, look.clone()).await?;
                        Ok((!rows.is_empty()).then_some(rows))
                    });
                    return locked.read(key, read).await?.ok_or(error);
                }
            }
            // A turn that becomes free is given back, so that only one branch sends.
            drop(locked.turn(key, self.left(begun)).await?);
        }
    }

    /// Returns the rest of the time for a turn.
    fn left(&self, begun: Instant) -> Duration {
        self.config.timeout().saturating_sub(begun.elapsed())
    }

    /// Sends a plain read. It waits for a lock only where READ COMMITTED locks, and then no two
    /// callers at once.
    pub(crate) async fn read_locked(
        &self,
        session: &mut Session<'_>,
        locked: &LockedKeys,
        key: &Key,
        query: Query<'_>,
    ) -> Result<Vec<Row>> {
        if !session.repeats() {
            return in_transaction(session, locked, key, query, Access::Read).await;
        }
        let at_once = query.clone().waiting(Wait::Not);
        match session.rows(at_once, Access::Read).await {
            Err(error) if is_lock_timeout(&error) => {
                self.in_turn(session, locked, key, query, Access::Read)
                    .await
            }
            answer => answer,
        }
    }

    /// Returns whether to repeat a claim's statement that found no row of the claim: an open
    /// transaction may have hidden the row, and have ended since. `Contention` when it is still
    /// open. SQL Server's own statements have waited for it.
    pub(crate) async fn may_have_been_hidden(
        &self,
        session: &mut Session<'_>,
        key: &Key,
    ) -> Result<bool> {
        if !session.repeats() || self.dialect(session).await? != Dialect::Insert {
            return Ok(false);
        }
        let values = Values::of_key(key);
        let probe = Query::of(&self.sql.probe, &values)?.beginning();
        // The probe takes back everything that it writes.
        let probed = self.in_turn(session, &self.locked, key, probe, Access::Read);
        match probed.await {
            // The record was inserted meanwhile.
            Err(error) if crate::error::is_lost_race(&error) => Ok(true),
            probed => probed.map(|_| true),
        }
    }
}

/// Reads without a wait for locks; no row where it would have to wait.
async fn look_at_once(session: &mut Session<'_>, look: Query<'_>) -> Result<Vec<Row>> {
    let found = session.rows(look.waiting(Wait::Not), Access::Read);
    match found.await {
        // Only a server whose reads lock returns this.
        Err(error) if is_lock_timeout(&error) => Ok(Vec::new()),
        found => found,
    }
}

async fn in_transaction(
    session: &mut Session<'_>,
    locked: &LockedKeys,
    key: &Key,
    query: Query<'_>,
    sent: Access,
) -> Result<Vec<Row>> {
    let wait = match locked.is_locked(key) {
        true => Wait::Not,
        false => Wait::Shortly,
    };
    match session.rows(query.waiting(wait), sent).await {
        Err(error) if is_lock_timeout(&error) => {
            locked.found_locked(key);
            Err(is_held(error))
        }
        answer => answer,
    }
}
