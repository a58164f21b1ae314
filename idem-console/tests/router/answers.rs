//! What every answer has, and what none has.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;
use idem_console::{Options, serve_on};
use idem_core::{IdempotencyStore, Key, MemoryStore, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::browser::{Browser, DAY, TOKEN, claim, token, with_record};

#[tokio::test]
async fn every_answer_has_the_headers() {
    let (store, _) = with_record().await;
    let mut browser = Browser::new(&store, token());
    let mut pages = vec![
        browser.get("/").await,
        browser.get("/assets/console.css").await,
        browser
            .post("/login", &[("token", &"a".repeat(40_000))])
            .await,
    ];
    browser.log_in(TOKEN, "").await;
    pages.push(browser.get("/").await);
    pages.push(browser.get("/nothing").await);
    pages.push(browser.get("/force").await);
    pages.push(browser.post("/records", &[]).await);
    pages.push(browser.post("/records", &[("csrf", "wrong")]).await);
    browser.extra = vec![("host", "evil.example".to_owned())];
    for page in pages {
        let status = page.status;
        let header = |name: &str| {
            let value = page.headers.get(name);
            let value = value.unwrap_or_else(|| panic!("{status} has no {name}"));
            value.to_str().unwrap()
        };
        let policy = header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'self'",
        ] {
            assert!(policy.contains(part), "{status}: {policy}");
        }
        assert!(!policy.contains("unsafe"));
        assert_eq!(header("referrer-policy"), "no-referrer");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn pages_have_nothing_in_line() {
    let (store, _) = with_record().await;
    let browser = Browser::known(&store, Options::new());
    for path in ["/", "/records", "/changes"] {
        let page = browser.get(path).await.text;
        for text in [" style=", "<style", " onclick", "javascript:", "<script>"] {
            assert!(!page.contains(text), "{path} has {text}");
        }
    }
}

#[tokio::test]
async fn hostile_keys_are_text() {
    let store = Arc::new(MemoryStore::new());
    for id in [
        "<script>alert(1)</script>",
        "\"><img src=x>",
        "\u{202E}txt",
        "' onx='",
    ] {
        let key = Key::new("<b>scope</b>", "<i>op</i>", id).unwrap();
        let _ = claim(&store, key).await;
    }
    let browser = Browser::known(&store, Options::new());
    let csrf = browser.csrf().await;
    let find = [
        ("csrf", csrf.as_str()),
        ("scope", "<b>scope</b>"),
        ("operation", "<i>op</i>"),
        ("id", "\"><img src=x>"),
    ];
    for page in [
        browser.get("/").await,
        browser.get("/records").await,
        browser.post("/records", &find[..3]).await,
        browser.post("/record", &find).await,
    ] {
        assert_eq!(page.status, StatusCode::OK);
        for text in ["<script>", "<img", "<b>", "<i>", "\u{202E}", "' onx"] {
            assert!(!page.text.contains(text), "{text} in {}", page.text);
        }
    }
}

/// What has been logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn logs_have_neither_keys_nor_payloads_nor_the_token() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // With one subscriber alone, a line that another test reaches first stays off for all.
    let _other = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let _guard = tracing::subscriber::set_default(subscriber);
    let (store, held) = with_record().await;
    let options = token().with_changes().with_shown_results();
    let mut browser = Browser::new(&store, options);
    browser.log_in("a wrong guess", "").await;
    browser.log_in(TOKEN, "Ada").await;
    let csrf = browser.csrf().await;
    let seen = held.token().as_i64().to_string();
    let response = Response::new(200, "the payload");
    store.complete(&held, &response, DAY).await.unwrap();
    let fields = [
        ("csrf", csrf.as_str()),
        ("path", "tenant:pay:order-1"),
        ("action", "delete"),
        ("token", &seen),
        ("reason", "the reason"),
        ("scope", "tenant"),
    ];
    for path in ["/records", "/record", "/result", "/confirm", "/force"] {
        assert_eq!(browser.post(path, &fields).await.status, StatusCode::OK);
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for text in ["forced step", "console:Ada", "a wrong token"] {
        assert!(log.contains(text), "{text} is not in {log}");
    }
    for text in [
        "order-1",
        "tenant",
        "payload",
        "the reason",
        TOKEN,
        "a wrong guess",
    ] {
        assert!(!log.contains(text), "{text} in {log}");
    }
}

#[tokio::test]
async fn a_form_is_bounded() {
    let (store, _) = with_record().await;
    let browser = Browser::known(&store, Options::new());
    let csrf = browser.csrf().await;
    let large = "a".repeat(40_000);
    let fields = [("csrf", csrf.as_str()), ("operation", &large)];
    let page = browser.post("/records", &fields).await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// The clock runs ahead while nothing else happens.
#[tokio::test(start_paused = true)]
async fn connections_that_send_nothing_are_closed() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let store: Arc<dyn IdempotencyStore> = Arc::new(MemoryStore::new());
    tokio::spawn(serve_on(listener, store, Options::new()));
    for sent in ["", "GET / HTTP/1.1\r\nhost: loc"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let began = tokio::time::Instant::now();
        let mut answer = Vec::new();
        // Closed with or without an answer.
        let _ = stream.read_to_end(&mut answer).await;
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(20), "{sent}: {waited:?}");
    }
}
