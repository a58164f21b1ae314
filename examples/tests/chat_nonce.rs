//! Drives the real program over HTTP. Each case has its own keys in Redis, which
//! expire, or its own SQLite file.

#[path = "../storm/tests/support/mod.rs"]
mod support;

use std::future::Future;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use axum::http::{Request, StatusCode, header};
use idem_examples::http::Client;
use idem_redis::redis;
use idem_sqlite::sqlx::{AssertSqlSafe, Connection, SqliteConnection, query_scalar};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use support::{on_servers, run, trials};

type Case = fn(Location);

macro_rules! cases {
    ($($name:ident,)*) => { &[$((stringify!($name), |store| block_on($name(store)))),*] };
}

/// The cases of every store.
const CASES: &[(&str, Case)] = cases![
    a_message_sent_again_is_posted_once,
    senders_at_once_all_get_one_id,
    a_nonce_counts_for_its_author_only,
    after_its_window_a_nonce_is_free,
    a_disconnected_sender_finds_the_message,
    a_sender_that_waited_long_enough_is_to_retry,
    an_invalid_message_is_refused_with_the_reason,
    strangers_are_turned_away,
];

fn main() -> ExitCode {
    let on_redis = CASES.iter().map(|&(name, case)| {
        on_servers(name.to_owned(), &["redis"], move |urls| {
            let namespace = format!("chat-test-{:016x}", rand::random::<u64>());
            let url = urls[0].clone();
            case(Location { url, namespace });
        })
    });
    let mut all: Vec<Trial> = on_redis.collect();
    all.extend(CASES.iter().map(|&(name, case)| embedded(name, case)));
    all.extend(trials![a_missing_server_is_explained,]);
    support::main(all)
}

/// The same in a SQLite file.
fn embedded(name: &'static str, case: Case) -> Trial {
    Trial::test(format!("embedded_{name}"), move || {
        let folder = tempfile::tempdir()?;
        let url = format!("sqlite:{}", folder.path().join("chat.db").display());
        let namespace = "chat".to_owned();
        case(Location { url, namespace });
        Ok(())
    })
}

fn block_on(case: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(case);
}

async fn a_message_sent_again_is_posted_once(store: Location) {
    let server = Server::start(&store, &[]).await;
    let first = server.post("ada", draft("one")).await;
    let id = first.id(StatusCode::CREATED);
    let expected = json!({
        "id": id, "author": "ada", "nonce": "one", "channel": "tea", "content": "Anyone for tea?"
    });
    assert_eq!(first.json, expected);
    let mut other = draft("one");
    other["content"] = "Anyone for coffee?".into();
    for body in [draft("one"), other] {
        let again = server.post("ada", body).await;
        assert_eq!(again.id(StatusCode::OK), id);
        assert_eq!(again.json, expected, "the original");
    }
    assert_eq!(server.count().await, 1);
}

async fn senders_at_once_all_get_one_id(store: Location) {
    let server = Server::start(&store, &["--delay=50ms"]).await;
    let posts: JoinSet<_> = (0..50).map(|_| server.post("ada", draft("one"))).collect();
    let posts = posts.join_all().await;
    let is_new = |sent: &&Answer| sent.status == StatusCode::CREATED;
    assert_eq!(posts.iter().filter(is_new).count(), 1);
    let id = &posts[0].json["id"];
    assert!(id.is_string(), "{posts:?}");
    assert!(posts.iter().all(|sent| sent.json["id"] == *id), "{posts:?}");
    assert_eq!(server.count().await, 1);
}

async fn a_nonce_counts_for_its_author_only(store: Location) {
    let server = Server::start(&store, &[]).await;
    let adas = server.post("ada", draft("one")).await;
    let mut lie = draft("one");
    lie["author"] = "ada".into();
    let bobs = server.post("bob", lie).await;
    assert_ne!(adas.id(StatusCode::CREATED), bobs.id(StatusCode::CREATED));
    assert_eq!(bobs.json["author"], "bob");
    assert_eq!(server.count().await, 2);
}

async fn after_its_window_a_nonce_is_free(store: Location) {
    let server = Server::start(&store, &["--window=300ms"]).await;
    let id = server.posts("one").await;
    let deadline = Instant::now() + Duration::from_secs(30);
    let next = loop {
        let again = server.post("ada", draft("one")).await;
        if again.status == StatusCode::CREATED {
            break again.id(StatusCode::CREATED);
        }
        assert_eq!(again.id(StatusCode::OK), id);
        assert!(Instant::now() < deadline, "the window does not end");
    };
    assert_ne!(next, id);
    assert_eq!(server.count().await, 2);
}

async fn a_disconnected_sender_finds_the_message(store: Location) {
    let server = Server::start(&store, &["--delay=2s"]).await;
    let posting = tokio::spawn(server.post("ada", draft("one")));
    store.until_taken(1).await;
    posting.abort();
    assert!(posting.await.unwrap_err().is_cancelled());
    server.finds("one").await;
    assert_eq!(server.count().await, 1);
}

async fn a_sender_that_waited_long_enough_is_to_retry(store: Location) {
    let server = Server::start(&store, &["--delay=4s", "--wait=50ms"]).await;
    let posting = tokio::spawn(server.post("ada", draft("one")));
    store.until_taken(1).await;
    let again = server.post("ada", draft("one")).await;
    assert_eq!(again.status, StatusCode::CONFLICT, "{}", again.json);
    assert_eq!(again.retry_after.as_deref(), Some("1"));
    let id = posting.await.unwrap().id(StatusCode::CREATED);
    assert_eq!(server.finds("one").await, id);
}

async fn an_invalid_message_is_refused_with_the_reason(store: Location) {
    let server = Server::start(&store, &[]).await;
    let content = |content: &str| json!({ "content": content });
    let cases = [
        (draft("x".repeat(26)), "1 to 25 characters, this one has 26"),
        (draft(""), "1 to 25 characters, this one has 0"),
        (draft("a\u{0}b"), "control characters"),
        (draft(1.5), "a string or an integer"),
        (content("  "), "without content"),
        (
            content(&"é".repeat(2001)),
            "2000 characters, this one has 2001",
        ),
        (json!({}), "`content`"),
    ];
    for (body, reason) in cases {
        let refused = server.post("ada", body.clone()).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{body}");
        let said = refused.json["error"].as_str().unwrap();
        assert!(said.contains(reason), "{said}");
    }
    assert_eq!(server.count().await, 0);
}

async fn strangers_are_turned_away(store: Location) {
    let server = Server::start(&store, &[]).await;
    let refused = server.post("eve", draft("one")).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
}

fn a_missing_server_is_explained() {
    for (option, reason) in [
        ("--store=redis://127.0.0.1:1", "nothing listens there"),
        ("--store=oracle://127.0.0.1", "`oracle` is no store"),
        ("--window=5", "such as 300s"),
    ] {
        let ran = run(env!("CARGO_BIN_EXE_chat_nonce"), &[option]);
        ran.is_stopped(&[reason]);
    }
}

struct Location {
    url: String,
    namespace: String,
}

impl Location {
    /// Waits until this many nonces are taken.
    async fn until_taken(&self, count: usize) {
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

/// One process of the program, and its clients.
struct Server {
    address: String,
    _process: Child,
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    retry_after: Option<String>,
    json: Value,
}

impl Server {
    async fn start(store: &Location, options: &[&str]) -> Self {
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

    fn post(&self, author: &str, body: Value) -> impl Future<Output = Answer> + use<> {
        self.request(author, Some(body))
    }

    /// Posts a message of Ada's that is new, and returns its id.
    async fn posts(&self, nonce: impl Into<Value>) -> String {
        let answer = self.post("ada", draft(nonce)).await;
        answer.id(StatusCode::CREATED)
    }

    /// Posts a message of Ada's that was posted before, and returns its id.
    async fn finds(&self, nonce: impl Into<Value>) -> String {
        let answer = self.post("ada", draft(nonce)).await;
        answer.id(StatusCode::OK)
    }

    /// Returns how many messages it has.
    async fn count(&self) -> usize {
        let answer = self.request("ada", None).await;
        answer.json.as_array().unwrap().len()
    }
}

impl Answer {
    #[track_caller]
    fn id(&self, expected: StatusCode) -> String {
        assert_eq!(self.status, expected, "{}", self.json);
        self.json["id"].as_str().unwrap().to_owned()
    }
}

/// A message with an enforced nonce.
fn draft(nonce: impl Into<Value>) -> Value {
    json!({ "content": "Anyone for tea?", "nonce": nonce.into(), "enforce_nonce": true })
}
