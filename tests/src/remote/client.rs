//! The client.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::backend::check;
use idem_core::{
    BoxError, CheckpointStore, Claim, ClaimOutcome, ClaimRequest, Effect, Error, ErrorKind,
    Failure, IdempotencyStore, Key, Limits, Record, RecordAdmin, Response, Result, WatermarkStore,
};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::protocol::{Answer, Operation, Request};

pub(super) const BACKEND: &str = "remote";

/// Whether the client lies about what it cannot know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lie {
    /// An operation whose answer was lost has an unknown effect.
    #[default]
    Truth,
    /// It reports that nothing was done: law 14 broken.
    NoEffect,
    /// It retries under a new attempt id, so that it does not recognize its own claim: law 6
    /// broken.
    AsksAsAnother,
    /// It reports a response as stored before it has sent it: law 12 broken.
    AcknowledgesEarly,
    /// It returns the last answer instead of the lost one: law 14 broken.
    TellsTheLastAnswer,
}

impl Lie {
    /// All lies.
    pub const ALL: [Self; 5] = [
        Self::Truth,
        Self::NoEffect,
        Self::AsksAsAnother,
        Self::AcknowledgesEarly,
        Self::TellsTheLastAnswer,
    ];
}

/// A handle of a store on a [`Server`](super::Server).
///
/// A connection leaves the pool while it is used and returns after its answer, so a dropped future
/// leaves no connection out of step.
#[derive(Debug)]
pub struct RemoteStore {
    address: SocketAddr,
    namespace: String,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
    lie: Lie,
    last: Mutex<Option<ClaimOutcome>>,
}

impl RemoteStore {
    /// Creates a handle of this namespace, which connects at the first use.
    #[must_use]
    pub fn new(address: SocketAddr, namespace: impl Into<String>, lie: Lie) -> Self {
        Self {
            address,
            namespace: namespace.into(),
            idle: Mutex::default(),
            lie,
            last: Mutex::default(),
        }
    }

    /// Returns what the caller of a claim gets for this answer.
    fn returned(&self, answer: Result<Answer>) -> Result<ClaimOutcome> {
        if self.lie != Lie::TellsTheLastAnswer {
            return answer.and_then(outcome);
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (answer, &*last) {
            (Err(_), Some(last)) => Ok(last.clone()),
            (answer, _) => answer
                .and_then(outcome)
                .inspect(|returned| *last = Some(returned.clone())),
        }
    }

    pub(super) async fn ask(&self, operation: Operation) -> Result<Answer> {
        let name = operation.name();
        let answer = match self.connection().await {
            Err(error) => Err(self.unavailable(Effect::None, error)),
            Ok(connection) => self.exchange(connection, operation).await,
        };
        let answer = answer.and_then(Answer::into_result);
        answer.map_err(|error| error.at(BACKEND, name))
    }

    async fn connection(&self) -> std::io::Result<BufReader<TcpStream>> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(BufReader::new(stream))
    }

    async fn exchange(
        &self,
        mut connection: BufReader<TcpStream>,
        operation: Operation,
    ) -> Result<Answer> {
        let namespace = self.namespace.clone();
        let request = serde_json::to_string(&Request {
            namespace,
            operation,
        });
        let mut line = request.map_err(|error| self.unavailable(Effect::None, error))?;
        line.push('\n');
        let effect = match self.lie {
            Lie::NoEffect => Effect::None,
            _ => Effect::Unknown,
        };
        let lost = |error| self.unavailable(effect, error);
        connection.write_all(line.as_bytes()).await.map_err(lost)?;
        line.clear();
        connection.read_line(&mut line).await.map_err(lost)?;
        let answer = serde_json::from_str(&line);
        let answer = answer.map_err(|error| self.unavailable(effect, error))?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
        Ok(answer)
    }

    fn unavailable(&self, effect: Effect, source: impl Into<BoxError>) -> Error {
        Error::new(ErrorKind::Unavailable, effect, "the server did not answer").with_source(source)
    }
}

fn outcome(answer: Answer) -> Result<ClaimOutcome> {
    match answer {
        Answer::Outcome(outcome) => Ok(outcome),
        _ => Err(nonsense()),
    }
}

pub(super) fn nonsense() -> Error {
    Error::corrupt("the server answered another question").at(BACKEND, "")
}

#[async_trait]
impl IdempotencyStore for RemoteStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn limits(&self) -> Limits {
        Limits::DEFAULT.with_max_result_bytes(1 << 20)
    }

    fn checkpoints(&self) -> Option<&dyn CheckpointStore> {
        Some(self)
    }

    fn watermarks(&self) -> Option<&dyn WatermarkStore> {
        Some(self)
    }

    fn admin(&self) -> Option<&dyn RecordAdmin> {
        Some(self)
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimOutcome> {
        check::claim(request, &self.limits()).map_err(|error| error.at(BACKEND, "claim"))?;
        let mut request = request.clone();
        if self.lie == Lie::AsksAsAnother {
            request = request.with_attempt(idem_core::AttemptId::random());
        }
        self.returned(self.ask(Operation::Claim(request)).await)
    }

    async fn complete(
        &self,
        claim: &Claim,
        response: &Response,
        retention: Duration,
    ) -> Result<()> {
        check::retention(retention)
            .and_then(|_| check::response(response, &self.limits()))
            .map_err(|error| error.at(BACKEND, "complete"))?;
        let operation = Operation::Complete(claim.clone(), response.clone(), retention);
        if self.lie == Lie::AcknowledgesEarly {
            let later = Self::new(self.address, self.namespace.clone(), Lie::Truth);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                later.ask(operation).await
            });
            return Ok(());
        }
        self.ask(operation).await.map(drop)
    }

    async fn fail(&self, claim: &Claim, failure: &Failure, retention: Duration) -> Result<()> {
        check::retention(retention)
            .and_then(|_| check::failure(failure, &self.limits()))
            .map_err(|error| error.at(BACKEND, "fail"))?;
        let operation = Operation::Fail(claim.clone(), failure.clone(), retention);
        self.ask(operation).await.map(drop)
    }

    async fn release(&self, claim: &Claim) -> Result<()> {
        self.ask(Operation::Release(claim.clone())).await.map(drop)
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Claim> {
        check::lease(lease).map_err(|error| error.at(BACKEND, "renew"))?;
        match self.ask(Operation::Renew(claim.clone(), lease)).await? {
            Answer::Claim(claim) => Ok(claim),
            _ => Err(nonsense()),
        }
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        match self.ask(Operation::Get(key.clone())).await? {
            Answer::Record(record) => Ok(record),
            _ => Err(nonsense()),
        }
    }

    async fn delete_expired(&self, limit: u32) -> Result<u64> {
        match self.ask(Operation::Purge(limit)).await? {
            Answer::Count(count) => Ok(count),
            _ => Err(nonsense()),
        }
    }

    async fn fail_abandoned(&self, limit: u32) -> Result<u64> {
        match self.ask(Operation::Sweep(limit)).await? {
            Answer::Count(count) => Ok(count),
            _ => Err(nonsense()),
        }
    }
}
