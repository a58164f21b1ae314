//! [`Session`]: runs statements on a connection of the store, or in the caller's transaction.

use std::collections::HashSet;
use std::time::Duration;

use idem_core::backend::MAX_LOCK_WAIT;
use idem_core::{Effect, Error, Key, Result};
use idem_sql::cells::Row;
use idem_sql::executor::{Answer, BoundStatement, Executor};
use idem_sql::sqlx::Connections;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, MySql, MySqlPool};
use tokio::time::{Instant, timeout_at};

use crate::config::Config;
use crate::counters::Counters;
use crate::drivers::{BoxExecutor, CallerTransaction, executor};
use crate::error::{Access, LostRace, classify, lost_race, lost_race_of, only_reads};
use crate::executor::MySqlExecutor;
use crate::held::Held;
use crate::server::Facts;
use crate::settings;

/// How often a statement that lost a race is sent again. Each time another caller made progress, so
/// more than a few are a sign of trouble.
pub(crate) const MAX_RACES: u32 = 16;

/// Longest pause before a statement is sent again; the first pause is a sixteenth of it.
const PAUSE: Duration = Duration::from_millis(16);

/// Runs the statements of one operation.
///
/// On the store, all of them run on one connection, acquired for the first. Each commits by itself,
/// and one that lost a race (the server has undone it) is sent again within the operation's time.
#[derive(Debug)]
pub(crate) struct Session<'s> {
    connections: ConnectionSource<'s>,
    counters: &'s Counters,
    retry_timeout: RetryTimeout,
    is_galera: bool,
    is_in_doubt: bool,
    /// The keys of claims that a statement has ended, unless they are lost.
    perhaps_ended: HashSet<Key>,
}

/// How long a statement that has met a lock is sent again.
#[derive(Debug, Clone, Copy)]
enum RetryTimeout {
    /// For this long after it met the lock.
    Each(Duration),
    /// Until this instant, for all statements together.
    Until(Instant),
}

/// The races that one statement has lost.
#[derive(Debug, Default)]
struct Races {
    count: u32,
    /// When the statement met a lock for the first time.
    locked: Option<Instant>,
}

#[derive(Debug)]
enum ConnectionSource<'s> {
    Store(Stored<'s>),
    Transaction {
        executor: BoxExecutor<'s>,
        /// Whether 1205 leaves the transaction unchanged.
        keeps: bool,
    },
}

impl<'s> Session<'s> {
    /// Creates a session on a connection of the store's own where it has such, otherwise of the
    /// pool.
    pub(crate) fn on_store(
        pool: &'s MySqlPool,
        own: Option<&'s Connections<MySql>>,
        config: &'s Config,
        counters: &'s Counters,
    ) -> Self {
        let deadline = Instant::now() + config.timeout();
        Self {
            connections: ConnectionSource::Store(Stored {
                pool,
                own,
                config,
                deadline,
                connection: None,
                busy: false,
                open: false,
            }),
            counters,
            retry_timeout: RetryTimeout::Each(MAX_LOCK_WAIT),
            is_galera: false,
            is_in_doubt: false,
            perhaps_ended: HashSet::new(),
        }
    }

    pub(crate) fn in_transaction(
        transaction: &'s mut impl CallerTransaction,
        counters: &'s Counters,
    ) -> Result<Self> {
        Ok(Self {
            connections: ConnectionSource::Transaction {
                executor: executor(transaction)?,
                keeps: false,
            },
            counters,
            retry_timeout: RetryTimeout::Each(MAX_LOCK_WAIT),
            is_galera: false,
            is_in_doubt: false,
            perhaps_ended: HashSet::new(),
        })
    }

    /// Takes what the session has to know of the server.
    pub(crate) fn set_facts(&mut self, facts: Facts) {
        self.is_galera = facts.is_galera;
        if let ConnectionSource::Transaction { keeps, .. } = &mut self.connections {
            *keeps = facts.keeps_transaction;
        }
    }

    /// Returns whether a write may have taken effect although the server said that it had not. From
    /// then on, the session's errors have an unknown effect.
    ///
    /// A node of Galera answers 1213 for a commit that loses the certification, and also for one that
    /// was under way when the node lost the others, who may have it (`transaction::certify_commit`
    /// of <https://github.com/codership/wsrep-lib>). A member that leaves its replication group
    /// answers 3101 to the commits that it has given to the group and not heard of again.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// Notes the keys of a statement that has ended some of their claims.
    pub(crate) fn note_perhaps_ended(&mut self, keys: impl Iterator<Item = Key>) {
        self.perhaps_ended.extend(keys);
    }

    /// Returns whether the key's claim may have ended by an earlier statement.
    pub(crate) fn has_perhaps_ended(&self, key: &Key) -> bool {
        self.perhaps_ended.contains(key)
    }

    /// Acquires the store's connection, if it has not done so.
    pub(crate) async fn open(&mut self) -> Result<()> {
        let ConnectionSource::Store(stored) = &mut self.connections else {
            return Ok(());
        };
        let opened = stored.connection().await.map(drop);
        stored.busy = opened.is_err();
        opened.map_err(|fault| fault.into_error(Access::Read))
    }

    /// From now on, a statement that meets a lock is not sent again.
    pub(crate) fn set_no_retry(&mut self) {
        self.retry_timeout = RetryTimeout::Each(Duration::ZERO);
    }

    /// From now on, all statements together wait for locks as long as one does by default.
    pub(crate) fn share_retry_timeout(&mut self) {
        self.retry_timeout = RetryTimeout::Until(Instant::now() + MAX_LOCK_WAIT);
    }

    /// Returns the rest of the operation's time; for a transaction it is not known.
    pub(crate) fn remaining(&self) -> Duration {
        match &self.connections {
            ConnectionSource::Store(stored) => {
                stored.deadline.saturating_duration_since(Instant::now())
            }
            ConnectionSource::Transaction { .. } => MAX_LOCK_WAIT,
        }
    }

    /// Hands the connection back while the operation waits for something else.
    pub(crate) fn park(&mut self) {
        if let ConnectionSource::Store(stored) = &mut self.connections {
            stored.park();
        }
    }

    /// Returns whether the connections are a caller's, whose sessions may have any isolation level.
    pub(crate) fn is_callers(&self) -> bool {
        matches!(&self.connections, ConnectionSource::Store(stored) if stored.own.is_none())
    }

    /// Returns whether reads may show an old snapshot of the caller's.
    pub(crate) fn is_transaction(&self) -> bool {
        matches!(self.connections, ConnectionSource::Transaction { .. })
    }

    /// Returns all rows of a statement, which are few. They are read to their end, because the
    /// commit comes after the last one.
    pub(crate) async fn rows(
        &mut self,
        statement: &BoundStatement<'_>,
        sent: Access,
    ) -> Result<Vec<Row>> {
        Ok(self.answer(statement, sent).await?.rows)
    }

    /// Returns how many rows the statement's condition has met.
    pub(crate) async fn write(&mut self, statement: &BoundStatement<'_>) -> Result<u64> {
        Ok(self.answer(statement, Access::Write).await?.affected)
    }

    /// Sends a statement, again where it has lost a race.
    pub(crate) async fn answer(
        &mut self,
        statement: &BoundStatement<'_>,
        sent: Access,
    ) -> Result<Answer> {
        let mut races = Races::default();
        loop {
            let begun = Instant::now();
            match self.once(statement, sent).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => {
                    let race = self.counted(&fault, sent, begun);
                    self.after(race, fault, sent, &mut races).await?;
                }
            }
        }
    }

    async fn once(
        &mut self,
        statement: &BoundStatement<'_>,
        sent: Access,
    ) -> Result<Answer, Fault> {
        match &mut self.connections {
            ConnectionSource::Store(stored) => stored.answer(statement, sent).await,
            ConnectionSource::Transaction { executor, .. } => {
                executor.run(statement).await.map_err(Fault::Caller)
            }
        }
    }

    /// Waits for the next try after a lost race; any other fault ends the operation.
    async fn after(
        &mut self,
        race: Option<LostRace>,
        fault: Fault,
        sent: Access,
        races: &mut Races,
    ) -> Result<()> {
        if !race.is_some_and(|race| self.is_repeated(race, races)) {
            return Err(self.error(fault, sent));
        }
        // No other caller waits for this connection meanwhile. A caller's pool pings each
        // connection that is handed back.
        if !self.is_callers() {
            self.park();
        }
        let pause = PAUSE.mul_f64(f64::from(races.count.min(MAX_RACES)) / f64::from(MAX_RACES));
        tokio::time::sleep(pause.mul_f64(rand::random_range(0.0..=1.0))).await;
        Ok(())
    }

    /// Returns whether a statement that has lost a race is sent again.
    fn is_repeated(&self, race: LostRace, races: &mut Races) -> bool {
        races.count += 1;
        let may_be = match &self.connections {
            ConnectionSource::Store(stored) => stored.is_alone(),
            // For any other race, the server may have undone the whole transaction.
            ConnectionSource::Transaction { keeps, .. } => {
                race == LostRace::NoWait || race == LostRace::LockWait && *keeps
            }
        };
        if !race.is_lock() {
            return may_be && races.count <= MAX_RACES;
        }
        let now = Instant::now();
        let since = *races.locked.get_or_insert(now);
        may_be
            && match self.retry_timeout {
                RetryTimeout::Each(wait) => now < since + wait,
                RetryTimeout::Until(end) => now < end,
            }
    }

    fn error(&self, fault: Fault, sent: Access) -> Error {
        self.doubted(fault.into_error(sent))
    }

    /// Adjusts the error of an operation: see [`is_in_doubt`](Self::is_in_doubt).
    pub(crate) fn doubted(&self, error: Error) -> Error {
        match self.is_in_doubt {
            true => error.with_effect(Effect::Unknown),
            false => error,
        }
    }

    /// Counts a lost race, and returns it. `begun` is when the statement was sent.
    fn counted(&mut self, fault: &Fault, sent: Access, begun: Instant) -> Option<LostRace> {
        let race = match fault {
            Fault::Driver(error) => lost_race(error),
            Fault::Caller(error) => lost_race_of(error),
            Fault::Answer(_) => None,
        };
        match race {
            Some(LostRace::Deadlock) => self.counters.count_deadlock(),
            Some(LostRace::LockWait | LostRace::NoWait) => self.counters.count_lock_wait(),
            Some(LostRace::Refused | LostRace::Other) | None => {}
        }
        let was_given = match race {
            Some(LostRace::Refused) => true,
            Some(LostRace::Deadlock) => self.is_galera,
            // A lock is reported at once; what takes longer has waited for the other nodes.
            _ => self.is_galera && begun.elapsed() > MAX_LOCK_WAIT,
        };
        self.is_in_doubt |= was_given && sent == Access::Write && !self.is_transaction();
        race
    }

    /// Sends a statement without values that changes no row, in one round trip; returns its rows.
    pub(crate) async fn unprepared(&mut self, text: &'static str) -> Result<Vec<Row>> {
        let answer = self.once(&as_text(text), Access::Read).await;
        Ok(answer
            .map_err(|fault| self.error(fault, Access::Read))?
            .rows)
    }

    /// Begins a transaction of this crate's own, on the store's connection. Closing the connection
    /// rolls an uncommitted one back.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.control("START TRANSACTION", true, Access::Read).await
    }

    /// Commits the transaction.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        // No transaction follows, whatever `completion_type` says.
        self.control("COMMIT AND NO CHAIN NO RELEASE", false, Access::Write)
            .await
    }

    /// Rolls the transaction back, which the server may have done already.
    pub(crate) async fn rollback(&mut self) -> Result<()> {
        self.control("ROLLBACK AND NO CHAIN NO RELEASE", false, Access::Read)
            .await
    }

    /// Rolls an open transaction back if the connection still answers, so that its locks are free
    /// when the caller gets the error. Otherwise the connection is closed, and the server rolls
    /// back when it notices.
    pub(crate) async fn undo(&mut self) {
        if matches!(&self.connections, ConnectionSource::Store(pooled) if pooled.open && !pooled.busy)
        {
            // Nothing more can be done; the caller gets the error that led here.
            let _ = self.rollback().await;
        }
    }

    async fn control(&mut self, text: &'static str, open: bool, sent: Access) -> Result<()> {
        let ConnectionSource::Store(stored) = &mut self.connections else {
            return Ok(());
        };
        let begun = Instant::now();
        let done = stored.control(text, open).await;
        done.map_err(|fault| {
            let _ = self.counted(&fault, sent, begun);
            self.error(fault, sent)
        })
    }
}

/// Creates a statement that is sent as text, without being prepared.
fn as_text(text: &'static str) -> BoundStatement<'static> {
    BoundStatement {
        text: text.into(),
        values: Vec::new(),
        is_persistent: false,
    }
}

/// The origin of a failure: the driver or the server, or this crate.
enum Fault {
    Driver(sqlx::Error),
    /// The driver of the caller's transaction, or its server, classified as for a write.
    Caller(Error),
    Answer(Error),
}

impl Fault {
    fn into_error(self, sent: Access) -> Error {
        match self {
            Self::Driver(error) => classify(error, sent),
            Self::Caller(error) if sent == Access::Read => error.with_effect(Effect::None),
            Self::Caller(error) | Self::Answer(error) => error,
        }
    }
}

/// A connection for one operation.
///
/// The driver's reads are not safe against being dropped half-way (sqlx 0.9.0 has then consumed
/// half a packet). So the connection is closed, not handed back, unless each answer was read to its
/// end.
#[derive(Debug)]
struct Stored<'s> {
    pool: &'s MySqlPool,
    own: Option<&'s Connections<MySql>>,
    config: &'s Config,
    deadline: Instant,
    connection: Option<Held>,
    /// Whether an answer has not been read to its end.
    busy: bool,
    /// Whether a transaction has not been committed.
    open: bool,
}

impl Stored<'_> {
    /// Returns whether a statement is a transaction by itself, and may be sent again.
    fn is_alone(&self) -> bool {
        !self.open && Instant::now() < self.deadline
    }

    async fn answer(
        &mut self,
        statement: &BoundStatement<'_>,
        sent: Access,
    ) -> Result<Answer, Fault> {
        let deadline = self.deadline;
        let mut executor = MySqlExecutor(self.connection().await?);
        let answer = timeout_at(deadline, executor.run(statement)).await;
        self.settle(answer, sent)
    }

    /// Hands the connection back if nothing is under way on it.
    fn park(&mut self) {
        if !self.busy
            && !self.open
            && let Some(connection) = self.connection.take()
        {
            connection.keep();
        }
    }

    async fn control(&mut self, text: &'static str, open: bool) -> Result<(), Fault> {
        self.open = true;
        self.answer(&as_text(text), Access::Write).await?;
        self.open = open;
        Ok(())
    }

    async fn connection(&mut self) -> Result<&mut MySqlConnection, Fault> {
        if self.connection.is_none() {
            // Boxed, because opening a connection makes a large future.
            let acquired = timeout_at(self.deadline, Box::pin(self.acquire())).await;
            let acquired = acquired.map_err(|_| {
                let max = match self.own {
                    Some(own) => own.max(),
                    None => self.pool.options().get_max_connections() as usize,
                };
                Fault::Answer(Access::without_connection(self.config.timeout(), max))
            })?;
            // Nothing was sent.
            let acquired =
                acquired.map_err(|error| Fault::Answer(classify(error, Access::Read)))?;
            self.connection = Some(acquired);
            self.busy = true;
            self.check().await?;
        }
        self.busy = true;
        match self.connection.as_mut().and_then(Held::connection) {
            Some(connection) => Ok(connection),
            None => Err(Fault::Driver(sqlx::Error::PoolClosed)),
        }
    }

    /// Checks the session of a caller's connection without prepared statements, which counts as
    /// new.
    async fn check(&mut self) -> Result<(), Fault> {
        let deadline = self.deadline;
        let Some(Held::Pooled(connection)) = &mut self.connection else {
            return Ok(());
        };
        if connection.cached_statements_size() > 0 {
            return Ok(());
        }
        let checked = timeout_at(deadline, settings::check(connection)).await;
        let checked =
            checked.unwrap_or_else(|_| Err(Access::Read.timed_out(self.config.timeout())));
        checked.map_err(Fault::Answer)
    }

    async fn acquire(&self) -> Result<Held, sqlx::Error> {
        match self.own {
            // Closing the pool closes the store.
            Some(own) if self.pool.is_closed() => {
                own.close();
                Err(sqlx::Error::PoolClosed)
            }
            Some(own) => own.acquire().await.map(Held::Own),
            None => self.pool.acquire().await.map(Held::Pooled),
        }
    }

    fn settle<T>(
        &mut self,
        result: Result<Result<T, sqlx::Error>, tokio::time::error::Elapsed>,
        sent: Access,
    ) -> Result<T, Fault> {
        match result {
            Ok(Ok(value)) => {
                self.busy = false;
                Ok(value)
            }
            Ok(Err(error)) => {
                // An error that the server sent is the end of its answer.
                let only_reads = only_reads(&error);
                self.busy = error.as_database_error().is_none() || only_reads;
                match self.own {
                    Some(own) if only_reads => own.close_idle(),
                    Some(own) => own.note(&error),
                    None => {}
                }
                Err(Fault::Driver(error))
            }
            Err(_) => Err(Fault::Answer(sent.timed_out(self.config.timeout()))),
        }
    }
}

impl Drop for Stored<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            if self.busy || self.open {
                connection.close();
            } else {
                connection.keep();
            }
        }
    }
}

#[cfg(all(test, feature = "mysql_async"))]
mod tests {
    use std::sync::Arc;

    use idem_core::{ClaimRequest, ErrorKind, Fingerprint, Key};
    use mysql_async::ServerError;
    use sqlx::mysql::MySqlPoolOptions;

    use super::*;
    use crate::operations::Operations;
    use crate::statements::Dialect;

    fn fault(code: u16) -> Fault {
        let error = ServerError {
            code,
            message: "a message".to_owned(),
            state: "HY000".to_owned(),
        };
        let error = mysql_async::Error::Server(error);
        Fault::Caller(Error::new(ErrorKind::Contention, Effect::None, "refused").with_source(error))
    }

    /// Returns a session after a statement that answered `code` when it had run for `took`.
    fn session_after<'s>(
        store: &'s (MySqlPool, Config, Counters),
        code: u16,
        sent: Access,
        took: Duration,
        is_galera: bool,
    ) -> Session<'s> {
        let (pool, config, counters) = store;
        let mut session = Session::on_store(pool, None, config, counters);
        session.set_facts(Facts {
            dialect: Dialect::MariaDb,
            keeps_transaction: true,
            locks_gaps: false,
            is_galera,
        });
        let begun = Instant::now().checked_sub(took).unwrap();
        assert!(session.counted(&fault(code), sent, begun).is_some());
        session
    }

    fn store() -> (MySqlPool, Config, Counters) {
        let pool = MySqlPoolOptions::new().connect_lazy("mysql://host/database");
        (pool.unwrap(), Config::new(), Counters::default())
    }

    /// Returns the effect of the error of a node that has left the others, after such a statement.
    fn effect_after(code: u16, sent: Access, took: Duration, is_galera: bool) -> Effect {
        let store = store();
        let session = session_after(&store, code, sent, took, is_galera);
        session.error(fault(1205), Access::Read).effect()
    }

    #[tokio::test]
    async fn a_write_that_a_galera_node_may_have_given_to_others_is_in_doubt() {
        use Access::{Read, Write};
        let (soon, late) = (Duration::ZERO, MAX_LOCK_WAIT * 3);
        assert_eq!(effect_after(1213, Write, soon, true), Effect::Unknown);
        assert_eq!(effect_after(1205, Write, late, true), Effect::Unknown);
        // A lock, which is reported at once.
        assert_eq!(effect_after(1205, Write, soon, true), Effect::None);
        assert_eq!(effect_after(1213, Read, late, true), Effect::None);
        // One server has rolled back what it reports.
        assert_eq!(effect_after(1213, Write, late, false), Effect::None);
        // Group replication.
        assert_eq!(effect_after(3101, Write, soon, false), Effect::Unknown);
    }

    /// Returns the effect of a claim that the store refuses without a statement, because the key is
    /// known to be locked. The session is that of a batch whose insert answered `code`.
    async fn effect_of_a_refusal_after(code: u16) -> Effect {
        let operations = Operations::new(Config::new(), Arc::default());
        let key = Key::new("tenant", "pay", "one").unwrap();
        operations.locked.found_locked(&key);
        let read = operations.locked.read(&key, async { Ok(None::<()>) });
        assert!(read.await.unwrap().is_none());
        let store = store();
        let mut session = session_after(&store, code, Access::Write, Duration::ZERO, true);
        let request = ClaimRequest::new(key, Fingerprint::raw("request"));
        // With every driver it is large.
        let refused = Box::pin(operations.claim(&mut session, &request)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Contention);
        refused.effect()
    }

    // The clock is paused, because the key counts as locked for a moment only.
    #[tokio::test(start_paused = true)]
    async fn a_claim_in_doubt_that_the_store_refuses_may_have_taken_effect() {
        assert_eq!(effect_of_a_refusal_after(1213).await, Effect::Unknown);
        assert_eq!(effect_of_a_refusal_after(1205).await, Effect::None);
    }
}
