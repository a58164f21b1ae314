//! The program and its clients.

use std::future::Future;
use std::process::Stdio;
use std::time::{Duration, Instant};

use axum::http::{Request, StatusCode, header};
use futures_util::{SinkExt, StreamExt};
use idem_examples::http::Client;
use idem_redis::redis;
use idem_sqlite::sqlx::{AssertSqlSafe, Connection, SqliteConnection, query_scalar};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

pub(crate) struct Location {
    pub(crate) url: String,
    pub(crate) namespace: String,
}

impl Location {
    /// Waits until this many nonces are taken.
    pub(crate) async fn until_taken(&self, count: usize) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let taken = match self.url.starts_with("sqlite:") {
                true => self.records().await,
                false => self.keys().await,
            };
            if taken >= count {
                return;
            }
            assert!(Instant::now() < deadline, "only {taken}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn keys(&self) -> usize {
        let client = redis::Client::open(self.url.as_str()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut keys = redis::cmd("KEYS");
        keys.arg(format!("{}:*", self.namespace));
        let keys: Vec<String> = keys.query_async(&mut connection).await.unwrap();
        keys.len()
    }

    async fn records(&self) -> usize {
        let mut connection = SqliteConnection::connect(&self.url).await.unwrap();
        let sql = format!("SELECT count(*) FROM {}_records", self.namespace);
        let count = query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection);
        let count: i64 = count.await.unwrap();
        usize::try_from(count).unwrap()
    }
}

/// One process of the program.
pub(crate) struct Server {
    address: String,
    _process: Child,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    pub(crate) json: Value,
}

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

impl Server {
    pub(crate) async fn start(store: &Location, options: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_chat_nonce"))
            .args(["--listen=127.0.0.1:0", "--store", &store.url])
            .args(["--namespace", &store.namespace])
            .args(options)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("it serves");
        let address = line.strip_prefix("listening on http://").expect(&line);
        Self {
            address: address.to_owned(),
            _process: process,
        }
    }

    fn request(&self, author: &str, body: Option<Value>) -> impl Future<Output = Answer> + use<> {
        let (method, body) = match body {
            Some(body) => ("POST", body.to_string()),
            None => ("GET", String::new()),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}/channels/tea/messages", self.address))
            .header(header::AUTHORIZATION, format!("Bearer {author}-token"))
            .body(body)
            .unwrap();
        async {
            let response = Client::default().send(request).await.unwrap();
            let (head, body) = response.into_parts();
            let retry_after = head.headers.get(header::RETRY_AFTER);
            Answer {
                status: head.status,
                retry_after: retry_after.map(|seconds| seconds.to_str().unwrap().to_owned()),
                json: serde_json::from_slice(&body).unwrap(),
            }
        }
    }

    pub(crate) fn post(&self, author: &str, body: Value) -> impl Future<Output = Answer> + use<> {
        self.request(author, Some(body))
    }

    /// Returns how many messages it has.
    pub(crate) async fn count(&self) -> usize {
        let answer = self.request("ada", None).await;
        answer.json.as_array().unwrap().len()
    }

    pub(crate) async fn socket(&self, author: &str) -> Result<Socket, SocketError> {
        let url = format!("ws://{}/channels/tea/socket", self.address);
        let mut request = url.into_client_request()?;
        let token = format!("Bearer {author}-token").parse().unwrap();
        request.headers_mut().insert(header::AUTHORIZATION, token);
        connect_async(request).await.map(|(socket, _)| socket)
    }

    /// Sends a frame and returns its answer.
    pub(crate) async fn say(&self, author: &str, mut frame: Value) -> Value {
        frame["op"] = "send".into();
        let mut socket = self.socket(author).await.unwrap();
        let sent = socket.send(frame.to_string().into()).await;
        sent.unwrap();
        let answer = socket.next().await.unwrap().unwrap();
        serde_json::from_slice(&answer.into_data()).unwrap()
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn id(&self, expected: StatusCode) -> String {
        assert_eq!(self.status, expected, "{}", self.json);
        self.json["id"].as_str().unwrap().to_owned()
    }
}

/// A message with an enforced nonce.
pub(crate) fn draft(nonce: impl Into<Value>) -> Value {
    json!({ "content": "Anyone for tea?", "nonce": nonce.into(), "enforce_nonce": true })
}
