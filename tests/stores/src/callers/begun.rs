//! [`Begun`]: a transaction that stays open between the steps of a case.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_conformance::CallerTransaction;
use idem_core::{
    Advance, BoxError, Checkpoint, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, Key, Response, Result,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Caller, InTransaction, Level, Work};

pub(super) type Doing<'t, O = ()> = Pin<Box<dyn Future<Output = O> + Send + 't>>;

type Step = Box<dyn for<'t> FnOnce(&'t mut dyn InTransaction) -> Doing<'t> + Send>;

enum Command {
    Do(Step),
    Commit,
}

/// An open transaction in a task of its own: drivers lend theirs only to the code that runs in it.
/// Dropped, it is rolled back.
pub struct Begun {
    commands: mpsc::Sender<Command>,
    task: JoinHandle<Result<(), BoxError>>,
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").finish_non_exhaustive()
    }
}

/// The error with which a case rolls back.
#[derive(Debug)]
struct RolledBack;

impl fmt::Display for RolledBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the case rolls back")
    }
}

impl std::error::Error for RolledBack {}

struct Serve(mpsc::Receiver<Command>);

#[async_trait]
impl Work for Serve {
    async fn run(&mut self, transaction: &mut dyn InTransaction) -> Result<(), BoxError> {
        loop {
            match self.0.recv().await {
                Some(Command::Do(step)) => step(transaction).await,
                Some(Command::Commit) => return Ok(()),
                None => return Err(RolledBack.into()),
            }
        }
    }
}

/// Runs a call of the open transaction in its task, and returns the answer.
macro_rules! step {
    ($begun:expr, |$transaction:ident| $call:expr) => {
        $begun
            .answer(move |$transaction, answer| {
                Box::pin(async move {
                    let _ = answer.send($call.await);
                })
            })
            .await?
    };
}

fn gone() -> Error {
    let message = "the transaction could not begin";
    Error::new(ErrorKind::Other, Effect::None, message)
}

impl Begun {
    /// Begins a transaction of the caller.
    pub fn begin(caller: Arc<dyn Caller>, level: Level) -> Self {
        let (commands, received) = mpsc::channel(1);
        let task = tokio::spawn(async move { caller.transact(level, &mut Serve(received)).await });
        Self { commands, task }
    }

    async fn answer<T: Send + 'static>(
        &mut self,
        step: impl for<'t> FnOnce(&'t mut dyn InTransaction, oneshot::Sender<T>) -> Doing<'t>
        + Send
        + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let step: Step = Box::new(move |transaction| step(transaction, answer));
        let sent = self.commands.send(Command::Do(step)).await;
        sent.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }

    /// Calls `fail_in`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn fail(&mut self, claim: &Claim, failure: &Failure, kept: Duration) -> Result<()> {
        let (claim, failure) = (claim.clone(), failure.clone());
        step!(self, |transaction| transaction.fail(&claim, &failure, kept))
    }

    /// Calls `checkpoint_in`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn checkpoint(&mut self, claim: &Claim, checkpoint: &Checkpoint) -> Result<()> {
        let (claim, checkpoint) = (claim.clone(), checkpoint.clone());
        step!(self, |transaction| transaction
            .checkpoint(&claim, &checkpoint))
    }

    /// Calls `advance_in`.
    ///
    /// # Errors
    ///
    /// The store's.
    pub async fn advance(&mut self, source: &Key, version: u64, kept: Duration) -> Result<Advance> {
        let source = source.clone();
        step!(self, |transaction| transaction
            .advance(&source, version, kept))
    }

    /// Inserts a payment.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn pay(&mut self, id: &str) -> Result<(), BoxError> {
        let id = id.to_owned();
        step!(self, |transaction| transaction.pay(&id))
    }

    /// Runs another statement.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn execute(&mut self, sql: &str) -> Result<(), BoxError> {
        let sql = sql.to_owned();
        step!(self, |transaction| transaction.execute(&sql))
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// The driver's.
    pub async fn text(&mut self, sql: &str) -> Result<String, BoxError> {
        let sql = sql.to_owned();
        step!(self, |transaction| transaction.text(&sql))
    }
}

#[async_trait]
impl CallerTransaction for Begun {
    async fn claim(&mut self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        let request = request.clone();
        step!(self, |transaction| transaction.claim(&request))
    }

    async fn complete(&mut self, claim: &Claim, response: &Response, kept: Duration) -> Result<()> {
        let (claim, response) = (claim.clone(), response.clone());
        step!(self, |transaction| transaction
            .complete(&claim, &response, kept))
    }

    async fn commit(self: Box<Self>) -> Result<(), BoxError> {
        // Without a receiver the task has ended, with the error that it returns.
        let _ = self.commands.send(Command::Commit).await;
        self.task.await?
    }

    async fn rollback(self: Box<Self>) -> Result<(), BoxError> {
        drop(self.commands);
        match self.task.await? {
            Err(error) if error.is::<RolledBack>() => Ok(()),
            other => other,
        }
    }
}
