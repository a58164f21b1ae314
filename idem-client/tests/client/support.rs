//! A server that does what a script says, and clients with short pauses.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use idem_client::{
    Answer, Delivery, IdempotencyClient, Intent, IntentKeys, Protocol, RetryPolicy, StoreKeys,
};
use idem_core::MemoryStore;
use rand::SeedableRng;
use rand::rngs::StdRng;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// What the server does with one request, after it has read it whole.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Closes the connection without an answer.
    Drop,
    /// Never answers.
    Hang,
    /// Sends these bytes and closes the connection.
    Send(String),
}

/// An answer with this status, header lines and JSON body.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Act {
    let length = body.len();
    Act::Send(format!(
        "HTTP/1.1 {status} Text\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{headers}\r\n{body}"
    ))
}

pub(crate) fn ok() -> Act {
    answer(200, "", "{}")
}

/// A request as the server got it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn key(&self) -> &str {
        self.header("idempotency-key")
    }

    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        let value = value.unwrap_or_else(|| panic!("no {name} in {self:?}"));
        value.to_str().unwrap()
    }
}

#[derive(Debug, Default)]
struct State {
    script: VecDeque<Act>,
    seen: Vec<Seen>,
}

/// A server that follows a script, one act for each request, and then answers `200`.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Server {
    pub(crate) async fn start(script: impl IntoIterator<Item = Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            script: script.into_iter().collect(),
            seen: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            state,
            task,
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/charges", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.state).seen.clone()
    }

    /// Waits until the server has seen this many requests.
    pub(crate) async fn has_seen(&self, count: usize) -> Vec<Seen> {
        until(|| self.seen().len() >= count).await;
        self.seen()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(stream: TcpStream, state: Arc<Mutex<State>>) {
    let mut stream = BufReader::new(stream);
    let Some(seen) = read(&mut stream).await else {
        return;
    };
    let act = {
        let mut state = lock(&state);
        state.seen.push(seen);
        state.script.pop_front().unwrap_or_else(ok)
    };
    match act {
        Act::Drop => {}
        Act::Hang => std::future::pending().await,
        Act::Send(text) => {
            let _ = stream.write_all(text.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut headers = HeaderMap::new();
    for line in lines.iter().skip(1) {
        let (name, value) = line.split_once(':')?;
        let name: HeaderName = name.parse().ok()?;
        headers.append(name, HeaderValue::from_str(value.trim()).ok()?);
    }
    let length = headers.get("content-length");
    let length = length.map_or(0, |length| length.to_str().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Seen {
        line: lines.first()?.clone(),
        headers,
        body: String::from_utf8(body).ok()?,
    })
}

/// Returns random numbers by the seed in `IDEM_SEED`, or by one that a failed test prints.
pub(crate) fn seeded() -> StdRng {
    let seed = match std::env::var("IDEM_SEED") {
        Ok(seed) => seed.parse().expect("IDEM_SEED is a number"),
        Err(_) => rand::random(),
    };
    println!("IDEM_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// Waits for the condition, for half a minute.
pub(crate) async fn until(mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(30), wait)
        .await
        .expect("the condition holds in time");
}

pub(crate) fn memory() -> StoreKeys {
    StoreKeys::new(MemoryStore::new(), "bank").unwrap()
}

pub(crate) fn quick() -> RetryPolicy {
    RetryPolicy::default().with_pauses(Duration::from_millis(1), Duration::from_millis(5))
}

pub(crate) fn settings(keys: impl IntentKeys, protocol: Protocol) -> IdempotencyClient {
    IdempotencyClient::new(keys, protocol).with_retry(quick())
}

pub(crate) fn client(settings: IdempotencyClient) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new())
        .with(settings)
        .build()
}

/// A client of the IETF draft with keys in memory.
pub(crate) fn ietf() -> ClientWithMiddleware {
    client(settings(memory(), Protocol::ietf()))
}

pub(crate) const BODY: &str = r#"{"order":17,"amount":1250}"#;

pub(crate) fn post(client: &ClientWithMiddleware, url: &str, intent: &str) -> RequestBuilder {
    request(client, Method::POST, url).with_extension(Intent::new(intent).unwrap())
}

pub(crate) fn request(client: &ClientWithMiddleware, method: Method, url: &str) -> RequestBuilder {
    client
        .request(method, url)
        .header("content-type", "application/json")
        .body(BODY)
}

#[track_caller]
pub(crate) fn delivery(response: &reqwest::Response) -> Delivery {
    let delivery = response.extensions().get::<Delivery>();
    delivery.expect("the response has a delivery").clone()
}

#[track_caller]
pub(crate) fn is(response: &reqwest::Response, status: u16, tries: u32, answer: Answer) {
    let delivery = delivery(response);
    let found = (response.status().as_u16(), delivery.tries, delivery.answer);
    assert_eq!(found, (status, tries, answer), "{delivery:?}");
}

/// Returns the error of the crate.
#[track_caller]
pub(crate) fn error(result: &reqwest_middleware::Result<reqwest::Response>) -> &idem_client::Error {
    let error = result.as_ref().expect_err("an error");
    idem_client::Error::of(error).unwrap_or_else(|| panic!("not of this crate: {error:?}"))
}

/// Checks that all requests are the same, byte for byte, and returns how many.
#[track_caller]
pub(crate) fn all_same(seen: &[Seen]) -> usize {
    for one in seen {
        assert_eq!(one.line, seen[0].line);
        assert_eq!(one.headers, seen[0].headers);
        assert_eq!(one.body, seen[0].body);
    }
    seen.len()
}
