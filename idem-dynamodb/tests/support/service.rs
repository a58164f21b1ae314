//! A service between the store and the endpoint of the tests, which loses, delays and invents
//! answers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use idem_conformance::Context;
use idem_core::BoxError;
use idem_dynamodb::aws_sdk_dynamodb::Client;
use idem_dynamodb::aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition};
use idem_dynamodb::{Config, DynamoStore};
use idem_stores::Adapter;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::DynamoHarness;

/// What becomes of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    /// It is answered.
    Pass,
    /// It is done, and its answer is lost.
    Lose,
    /// It is refused with this status and code, and not done.
    Refuse(u16, &'static str),
}

/// The header of all answers is left out.
const NO_DATE: i64 = i64::MAX;

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    script: Mutex<VecDeque<Act>>,
    requests: AtomicU32,
    bodies: Mutex<Vec<String>>,
    /// By how many seconds the `Date` header is wrong.
    date: AtomicI64,
    delay: Mutex<Duration>,
}

/// The service in between. It listens until the runtime ends.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Service {
    pub(crate) async fn start(harness: &DynamoHarness) -> Result<Self, BoxError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let shared = Arc::new(Shared {
            server: harness.address().ok_or("the endpoint has no address")?,
            script: Mutex::default(),
            requests: AtomicU32::new(0),
            bodies: Mutex::default(),
            date: AtomicI64::new(0),
            delay: Mutex::default(),
        });
        let service = Self {
            address: listener.local_addr()?,
            shared: Arc::clone(&shared),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move { answer_all(stream, &shared).await });
            }
        });
        Ok(service)
    }

    /// Lets the next requests have these fates. Those after them pass.
    pub(crate) fn next(&self, acts: &[Act]) {
        lock(&self.shared.script).extend(acts);
    }

    /// Answers from now on with a clock that is wrong by this.
    pub(crate) fn set_clock(&self, seconds: i64) {
        self.shared.date.store(seconds, Ordering::SeqCst);
    }

    /// Answers from now on without a date.
    pub(crate) fn hide_clock(&self) {
        self.set_clock(NO_DATE);
    }

    /// Takes this long for each answer from now on.
    pub(crate) fn slow_down(&self, delay: Duration) {
        *lock(&self.shared.delay) = delay;
    }

    /// Returns the number of requests since the last call.
    pub(crate) fn take_requests(&self) -> u32 {
        self.shared.requests.swap(0, Ordering::SeqCst)
    }

    /// Returns the texts of the requests since the last call.
    pub(crate) fn take_bodies(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.shared.bodies))
    }

    /// Returns a client of this service.
    pub(crate) fn client(&self, harness: &DynamoHarness) -> Client {
        let config = harness.client_config().to_builder();
        let url = format!("http://{}", self.address);
        // The SDK's budget of retries is shared by all clients of a partition.
        let partition = RetryPartition::custom(url.clone()).build();
        let retries = RetryConfig::standard().with_initial_backoff(Duration::from_millis(10));
        let config = config.retry_partition(partition).retry_config(retries);
        Client::from_conf(config.endpoint_url(url).build())
    }

    /// Opens a store of the case's namespace, through this service.
    pub(crate) fn store(
        &self,
        cx: &Context,
        harness: &DynamoHarness,
        change: impl FnOnce(Config) -> Config,
    ) -> Result<DynamoStore, BoxError> {
        let config = change(harness.config(cx.namespace())?);
        Ok(DynamoStore::with_config(self.client(harness), config))
    }
}

async fn answer_all(mut stream: TcpStream, shared: &Shared) -> Result<(), BoxError> {
    loop {
        let Some(request) = read_message(&mut stream).await? else {
            return Ok(());
        };
        shared.requests.fetch_add(1, Ordering::SeqCst);
        let text = String::from_utf8_lossy(&request);
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.into());
        lock(&shared.bodies).extend(body);
        let act = lock(&shared.script).pop_front().unwrap_or(Act::Pass);
        let answer = match act {
            Act::Refuse(status, code) => refusal(status, code),
            Act::Pass | Act::Lose => {
                let mut server = TcpStream::connect(shared.server).await?;
                server.write_all(&request).await?;
                let answer = read_message(&mut server).await?;
                answer.ok_or("the endpoint does not answer")?
            }
        };
        if matches!(act, Act::Lose) {
            return Ok(());
        }
        let delay = *lock(&shared.delay);
        tokio::time::sleep(delay).await;
        let answer = with_date(&answer, shared.date.load(Ordering::SeqCst))?;
        stream.write_all(&answer).await?;
    }
}

/// Reads a request or an answer, whose body has a `Content-Length`.
async fn read_message(stream: &mut TcpStream) -> Result<Option<Vec<u8>>, BoxError> {
    let mut message = Vec::new();
    let end = loop {
        if let Some(end) = message.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut message).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&message[..end]).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or(Ok(0), |length| length.trim().parse())?;
    while message.len() < end + length {
        if stream.read_buf(&mut message).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(message))
}

/// Returns the service's answer with this code.
fn refusal(status: u16, code: &str) -> Vec<u8> {
    let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"no"}}"#);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} No\r\ncontent-type: application/x-amz-json-1.0\r\ndate: \
         x\r\ncontent-length: {length}\r\n\r\n"
    );
    (head + &body).into_bytes()
}

/// Replaces the date of an answer.
fn with_date(answer: &[u8], wrong_by: i64) -> Result<Vec<u8>, BoxError> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let end = end.ok_or("an answer without an end")? + 2;
    let head = std::str::from_utf8(&answer[..end])?;
    let mut changed = String::new();
    for line in head.split_inclusive("\r\n") {
        if !line.to_ascii_lowercase().starts_with("date:") {
            changed.push_str(line);
        }
    }
    if wrong_by != NO_DATE {
        let by = Duration::from_secs(wrong_by.unsigned_abs());
        let now = SystemTime::now();
        let now = if wrong_by < 0 { now - by } else { now + by };
        changed.push_str(&format!("date: {}\r\n", httpdate::fmt_http_date(now)));
    }
    let mut changed = changed.into_bytes();
    changed.extend(&answer[end..]);
    Ok(changed)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
