//! [`Pools`]: the connections of a store.

use std::time::Duration;

use idem_core::Result;
use idem_sql::cells::Row;
use idem_sql::executor::{BoundStatement, Executor as _};
use idem_sql::sqlx::{ConnectionGuard, Connections, Opener};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Sqlite, SqlitePool};

use crate::config::Config;
use crate::error::{Access, classify};
use crate::executor::SqliteExecutor;
use crate::file::DatabaseFile;
use crate::lock::Gate;
use crate::statements::INSERTED_AT_MOST;

/// How many connections read beside the writer.
const READERS: usize = 4;

/// The connections of a store.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    /// The connections of callers' transactions. One connection where the store made it, so that
    /// the tasks of this process queue for the write lock in order instead of polling for it.
    pub(crate) shared: SqlitePool,
    /// `None` where the caller gave the pool, or the database is in memory: all statements then run
    /// on the shared pool.
    own: Option<Own>,
    /// The queue for the write lock.
    pub(crate) gate: Gate,
    pub(crate) file: DatabaseFile,
}

/// Connections for the store alone: a pool of sqlx's would ping each of them after each statement.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// Reads run beside the writer.
    pub(crate) readers: Connections<Sqlite>,
    /// One connection, which does not wait for the write lock. A statement that finds the lock
    /// taken, by another process or store, goes through the [`Gate`]. While a connection of the
    /// shared pool is in use, only its user may use this one. So this connection takes the lock
    /// from no caller of this store that waits for it.
    pub(crate) writer: Connections<Sqlite>,
}

impl Own {
    /// Nothing is opened yet. The writer's first connection creates a missing file, as the options
    /// say; no other one does: if the file is gone by then, a new empty one would answer as if
    /// nothing had happened.
    pub(crate) fn new(options: SqliteConnectOptions, limit: Duration) -> Self {
        let hasty = options
            .clone()
            .busy_timeout(Duration::ZERO)
            // A caller that is slow to read its rows does not prolong the lock.
            .row_buffer_size(INSERTED_AT_MOST);
        let later = hasty.clone().create_if_missing(false);
        let readers = Opener::new(options.create_if_missing(false));
        Self {
            readers: Connections::new(readers, READERS, limit),
            writer: Connections::new(Opener::new(later).with_first(hasty), 1, limit),
        }
    }

    /// Waits for the write that is under way.
    async fn close(&self) {
        self.readers.close();
        let last = self.writer.acquire().await;
        self.writer.close();
        drop(last);
    }
}

impl Pools {
    pub(crate) fn new(shared: SqlitePool, own: Option<Own>, file: DatabaseFile) -> Self {
        Self {
            shared,
            own,
            gate: Gate::default(),
            file,
        }
    }

    /// Waits for the operations that are under way.
    pub(crate) async fn close(&self) {
        // Nothing new begins from here on.
        let closing = self.shared.close();
        if let Some(own) = &self.own {
            own.close().await;
        }
        closing.await;
    }

    /// Runs a read, and returns its rows.
    pub(crate) async fn read(&self, statement: &BoundStatement<'_>) -> Result<Vec<Row>> {
        self.file.before_read()?;
        let at = |error| classify(error, Access::Read);
        let Some(own) = self.own() else {
            let mut connection = self.shared.acquire().await.map_err(at)?;
            let answer = SqliteExecutor(&mut connection).run(statement).await;
            return Ok(answer.map_err(at)?.rows);
        };
        let mut guard = own.readers.acquire().await.map_err(at)?;
        let connection = connection(&mut guard).map_err(at)?;
        let answer = SqliteExecutor(connection).run(statement).await;
        let answer = answer.map_err(at)?;
        guard.done();
        Ok(answer.rows)
    }

    /// Reads on a connection of the shared pool, to find its settings.
    pub(crate) async fn read_shared(
        &self,
        statement: &BoundStatement<'_>,
        config: &Config,
    ) -> Result<Option<Row>> {
        let work = async {
            let mut connection = self.shared.acquire().await?;
            SqliteExecutor(&mut connection).run(statement).await
        };
        match tokio::time::timeout(config.timeout(), work).await {
            Ok(read) => {
                let answer = read.map_err(|error| classify(error, Access::Read))?;
                Ok(answer.rows.into_iter().next())
            }
            Err(_) => Err(Access::Read.timed_out(config.timeout())),
        }
    }

    /// Returns the store's own connections. Closing the shared pool closes the store.
    pub(crate) fn own(&self) -> Option<&Own> {
        self.own.as_ref().filter(|_| !self.shared.is_closed())
    }

    /// Returns whether calls may share statements: on connections of the store's own while no
    /// transaction is known to hold the write lock. While one does, each call is sent alone, so
    /// that a duplicate does not wait with the writers.
    pub(crate) fn may_batch(&self) -> bool {
        self.own().is_some() && self.is_idle() && !self.gate.is_waited_for()
    }

    /// Returns whether no connection of the shared pool is in use. That of a wait that has just
    /// ended does not count, although the pool does not have it back yet: each caller would wait
    /// for the one before, and callers would never share statements again.
    pub(crate) fn is_idle(&self) -> bool {
        let is_whole = self.shared.num_idle() >= self.shared.size() as usize;
        is_whole || self.gate.has_just_ended()
    }
}

pub(crate) fn connection(
    guard: &mut ConnectionGuard<Sqlite>,
) -> Result<&mut SqliteConnection, sqlx::Error> {
    guard.connection().ok_or(sqlx::Error::PoolClosed)
}
