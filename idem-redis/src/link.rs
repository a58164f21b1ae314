//! [`Link`]: the connection to the server, replaced when it is lost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use idem_core::{Effect, Error, ErrorKind, Result};
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::clock::{ServerClock, time, too_late};
use crate::config::{Config, Eviction, Replicas};
use crate::connect::{Connection, Connector};
use crate::error::{Access, classify, code_of, is_connection_useless, is_elsewhere};
use crate::info::Info;
use crate::mismatch;
use crate::replicas::{Waits, count, enough, wait};
use crate::script::Call;
use crate::scripts;

/// How often a command is sent again because another node has its key now: each time it has done
/// nothing.
const MAX_RETRIES: u32 = 8;

/// How often a claim is sent that a server considers late: once more after each, with that server's
/// clock.
const MAX_DATES: u32 = 3;

/// The first pause before that, doubled each time: all nodes take a moment to see a failover.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// One shared connection at a time. It is given up when it is lost, when an answer does not come in
/// time, and when the server at its end has become a replica. The next caller then connects anew.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) connector: Arc<Connector>,
    timeout: Duration,
    eviction: Eviction,
    replicas: Option<Replicas>,
    current: Arc<RwLock<Option<Live>>>,
    connecting: Mutex<()>,
    generations: Arc<AtomicU64>,
    is_replacing: Arc<AtomicBool>,
    checked: AtomicBool,
    pub(crate) clock: ServerClock,
}

#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) connection: Connection,
    waits: Arc<Waits>,
    generation: u64,
}

impl Live {
    fn new(connection: Connection, generations: &AtomicU64) -> Self {
        Self {
            connection,
            waits: Arc::default(),
            generation: generations.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }
}

/// Another connection is being made; reset also when its runtime ends before there is one.
struct Replacing(Arc<AtomicBool>);

impl Drop for Replacing {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn put(current: &RwLock<Option<Live>>, live: Live) {
    *current.write().unwrap_or_else(PoisonError::into_inner) = Some(live);
}

/// A script's answer, and how many replicas had its write, where that was requested.
type Answered = (Value, Option<i64>);

/// How far an operation has come when its time is up: the generation of the connection that it was
/// sent on, or 0.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU64);

impl Progress {
    /// Records that something was sent on this connection.
    pub(crate) fn sent_on(&self, live: &Live) {
        self.0.store(live.generation, Ordering::Relaxed);
    }

    /// Records that the sent command has done nothing.
    fn undone(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl Link {
    pub(crate) fn new(connector: Connector, config: &Config) -> Self {
        Self {
            connector: Arc::new(connector),
            timeout: config.timeout(),
            eviction: config.eviction(),
            replicas: config.replicas(),
            current: Arc::default(),
            connecting: Mutex::default(),
            generations: Arc::default(),
            is_replacing: Arc::default(),
            checked: AtomicBool::default(),
            clock: ServerClock::new(),
        }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Connects, if there is no connection, and checks that claims are safe on the server.
    pub(crate) async fn check(&self) -> Result<()> {
        let progress = Progress::default();
        let connected = async { self.live().await.map(drop) };
        self.in_time(self.deadline(), &progress, Access::Read, connected)
            .await
    }

    /// Returns the deadline of an operation that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Runs a script. `wrote` returns, from its answer, whether replicas must have a write, its own
    /// or an earlier one of another caller.
    pub(crate) async fn run(
        &self,
        call: &Call<'_>,
        sent: Access,
        wrote: fn(&Value) -> bool,
    ) -> Result<Value> {
        self.run_until(self.deadline(), call, sent, wrote).await
    }

    /// Runs a script with this deadline.
    pub(crate) async fn run_until(
        &self,
        deadline: Instant,
        call: &Call<'_>,
        sent: Access,
        wrote: fn(&Value) -> bool,
    ) -> Result<Value> {
        let progress = Progress::default();
        let asked = async {
            let (live, (value, acknowledged)) = match call.is_dated() {
                true => self.ask_dated(deadline, call, sent, &progress).await?,
                false => self.ask(call, sent, &progress).await?,
            };
            if wrote(&value) {
                let replicated = self.replicated(&live, acknowledged).await;
                replicated.map_err(|error| match sent {
                    Access::Read => error.with_effect(Effect::None),
                    Access::Write => error,
                })?;
            }
            Ok(value)
        };
        self.in_time(deadline, &progress, sent, asked).await
    }

    /// Sends the claim again when the server says that it is too late, and it is not: then the
    /// server's clock differs from the estimate.
    async fn ask_dated(
        &self,
        deadline: Instant,
        call: &Call<'_>,
        sent: Access,
        progress: &Progress,
    ) -> Result<(Live, Answered)> {
        for _ in 0..MAX_DATES {
            // The estimate of the clock comes with the connection.
            self.live().await?;
            let asked = Instant::now();
            let call = call.until(self.clock.at(deadline));
            let (live, answered) = self.ask(&call, sent, progress).await?;
            let Some(now) = too_late(&answered.0) else {
                return Ok((live, answered));
            };
            progress.undone();
            self.clock.learn(asked, now);
        }
        Err(dropped())
    }

    /// Sends one plain command to every master.
    pub(crate) async fn at_masters(&self, cmd: &Cmd) -> Result<Vec<(Option<String>, Value)>> {
        let progress = Progress::default();
        let asked = async {
            let mut live = self.live().await?;
            progress.sent_on(&live);
            let answers = live.connection.at_masters(cmd).await;
            answers.map_err(|error| self.failed(error, &live, Access::Read))
        };
        self.in_time(self.deadline(), &progress, Access::Read, asked)
            .await
    }

    /// Sends one plain command to one of them.
    pub(crate) async fn at(&self, node: Option<&str>, cmd: &Cmd) -> Result<Value> {
        let progress = Progress::default();
        let asked = async {
            let mut live = self.live().await?;
            progress.sent_on(&live);
            let answer = match node.and_then(address) {
                None => live.connection.command(cmd).await,
                Some(node) => {
                    let mut pipeline = Pipeline::new();
                    pipeline.add_command(cmd.clone());
                    let answers = live.connection.commands_at(node, pipeline).await;
                    answers
                        .and_then(|mut answers| answers.pop().unwrap_or_default().extract_error())
                }
            };
            answer.map_err(|error| self.failed(error, &live, Access::Read))
        };
        self.in_time(self.deadline(), &progress, Access::Read, asked)
            .await
    }

    /// Sends the call until a server answers, as long as the earlier ones have done nothing.
    async fn ask(
        &self,
        call: &Call<'_>,
        sent: Access,
        progress: &Progress,
    ) -> Result<(Live, Answered)> {
        let mut pause = FIRST_PAUSE;
        let mut asks = 1;
        loop {
            let mut live = self.live().await?;
            progress.sent_on(&live);
            let error = match self.script(&mut live.connection, call).await {
                Ok(answered) => return Ok((live, answered)),
                Err(error) => error,
            };
            let elsewhere = is_elsewhere(&error);
            let error = self.failed(error, &live, sent);
            if !elsewhere || asks == MAX_RETRIES {
                return Err(error);
            }
            asks += 1;
            progress.undone();
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Sends it by hash, and with its text where the server does not know it.
    async fn script(&self, connection: &mut Connection, call: &Call<'_>) -> RedisResult<Answered> {
        match self.command(connection, call.by_hash()).await {
            Err(error) if code_of(&error) == "NOSCRIPT" => {
                Box::pin(self.command(connection, &call.with_text())).await
            }
            answered => answered,
        }
    }

    /// Sends it to the node that has the key, or that is about to get it.
    async fn command(&self, connection: &mut Connection, cmd: &Cmd) -> RedisResult<Answered> {
        let answered = match self.replicas_of_a_node() {
            None => connection.command(cmd).await.map(|value| (value, None)),
            Some(replicas) => {
                let mut pipeline = Pipeline::with_capacity(2);
                pipeline
                    .add_command(cmd.clone())
                    .add_command(wait(replicas));
                let answers = connection.commands(&pipeline).await;
                answers.and_then(with_count)
            }
        };
        match answered {
            Err(error) if code_of(&error) == "ASK" => {
                Box::pin(self.asking(connection, cmd, error)).await
            }
            answered => answered,
        }
    }

    /// Sends it to the node that is about to get the key, as the error says.
    async fn asking(
        &self,
        connection: &mut Connection,
        cmd: &Cmd,
        error: RedisError,
    ) -> RedisResult<Answered> {
        let Some(node) = error.redirect_node().and_then(|(node, _)| address(node)) else {
            return Err(error);
        };
        let mut pipeline = Pipeline::with_capacity(3);
        pipeline.cmd("ASKING").add_command(cmd.clone());
        if let Some(replicas) = self.replicas_of_a_node() {
            pipeline.add_command(wait(replicas));
        }
        let answers = connection.commands_at(node, pipeline).await?;
        let mut answers = answers.into_iter();
        answers.next().ok_or_else(unanswered)?.extract_error()?;
        with_count(answers.collect())
    }

    /// In a cluster, `WAIT` has to go to the node of the write, on the same connection: both are
    /// sent as one.
    fn replicas_of_a_node(&self) -> Option<Replicas> {
        self.replicas.filter(|_| !self.connector.is_one_node())
    }

    /// Waits until the required number of replicas have the write; `acknowledged` if that is known
    /// already.
    pub(crate) async fn replicated(&self, live: &Live, acknowledged: Option<i64>) -> Result<()> {
        let Some(wanted) = self.replicas else {
            return Ok(());
        };
        let acknowledged = match acknowledged {
            Some(acknowledged) => acknowledged,
            None => {
                let waited = live.waits.acknowledged(&live.connection, wanted).await;
                waited.inspect_err(|_| self.give_up(live.generation))?
            }
        };
        enough(wanted, acknowledged)
    }

    /// Returns the current connection, or a new one. Of many callers one connects; the others wait
    /// for it.
    pub(crate) async fn live(&self) -> Result<Live> {
        match self.current() {
            Some(live) => Ok(live),
            // Boxed, so that the common case, which does not connect, needs no space for it.
            None => Box::pin(self.connected()).await,
        }
    }

    async fn connected(&self) -> Result<Live> {
        let _connecting = self.connecting.lock().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let attempt = Box::pin(async {
            let connection = self.connector.connect(self.timeout).await;
            let mut connection = connection.map_err(|error| classify(error, Access::Read))?;
            self.inspect(&mut connection).await?;
            Ok(connection)
        });
        let connection = match self.checked.load(Ordering::Relaxed) {
            true => attempt.await?,
            false => mismatch::explained(&self.connector, self.timeout, attempt).await?,
        };
        let live = Live::new(connection, &self.generations);
        put(&self.current, live.clone());
        Ok(live)
    }

    fn current(&self) -> Option<Live> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone()
    }

    /// A server is inspected at each connecting, because another one may answer after a failover. A
    /// cluster is inspected once, through its masters; one that is down must not keep the others
    /// from being used. Of a cluster's clocks the one that is furthest ahead counts.
    async fn inspect(&self, connection: &mut Connection) -> Result<()> {
        if !self.connector.is_one_node() && self.checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        for (_, answer) in self.inspected(connection, &redis::cmd("INFO")).await? {
            let text: String = redis::from_redis_value(answer)
                .map_err(|error| classify(error.into(), Access::Read))?;
            Info::new(&text).check(self.eviction)?;
        }
        let asked = Instant::now();
        let answers = self.inspected(connection, &redis::cmd("TIME")).await?;
        let clocks = answers.iter().filter_map(|(_, answer)| time(answer));
        let now = clocks
            .max()
            .ok_or_else(|| Error::corrupt("the server does not tell the time"))?;
        self.clock.learn(asked, now);
        let probed = self.inspected(connection, &scripts::probe()).await;
        probed.map_err(scripts::refused)?;
        self.checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Sends a command to every master. A proxy that does not take the command closes the
    /// connection without a word, twice in succession, and not at `PING`.
    async fn inspected(
        &self,
        connection: &mut Connection,
        cmd: &Cmd,
    ) -> Result<Vec<(Option<String>, Value)>> {
        let error = match connection.at_masters(cmd).await {
            Ok(answers) => return Ok(answers),
            Err(error) => error,
        };
        if error.is_io_error() && !self.checked.load(Ordering::Relaxed) {
            let is_lost = |answer: RedisResult<_>| answer.is_err_and(|error| error.is_io_error());
            if let Ok(mut again) = self.connector.connect(self.timeout).await
                && !is_lost(again.command(&redis::cmd("PING")).await.map(drop))
                && is_lost(again.at_masters(cmd).await.map(drop))
            {
                return Err(mismatch::closes_at(cmd));
            }
        }
        Err(classify(error, Access::Read))
    }

    /// Returns what a failed command means; gives up a connection that is useless.
    pub(crate) fn failed(&self, error: RedisError, live: &Live, sent: Access) -> Error {
        if is_connection_useless(&error) {
            self.give_up(live.generation);
        }
        classify(error, sent)
    }

    /// The next caller connects anew. In a cluster only one node fails, and the keys of the others
    /// must not wait for it: their connection is used until a new one is there, which knows by then
    /// the new node of these keys.
    fn give_up(&self, generation: u64) {
        if self.connector.is_one_node() {
            let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
            current.take_if(|live| live.generation == generation);
            return;
        }
        let is_current = self
            .current()
            .is_some_and(|live| live.generation == generation);
        if !is_current || self.is_replacing.swap(true, Ordering::Relaxed) {
            return;
        }
        let (connector, timeout) = (Arc::clone(&self.connector), self.timeout);
        let (current, generations) = (Arc::clone(&self.current), Arc::clone(&self.generations));
        let replacing = Replacing(Arc::clone(&self.is_replacing));
        tokio::spawn(async move {
            // If there is no new one the old one stays; its next failure tries again.
            if let Ok(Ok(connection)) =
                tokio::time::timeout(timeout, connector.connect(timeout)).await
            {
                put(&current, Live::new(connection, &generations));
            }
            drop(replacing);
        });
    }

    pub(crate) async fn in_time<T>(
        &self,
        deadline: Instant,
        progress: &Progress,
        sent: Access,
        work: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if let Ok(result) = tokio::time::timeout_at(deadline, work).await {
            return result;
        }
        // The server may be gone without a word: the next caller connects anew.
        let generation = progress.0.load(Ordering::Relaxed);
        let effect = if generation == 0 {
            Effect::None
        } else {
            self.give_up(generation);
            sent.effect()
        };
        Err(Error::new(
            ErrorKind::Unavailable,
            effect,
            format!(
                "no answer within {} ms; the server is overloaded or cannot be reached",
                self.timeout.as_millis()
            ),
        ))
    }
}

/// Returns the error of a claim that its server has dropped, because its caller no longer waits by
/// that server's clock.
pub(crate) fn dropped() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        Effect::None,
        "the claim reached the server too late and was dropped; the server stalls, or its clock jumps",
    )
}

/// Splits `host:port`, where the host may be an IPv6 address.
fn address(node: &str) -> Option<(&str, u16)> {
    let (host, port) = node.rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']), port.parse().ok()?))
}

fn with_count(answers: Vec<Value>) -> RedisResult<Answered> {
    let mut answers = answers.into_iter();
    let value = answers.next().ok_or_else(unanswered)?.extract_error()?;
    Ok((value, answers.next().map(count)))
}

/// Returns the error of a pipeline with fewer answers than commands. A missing answer must not
/// count as `Nil`, with which scripts report a lost claim.
fn unanswered() -> RedisError {
    let message = "the server sent fewer answers than it got commands";
    (redis::ErrorKind::UnexpectedReturnType, message).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(address("127.0.0.1:7000"), Some(("127.0.0.1", 7000)));
        assert_eq!(address("[::1]:7000"), Some(("::1", 7000)));
        assert_eq!(address(""), None);
    }
}
