//! rusqlite: each transaction runs on a thread that may block.

use std::error::Error as StdError;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{
    Advance, BoxError, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, Key, Response, Result,
};
use idem_sqlite::rusqlite::{Connection, Transaction, TransactionBehavior};
use idem_sqlite::{SqliteStore, is_transaction_retryable};
use tokio::sync::oneshot;

use super::{Caller, Calls, InTransaction, Level, Work, pay};
use crate::{Adapter, Sqlite};

/// An application on rusqlite.
#[derive(Debug, Clone, Copy)]
pub struct Rusqlite;

#[async_trait]
impl Calls for Rusqlite {
    type Base = Sqlite;

    async fn open(
        &self,
        base: &Sqlite,
        folder: &str,
        _: Option<SocketAddr>,
        connections: usize,
    ) -> Result<Arc<dyn Caller>, BoxError> {
        let file = Path::new(folder).join(Sqlite::FILE);
        let open = |_| {
            let connection = Connection::open(&file)?;
            Ok::<_, BoxError>(Arc::new(Mutex::new(connection)))
        };
        Ok(Arc::new(Application {
            store: base.store(folder).await?,
            connections: (0..connections).map(open).collect::<Result<_, _>>()?,
            next: AtomicUsize::new(0),
        }))
    }
}

struct Application {
    store: SqliteStore,
    connections: Vec<Arc<Mutex<Connection>>>,
    next: AtomicUsize,
}

impl fmt::Debug for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Application").finish_non_exhaustive()
    }
}

type Step = Box<dyn FnOnce(&SqliteStore, &Transaction<'_>) + Send>;

enum Command {
    Do(Step),
    Commit,
}

#[async_trait]
impl Caller for Application {
    /// There is one level, which is serializable. A future that is dropped ends the commands, and
    /// the thread rolls back.
    async fn transact(&self, _: Level, work: &mut dyn Work) -> Result<(), BoxError> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let connection = Arc::clone(&self.connections[next % self.connections.len()]);
        let store = self.store.clone();
        let (commands, received) = mpsc::channel();
        let thread = tokio::task::spawn_blocking(move || -> Result<(), BoxError> {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let immediate = TransactionBehavior::Immediate;
            let transaction = connection.transaction_with_behavior(immediate)?;
            for command in received {
                match command {
                    Command::Do(step) => step(&store, &transaction),
                    Command::Commit => return Ok(transaction.commit()?),
                }
            }
            Ok(transaction.rollback()?)
        });
        let mut open = Remote(commands);
        let done = work.run(&mut open).await;
        if done.is_ok() {
            let _ = open.0.send(Command::Commit);
        }
        drop(open);
        // An error of the thread, such as a lock at its beginning, comes first.
        thread.await??;
        done
    }

    fn is_retryable(&self, error: &(dyn StdError + 'static)) -> bool {
        is_transaction_retryable(error)
    }
}

struct Remote(mpsc::Sender<Command>);

fn gone() -> Error {
    let message = "the transaction could not begin";
    Error::new(ErrorKind::Other, Effect::None, message)
}

impl Remote {
    async fn answer<T: Send + 'static>(
        &self,
        step: impl FnOnce(&SqliteStore, &Transaction<'_>) -> T + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let step: Step = Box::new(move |store, transaction| {
            let _ = answer.send(step(store, transaction));
        });
        self.0.send(Command::Do(step)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

#[async_trait]
impl InTransaction for Remote {
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let request = request.clone();
        self.answer(move |store, transaction| store.rusqlite(transaction)?.claim_in(&request))
            .await?
    }

    async fn complete(&mut self, claim: &Claim, response: &Response, kept: Duration) -> Result<()> {
        let (claim, response) = (claim.clone(), response.clone());
        self.answer(move |store, transaction| {
            store
                .rusqlite(transaction)?
                .complete_in(&claim, &response, kept)
        })
        .await?
    }

    async fn fail(&mut self, claim: &Claim, failure: &Failure, kept: Duration) -> Result<()> {
        let (claim, failure) = (claim.clone(), failure.clone());
        self.answer(move |store, transaction| {
            store.rusqlite(transaction)?.fail_in(&claim, &failure, kept)
        })
        .await?
    }

    async fn checkpoint(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let (claim, checkpoint) = (claim.clone(), checkpoint.clone());
        self.answer(move |store, transaction| {
            store
                .rusqlite(transaction)?
                .checkpoint_in(&claim, &checkpoint)
        })
        .await?
    }

    async fn advance(&mut self, source: &Key, version: u64, kept: Duration) -> Result<Advance> {
        let source = source.clone();
        self.answer(move |store, transaction| {
            store
                .rusqlite(transaction)?
                .advance_in(&source, version, kept)
        })
        .await?
    }

    async fn pay(&mut self, id: &str) -> Result<(), BoxError> {
        self.execute(&pay("payments", id)).await
    }

    async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
        let sql = sql.to_owned();
        let executed = self.answer(move |_, transaction| transaction.execute_batch(&sql));
        Ok(executed.await??)
    }

    async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
        let sql = sql.to_owned();
        let text = self.answer(move |_, transaction| {
            transaction.query_row(&sql, [], |row| row.get::<_, String>(0))
        });
        Ok(text.await??)
    }
}
