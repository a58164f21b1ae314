//! [`Looks`]: reads of records, for many callers at once.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use idem_core::backend::Batcher;
use idem_core::{Error, ErrorKind, Key, Result};
use sqlx::MySqlPool;
use sqlx::mysql::MySqlRow;

use crate::batch::parts;
use crate::claim_params::ClaimParams;
use crate::error::Access;
use crate::operations::{Operations, bind_key};
use crate::own::Own;
use crate::row::Columns;
use crate::session::Session;
use crate::statements::filled_up;

/// What one statement reads at most; each record may come with its result.
const MOST: usize = 128;

/// So many statements read at a time: while one is under way, those who come wait for the next, which then has more to
/// read.
const AT_A_TIME: usize = 2;

type Answer = Result<Option<Arc<MySqlRow>>>;

/// Reads for claims. When there are many at a time, a statement reads for many of them: that costs the server little more
/// than one read. It locks nothing, so nobody is held up by a neighbour.
#[derive(Clone)]
pub(crate) struct Looks(Arc<Batcher<Key, Answer>>);

impl Looks {
    pub(crate) fn new(pool: &MySqlPool, own: Option<&Own>, operations: &Arc<Operations>) -> Self {
        let (pool, own, operations) = (pool.clone(), own.cloned(), Arc::clone(operations));
        Self(Batcher::new(MOST, AT_A_TIME, move |keys: Vec<Key>| {
            let (pool, own, operations) = (pool.clone(), own.clone(), Arc::clone(&operations));
            async move {
                let Operations {
                    config, counters, ..
                } = &*operations;
                let mut session = Session::on_store(&pool, own.as_ref(), None, config, counters);
                operations.look_for_many(&mut session, &keys).await
            }
        }))
    }
}

impl fmt::Debug for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Operations {
    /// The record, if there is one, by a read that nothing was written before.
    pub(crate) async fn first_look(
        &self,
        session: &mut Session<'_>,
        asked: &ClaimParams<'_>,
    ) -> Answer {
        let Some(Looks(looks)) = session.looks() else {
            return self.look_alone(session, asked).await;
        };
        let underway = looks.enter();
        if !underway.is_in_company() {
            return self.look_alone(session, asked).await;
        }
        let found = looks.ask(asked.request.key().clone());
        match tokio::time::timeout(self.config.timeout(), found).await {
            Ok(Some(Err(error))) if error.kind() == ErrorKind::Unavailable => Err(error),
            Ok(Some(Ok(row))) => Ok(row),
            // What was wrong may have been another's.
            Ok(Some(Err(_)) | None) => self.look_alone(session, asked).await,
            Err(_) => Err(Access::Read.timed_out(self.config.timeout())),
        }
    }

    async fn look_alone(&self, session: &mut Session<'_>, asked: &ClaimParams<'_>) -> Answer {
        let sql = self.sql(session).await?;
        let statement = match session.is_transaction() {
            true => &sql.look_in,
            false => &sql.look,
        };
        let rows = session.rows(|| asked.look(statement), Access::Read);
        Ok(rows.await?.into_iter().next().map(Arc::new))
    }

    async fn look_for_many(&self, session: &mut Session<'_>, keys: &[Key]) -> Vec<Answer> {
        match self.rows_of_many(session, keys).await {
            Ok(found) => found.into_iter().map(Ok).collect(),
            Err(error) => {
                let each = error.for_each_item();
                keys.iter().map(|_| Err(each())).collect()
            }
        }
    }

    /// The row of each key that has one. A key may be among them more than once.
    async fn rows_of_many(
        &self,
        session: &mut Session<'_>,
        keys: &[Key],
    ) -> Result<Vec<Option<Arc<MySqlRow>>>, Error> {
        let sql = self.sql(session).await?;
        let (statement, size) = sql.look_many.at_least(keys.len());
        let query = || filled_up(keys, size).fold(sqlx::query(statement.text()), bind_key);
        let rows = session.rows(query, Access::Read).await?;
        let rows: Vec<_> = rows.into_iter().map(Arc::new).collect();
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            found.insert(Columns::of(row)?.key()?, row);
        }
        let row = |key: &Key| found.get(&parts(key)).map(|&row| Arc::clone(row));
        Ok(keys.iter().map(row).collect())
    }
}
