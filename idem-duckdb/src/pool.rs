//! [`DuckDbPool`]: the connections of a store, behind threads that may wait.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duckdb::Connection;
use idem_core::backend::check_scheme;
use idem_core::{BoxError, ErrorKind, Result};
use idem_sql::schema::misconfigured;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout_at};

use crate::config::Config;
use crate::error::{Access, thread_is_gone};
use crate::held::{HeldKeys, Holder};
use crate::instance::{Instance, Lease, Whose};
use crate::store::BACKEND;
use crate::transaction::DuckDbTransaction;

/// The pause before a file that another process has open is tried again.
const PAUSE: Duration = Duration::from_millis(5);

/// Connections to one instance of DuckDB, each used on a thread that may wait. A clone shares them.
///
/// All pools of a file in this process are on one instance, however they name the file.
#[derive(Clone)]
pub struct DuckDbPool(Arc<Inner>);

struct Inner {
    /// `None` after [`DuckDbPool::close`].
    instance: Mutex<Option<Arc<Instance>>>,
    permits: Arc<Semaphore>,
    max: u32,
    /// How long a caller waits for a connection.
    timeout: Duration,
}

/// A connection, the names that its transaction holds, and the right to use one more.
pub(crate) struct Borrowed {
    // Dropped in this order: the transaction ends first.
    pub(crate) lease: Lease,
    pub(crate) holder: Holder,
    _permit: OwnedSemaphorePermit,
}

impl DuckDbPool {
    /// Opens the file, which is created if it is missing; its folder is not. `:memory:` gives a
    /// database that lives as long as its pool. Waits until a process that has the file open has
    /// ended, for as long as the [`Config`]'s time-out says.
    ///
    /// # Errors
    ///
    /// `Contention` when another process keeps the file open; `Misconfigured` when it cannot be
    /// opened, or is another file than the one that this process has open under its path.
    ///
    /// # Cancellation
    ///
    /// Safe: what was opened is closed.
    pub async fn open(path: impl AsRef<Path>, config: &Config) -> Result<Self> {
        let deadline = Instant::now() + config.timeout();
        if path.as_ref().to_string_lossy().contains("://") {
            let form = "the path of a file";
            let refused = check_scheme(&path.as_ref().to_string_lossy(), &[], form);
            refused.map_err(|error| error.at(BACKEND, "open"))?;
        }
        loop {
            let path = path.as_ref().to_owned();
            let opened = spawn_blocking(move || Instance::open(&path)).await;
            let opened = opened.unwrap_or_else(|error| Err(thread_is_gone(error, Access::Read)));
            let is_late = Instant::now() >= deadline;
            match opened {
                Ok(Some(instance)) => return Ok(Self::on(instance, config)),
                Ok(None) if is_late => {
                    let error = Access::Read.timed_out(config.timeout());
                    return Err(error.at(BACKEND, "open"));
                }
                Err(error) if error.kind() != ErrorKind::Contention || is_late => {
                    return Err(error.at(BACKEND, "open"));
                }
                Ok(None) | Err(_) => sleep(PAUSE).await,
            }
        }
    }

    /// Creates a pool on the instance of the caller's connection, which only clones of this pool
    /// share. Keep no other connection of that instance open longer than the pool.
    ///
    /// # Errors
    ///
    /// `Misconfigured` when a pool of this process has the file open already: clone that one.
    pub async fn of(connection: Connection, config: &Config) -> Result<Self> {
        let adopted = spawn_blocking(move || Instance::of(connection)).await;
        let adopted = adopted.unwrap_or_else(|error| Err(thread_is_gone(error, Access::Read)));
        let instance = adopted.map_err(|error| error.at(BACKEND, "of"))?;
        Ok(Self::on(instance, config))
    }

    fn on(instance: Arc<Instance>, config: &Config) -> Self {
        let max = config.max_connections();
        Self(Arc::new(Inner {
            instance: Mutex::new(Some(instance)),
            permits: Arc::new(Semaphore::new(max as usize)),
            max,
            timeout: config.timeout(),
        }))
    }

    /// Runs the caller's work with a connection, on a thread that may wait. Nobody uses that
    /// connection afterwards. Keep no clone of it: the file would stay open.
    ///
    /// # Errors
    ///
    /// The work's; `Unavailable` when no connection became free within the [`Config`]'s time-out;
    /// `Misconfigured` after [`close`](Self::close).
    ///
    /// # Cancellation
    ///
    /// Once begun, the work runs to its end.
    pub async fn run<T, E>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    ) -> Result<T, BoxError>
    where
        T: Send + 'static,
        E: Into<BoxError> + Send + 'static,
    {
        let permit = self.callers_permit().await?;
        let instance = self.instance()?;
        let ran = spawn_blocking(move || {
            let borrowed = borrow(&instance, permit, Whose::Caller)?;
            work(&borrowed.lease.connection).map_err(Into::into)
        });
        ran.await
            .unwrap_or_else(|error| Err(thread_is_gone(error, Access::Write).into()))
    }

    /// Begins a transaction. [`Transactions`](crate::Transactions) also repeat one that meets a
    /// conflict.
    ///
    /// # Errors
    ///
    /// `Unavailable` when no connection became free within the [`Config`]'s time-out;
    /// `Misconfigured` after [`close`](Self::close).
    ///
    /// # Cancellation
    ///
    /// Nothing is left open.
    pub async fn begin(&self) -> Result<DuckDbTransaction> {
        let at = |error: idem_core::Error| error.at(BACKEND, "begin");
        let permit = self.callers_permit().await.map_err(at)?;
        let instance = self.instance().map_err(at)?;
        let begun = spawn_blocking(move || {
            let borrowed = borrow(&instance, permit, Whose::Caller)?;
            borrowed
                .lease
                .connection
                .execute_batch("BEGIN TRANSACTION")?;
            Ok(borrowed)
        });
        let begun = begun
            .await
            .map_err(|error| thread_is_gone(error, Access::Read));
        let borrowed = begun.map_err(at)?;
        let borrowed = borrowed.map_err(|error| at(crate::error::classify(error, Access::Read)))?;
        Ok(DuckDbTransaction::new(borrowed))
    }

    /// Waits for the work that is under way, transactions included, and closes the connections of
    /// this pool and its clones. The last pool of a file closes the file.
    pub async fn close(&self) {
        let all = Arc::clone(&self.0.permits).acquire_many_owned(self.0.max);
        let all = all.await;
        self.0.permits.close();
        let instance = self.0.instance_slot().take();
        let _ = spawn_blocking(move || drop(instance)).await;
        drop(all);
    }

    /// Returns the name of the database in statements; empty after [`close`](Self::close).
    pub(crate) fn database(&self) -> String {
        let instance = self.0.instance_slot();
        let database = instance.as_ref().map(|instance| instance.database());
        database.unwrap_or_default().to_owned()
    }

    /// Returns the names that open transactions hold.
    pub(crate) fn held(&self) -> Result<Arc<HeldKeys>> {
        Ok(Arc::clone(&self.instance()?.held))
    }

    /// Runs the store's own work until the deadline, `timeout` after its beginning. On an error the
    /// connection is closed, which ends its transaction.
    pub(crate) async fn run_until<T: Send + 'static>(
        &self,
        (deadline, timeout): (Instant, Duration),
        access: Access,
        work: impl FnOnce(&Connection) -> Result<T, duckdb::Error> + Send + 'static,
    ) -> Result<T> {
        let permit = self.permit(deadline, timeout).await?;
        let instance = self.instance()?;
        let ran = spawn_blocking(move || {
            let borrowed = borrow(&instance, permit, Whose::Store)?;
            let done = work(&borrowed.lease.connection)?;
            borrowed.lease.give_back();
            Ok(done)
        });
        match timeout_at(deadline, ran).await {
            Ok(Ok(done)) => done.map_err(|error| crate::error::classify(error, access)),
            Ok(Err(error)) => Err(thread_is_gone(error, access)),
            Err(_) => Err(access.timed_out(timeout)),
        }
    }

    async fn callers_permit(&self) -> Result<OwnedSemaphorePermit> {
        let timeout = self.0.timeout;
        self.permit(Instant::now() + timeout, timeout).await
    }

    async fn permit(&self, deadline: Instant, timeout: Duration) -> Result<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.0.permits).acquire_owned();
        match timeout_at(deadline, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(closed()),
            Err(_) => Err(Access::Read.timed_out(timeout)),
        }
    }

    fn instance(&self) -> Result<Arc<Instance>> {
        self.0.instance_slot().clone().ok_or_else(closed)
    }
}

fn borrow(
    instance: &Arc<Instance>,
    permit: OwnedSemaphorePermit,
    whose: Whose,
) -> Result<Borrowed, duckdb::Error> {
    Ok(Borrowed {
        lease: instance.lease(whose)?,
        holder: Holder::new(Arc::clone(&instance.held)),
        _permit: permit,
    })
}

fn closed() -> idem_core::Error {
    misconfigured("the pool is closed")
}

impl Inner {
    fn instance_slot(&self) -> MutexGuard<'_, Option<Arc<Instance>>> {
        let instance = self.instance.lock();
        instance.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last handle writes the log into the file, which takes time.
impl Drop for Inner {
    fn drop(&mut self) {
        off_thread(self.instance_slot().take());
    }
}

impl fmt::Debug for DuckDbPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DuckDbPool")
            .field("max_connections", &self.0.max)
            .finish_non_exhaustive()
    }
}

/// Drops this on a thread that may wait; without a runtime, at once.
pub(crate) fn off_thread<T: Send + 'static>(dropped: T) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(dropped))),
        Err(_) => drop(dropped),
    }
}
