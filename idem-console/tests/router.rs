//! The router, without a network: who gets in, what may be changed, and what every answer has.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use futures_util::StreamExt;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST, RETRY_AFTER, SET_COOKIE};
use http::{HeaderMap, Method, Request, StatusCode};
use idem_console::{Access, Options, router, serve, serve_on};
use idem_core::{
    Claim, ClaimRequest, ErrorKind, Failure, Fingerprint, IdempotencyStore, IdempotencyStoreExt,
    Key, MemoryStore, Response,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::ServiceExt;

const TOKEN: &str = "correct-horse-battery-staple";
const DAY: Duration = Duration::from_secs(86_400);

/// A console, and a browser at an address.
struct Browser {
    app: Router,
    peer: SocketAddr,
    cookie: Option<String>,
    extra: Vec<(&'static str, String)>,
}

struct Page {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Browser {
    fn new(store: &Arc<MemoryStore>, options: Options) -> Self {
        let store: Arc<dyn IdempotencyStore> = store.clone();
        Self {
            app: router(store, options).unwrap(),
            peer: "127.0.0.1:50000".parse().unwrap(),
            cookie: None,
            extra: Vec::new(),
        }
    }

    async fn send(&self, request: Request<Body>) -> Page {
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        Page {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(body.into()).unwrap(),
        }
    }

    fn request(&self, method: Method, path: &str, body: String) -> Request<Body> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, "localhost:7433");
        for (name, value) in &self.extra {
            request = request.header(*name, value);
        }
        if let Some(cookie) = &self.cookie {
            request = request.header(COOKIE, cookie);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        let mut request = request.body(Body::from(body)).unwrap();
        request.extensions_mut().insert(ConnectInfo(self.peer));
        request
    }

    async fn get(&self, path: &str) -> Page {
        let request = self.request(Method::GET, path, String::new());
        self.send(request).await
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let request = self.request(Method::POST, path, form(fields));
        self.send(request).await
    }

    async fn log_in(&mut self, token: &str, name: &str) -> Page {
        let page = self
            .post("/login", &[("token", token), ("name", name)])
            .await;
        if let Some(cookie) = page.headers.get(SET_COOKIE) {
            let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
            self.cookie = Some(cookie.to_owned());
        }
        page
    }

    async fn csrf(&self) -> String {
        self.get("/records").await.value("csrf")
    }
}

impl Page {
    /// Returns the value of the first field of this name.
    fn value(&self, name: &str) -> String {
        let field = format!("name=\"{name}\" value=\"");
        let rest = self.text.split_once(&field).map(|(_, rest)| rest);
        let rest = rest.unwrap_or_else(|| panic!("no field {name} in {}", self.text));
        rest.split('"').next().unwrap().to_owned()
    }
}

fn form(fields: &[(&str, &str)]) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields).finish()
}

fn token() -> Options {
    Options::new().with_access(Access::token(TOKEN).unwrap())
}

fn key(id: &str) -> Key {
    Key::new("tenant", "pay", id).unwrap()
}

async fn claim(store: &MemoryStore, key: Key) -> Claim {
    let request = ClaimRequest::new(key, Fingerprint::raw("body"));
    store.claim(&request).await.unwrap().acquired().unwrap()
}

async fn with_record() -> (Arc<MemoryStore>, Claim) {
    let store = Arc::new(MemoryStore::new());
    let claim = claim(&store, key("order-1")).await;
    (store, claim)
}

#[tokio::test]
async fn strangers_get_the_login_page_and_nothing_else() {
    let (store, _) = with_record().await;
    let browser = Browser::new(&store, token().with_changes());
    for path in [
        "/",
        "/records",
        "/records?state=in_flight",
        "/changes",
        "/events",
        "/nothing",
    ] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(!page.text.contains("order-1"), "{path}");
    }
    for path in [
        "/records", "/record", "/result", "/confirm", "/force", "/logout",
    ] {
        let fields = [("path", "tenant:pay:order-1"), ("csrf", "0")];
        let page = browser.post(path, &fields).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(!page.text.contains("order-1"), "{path}");
    }
    for path in [
        "/login",
        "/assets/console.css",
        "/assets/console.js",
        "/assets/icon.svg",
    ] {
        assert_eq!(browser.get(path).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn the_token_lets_in_and_the_session_ends_on_request() {
    let (store, _) = with_record().await;
    let mut browser = Browser::new(&store, token());
    let refused = browser.log_in("wrong", "").await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(browser.cookie.is_none());
    let page = browser.log_in(TOKEN, "Ada").await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    let cookie = page.headers[SET_COOKIE].to_str().unwrap();
    assert!(
        cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/"),
        "{cookie}"
    );
    let page = browser.get("/").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("order-1") && page.text.contains("console:Ada"));

    let elsewhere = Browser {
        app: browser.app.clone(),
        peer: "10.0.0.9:50000".parse().unwrap(),
        cookie: browser.cookie.clone(),
        extra: Vec::new(),
    };
    assert_eq!(elsewhere.get("/").await.status, StatusCode::UNAUTHORIZED);

    let csrf = browser.csrf().await;
    let page = browser.post("/logout", &[("csrf", &csrf)]).await;
    assert_eq!(page.status, StatusCode::SEE_OTHER);
    assert_eq!(browser.get("/").await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_cookie_is_secure_behind_https() {
    let (store, _) = with_record().await;
    let mut browser = Browser::new(&store, token());
    browser.extra = vec![("x-forwarded-proto", "https".to_owned())];
    let page = browser.log_in(TOKEN, "").await;
    assert!(
        page.headers[SET_COOKIE]
            .to_str()
            .unwrap()
            .contains("; Secure")
    );
}

#[tokio::test]
async fn a_bearer_token_lets_in_until_wrong_ones_have_come() {
    let (store, _) = with_record().await;
    let mut browser = Browser::new(&store, token());
    let bearer = |token: &str| vec![(AUTHORIZATION.as_str(), format!("Bearer {token}"))];
    browser.extra = bearer(TOKEN);
    assert_eq!(browser.get("/records").await.status, StatusCode::OK);
    browser.extra = bearer("wrong");
    for _ in 0..5 {
        assert_eq!(browser.get("/").await.status, StatusCode::UNAUTHORIZED);
    }
    browser.extra = bearer(TOKEN);
    assert_eq!(browser.get("/").await.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn logins_are_limited_also_with_the_right_token() {
    let (store, _) = with_record().await;
    let mut browser = Browser::new(&store, token());
    for _ in 0..5 {
        let page = browser.log_in("wrong", "").await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED);
    }
    let page = browser.log_in(TOKEN, "").await;
    assert_eq!(page.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(page.headers.contains_key(RETRY_AFTER));
    browser.peer = "10.0.0.9:1".parse().unwrap();
    assert_eq!(
        browser.log_in(TOKEN, "").await.status,
        StatusCode::SEE_OTHER
    );
}

#[tokio::test]
async fn a_proxy_names_the_user_and_nobody_else_does() {
    let (store, _) = with_record().await;
    let access = Access::proxy_header("x-forwarded-user").unwrap();
    let mut browser = Browser::new(&store, Options::new().with_access(access).with_changes());
    assert_eq!(browser.get("/").await.status, StatusCode::UNAUTHORIZED);
    browser.extra = vec![("x-forwarded-user", "ada".to_owned())];
    let page = browser.get("/").await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("ada"));
    browser.peer = "10.0.0.9:1".parse().unwrap();
    assert_eq!(browser.get("/").await.status, StatusCode::UNAUTHORIZED);
    browser.peer = "127.0.0.1:1".parse().unwrap();
    browser.extra.push(("x-forwarded-user", "eve".to_owned()));
    assert_eq!(browser.get("/").await.status, StatusCode::UNAUTHORIZED);
}

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
    let browser = Browser::new(&store, Options::new());
    for path in ["/", "/records", "/changes"] {
        let page = browser.get(path).await.text;
        for text in [" style=", "<style", " onclick", "javascript:", "<script>"] {
            assert!(!page.contains(text), "{path} has {text}");
        }
    }
}

#[tokio::test]
async fn another_name_of_the_host_is_refused() {
    let (store, _) = with_record().await;
    let browser = Browser::new(&store, Options::new());
    for (host, status) in [
        ("localhost:7433", StatusCode::OK),
        ("127.0.0.1:7433", StatusCode::OK),
        ("evil.example:7433", StatusCode::MISDIRECTED_REQUEST),
    ] {
        let mut request = Request::get("/")
            .header(HOST, host)
            .body(Body::empty())
            .unwrap();
        request.extensions_mut().insert(ConnectInfo(browser.peer));
        let page = browser.send(request).await;
        assert_eq!(page.status, status, "{host}");
        assert!(page.headers.contains_key("content-security-policy"));
    }
}

#[tokio::test]
async fn forms_of_other_sites_and_sessions_are_refused() {
    let (store, held) = with_record().await;
    let mut browser = Browser::new(&store, token().with_changes());
    browser.log_in(TOKEN, "").await;
    let csrf = browser.csrf().await;
    let record = browser.get("/records").await;
    let handle = record
        .text
        .split("name=\"record\" value=\"")
        .nth(1)
        .unwrap();
    let handle = handle.split('"').next().unwrap();
    let held_token = held.token().as_i64().to_string();
    let fields = |csrf| {
        [
            ("csrf", csrf),
            ("record", handle),
            ("action", "release"),
            ("token", &held_token),
            ("reason", "worker gone"),
        ]
        .map(|(name, value): (&str, &str)| (name.to_owned(), value.to_owned()))
    };
    let mut other = Browser::new(&store, token());
    other.app = browser.app.clone();
    other.log_in(TOKEN, "").await;
    let others = other.csrf().await;
    assert_ne!(others, csrf);
    for wrong in ["", "wrong", &others] {
        let sent = fields(wrong);
        let sent: Vec<_> = sent.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let page = browser.post("/force", &sent).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN);
    }
    browser.extra = vec![("sec-fetch-site", "cross-site".to_owned())];
    let sent = fields(&csrf);
    let sent: Vec<_> = sent.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(
        browser.post("/force", &sent).await.status,
        StatusCode::FORBIDDEN
    );
    assert!(store.history(&key("order-1")).await.unwrap().is_empty());
    browser.extra = vec![("sec-fetch-site", "same-origin".to_owned())];
    assert_eq!(browser.post("/force", &sent).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_read_only_console_changes_nothing() {
    let (store, held) = with_record().await;
    let mut browser = Browser::new(&store, token());
    browser.log_in(TOKEN, "").await;
    let csrf = browser.csrf().await;
    let find = [("csrf", csrf.as_str()), ("path", "tenant:pay:order-1")];
    let page = browser.post("/record", &find).await;
    assert_eq!(page.status, StatusCode::OK);
    assert!(page.text.contains("order-1") && !page.text.contains("Release"));
    let handle = page.text.split("name=\"record\" value=\"").nth(1);
    assert!(handle.is_none(), "a read-only page needs no handle");
    let held_token = held.token().as_i64().to_string();
    let fields = [
        ("csrf", csrf.as_str()),
        ("path", "tenant:pay:order-1"),
        ("action", "release"),
        ("token", &held_token),
        ("reason", "worker gone"),
    ];
    for path in ["/confirm", "/force", "/result"] {
        let page = browser.post(path, &fields).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{path}");
    }
    let response = Response::new(200, "paid");
    store.complete(&held, &response, DAY).await.unwrap();
}

#[tokio::test]
async fn a_release_is_confirmed_audited_and_takes_the_seen_token_only() {
    let (store, held) = with_record().await;
    let mut browser = Browser::new(&store, token().with_changes());
    browser.log_in(TOKEN, "Ada").await;
    let csrf = browser.csrf().await;
    let find = [("csrf", csrf.as_str()), ("path", "tenant:pay:order-1")];
    let page = browser.post("/record", &find).await;
    let handle = page.value("record");
    let ask = [
        ("csrf", csrf.as_str()),
        ("record", &handle),
        ("action", "release"),
        ("reason", "worker gone"),
    ];
    let page = browser.post("/confirm", &ask).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    let seen = page.value("token");
    assert_eq!(seen, held.token().as_i64().to_string());
    for text in ["order-1", "in flight", "worker gone", "console:Ada"] {
        assert!(page.text.contains(text), "{text}");
    }
    assert!(store.history(&key("order-1")).await.unwrap().is_empty());
    let take = [ask.as_slice(), &[("token", seen.as_str())]].concat();
    let page = browser.post("/force", &take).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(page.text.contains(">Done<"));
    let lost = store.complete(&held, &Response::new(200, ""), DAY).await;
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::ClaimLost);
    let history = store.history(&key("order-1")).await.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].who, "console:Ada");
    assert_eq!(history[0].reason, "worker gone");
    let changes = browser.get("/changes").await.text;
    assert!(changes.contains("worker gone") && changes.contains("console:Ada"));

    // The key was claimed again: the page that was seen before counts no more.
    let _ = claim(&store, key("order-1")).await;
    let page = browser.post("/force", &take).await;
    assert_eq!(page.status, StatusCode::CONFLICT);
    assert!(page.text.contains("Nothing was changed"));
    let empty = [
        ("csrf", csrf.as_str()),
        ("record", &handle),
        ("action", "release"),
    ];
    let page = browser.post("/confirm", &empty).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_record_is_failed_and_another_deleted() {
    let (store, held) = with_record().await;
    let mut browser = Browser::new(&store, token().with_changes());
    browser.log_in(TOKEN, "").await;
    let csrf = browser.csrf().await;
    let path = "tenant:pay:order-1";
    let seen = held.token().as_i64().to_string();
    let mut fields = vec![
        ("csrf", csrf.as_str()),
        ("path", path),
        ("action", "fail"),
        ("token", &seen),
        ("reason", "charged by hand"),
        ("code", "operator.failed"),
        ("message", "see ticket 7"),
        ("hours", "0"),
    ];
    let page = browser.post("/force", &fields).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
    fields[7] = ("hours", "24");
    assert_eq!(browser.post("/force", &fields).await.status, StatusCode::OK);
    let page = browser.post("/record", &fields[..2]).await;
    assert!(page.text.contains("operator.failed") && page.text.contains("Delete"));
    fields[2] = ("action", "delete");
    assert_eq!(browser.post("/force", &fields).await.status, StatusCode::OK);
    let page = browser.post("/record", &fields[..2]).await;
    assert!(page.text.contains(">free<") && page.text.contains("charged by hand"));
}

#[tokio::test]
async fn changes_are_limited() {
    let (store, _) = with_record().await;
    let mut browser = Browser::new(&store, token().with_changes());
    browser.log_in(TOKEN, "").await;
    let csrf = browser.csrf().await;
    let fields = [("csrf", csrf.as_str()), ("action", "release")];
    for _ in 0..10 {
        let page = browser.post("/force", &fields).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST);
    }
    let page = browser.post("/force", &fields).await;
    assert_eq!(page.status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn handles_are_not_keys_and_cannot_be_forged() {
    let (store, _) = with_record().await;
    let browser = Browser::new(&store, Options::new());
    let page = browser.get("/records").await;
    let handle = page.text.split("name=\"record\" value=\"").nth(1).unwrap();
    let handle = handle.split('"').next().unwrap();
    assert_eq!(handle.len(), 32);
    let csrf = page.value("csrf");
    let open = async |record: &str| {
        let fields = [("csrf", csrf.as_str()), ("record", record)];
        browser.post("/record", &fields).await.status
    };
    assert_eq!(open(handle).await, StatusCode::OK);
    for forged in ["tenant:pay:order-1", "0", &handle[1..], &"0".repeat(32)] {
        assert_eq!(open(forged).await, StatusCode::GONE, "{forged}");
    }
    let other = Browser::new(&store, Options::new());
    let csrf = other.csrf().await;
    let fields = [("csrf", csrf.as_str()), ("record", handle)];
    assert_eq!(
        other.post("/record", &fields).await.status,
        StatusCode::GONE
    );
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
    let browser = Browser::new(&store, Options::new());
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

#[tokio::test]
async fn filters_find_records_and_pages_follow_each_other() {
    let store = Arc::new(MemoryStore::new());
    for number in 0..260 {
        let operation = if number % 2 == 0 { "pay" } else { "ship" };
        let key = Key::new("tenant", operation, format!("id-{number}")).unwrap();
        let claim = claim(&store, key).await;
        if number == 7 {
            let failure = Failure::new("declined", "no");
            store.fail(&claim, &failure, DAY).await.unwrap();
        }
    }
    let browser = Browser::new(&store, Options::new());
    let failed = browser.get("/records?state=failed").await;
    assert!(failed.text.contains("id-7<") && failed.text.contains("1 shown"));
    let wrong = browser.get("/records?state=nonsense").await;
    assert_eq!(wrong.status, StatusCode::BAD_REQUEST);
    let csrf = browser.csrf().await;
    let by_code = [("csrf", csrf.as_str()), ("code", "declined")];
    let page = browser.post("/records", &by_code).await;
    assert!(page.text.contains("1 shown"));
    let by_age = [("csrf", csrf.as_str()), ("age", "3600")];
    assert!(
        browser
            .post("/records", &by_age)
            .await
            .text
            .contains("0 shown")
    );
    let by_operation = [("csrf", csrf.as_str()), ("operation", "ship")];
    let mut page = browser.post("/records", &by_operation).await;
    let mut found = std::collections::BTreeSet::new();
    loop {
        let ids = page.text.split(">id-").skip(1);
        found.extend(ids.map(|rest| rest.split('<').next().unwrap().to_owned()));
        let Some((_, cursor)) = page.text.split_once("name=\"cursor\" value=\"") else {
            break;
        };
        let cursor = cursor.split('"').next().unwrap();
        let fields = [by_operation.as_slice(), &[("cursor", cursor)]].concat();
        page = browser.post("/records", &fields).await;
        assert_eq!(page.status, StatusCode::OK);
    }
    assert_eq!(found.len(), 130);
    let forged = [("csrf", csrf.as_str()), ("cursor", "forged")];
    let page = browser.post("/records", &forged).await;
    assert_eq!(page.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn results_are_shown_only_where_they_may() {
    let (store, held) = with_record().await;
    let response = Response::new(201, "<b>secret</b>\nsecond").with_header("x-a", "<i>");
    store.complete(&held, &response, DAY).await.unwrap();
    for shows in [false, true] {
        let options = Options::new();
        let options = if shows {
            options.with_shown_results()
        } else {
            options
        };
        let browser = Browser::new(&store, options);
        let csrf = browser.csrf().await;
        let find = [("csrf", csrf.as_str()), ("path", "tenant:pay:order-1")];
        let page = browser.post("/record", &find).await;
        assert!(!page.text.contains("secret"));
        assert_eq!(page.text.contains("Show the result"), shows);
        let page = browser.post("/result", &find).await;
        assert_eq!(page.text.contains("secret"), shows);
        assert!(!page.text.contains("<b>") && !page.text.contains("<i>"));
    }
}

#[tokio::test]
async fn a_mounted_console_stays_below_its_path() {
    let (store, _) = with_record().await;
    let options = Options::new().with_base_path("/admin/idem").unwrap();
    let mut browser = Browser::new(&store, options);
    let service = Router::new().route("/", axum::routing::get(async || "service"));
    browser.app = service.merge(browser.app);
    assert_eq!(browser.get("/").await.text, "service");
    let unknown = browser.get("/unknown").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert!(!unknown.headers.contains_key("content-security-policy"));
    let page = browser.get("/admin/idem").await;
    assert_eq!(page.status, StatusCode::PERMANENT_REDIRECT);
    for path in [
        "/admin/idem/",
        "/admin/idem/records",
        "/admin/idem/assets/console.css",
    ] {
        let page = browser.get(path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        assert!(!page.text.contains("href=\"/records"), "{path}");
    }
    let unknown = browser.get("/admin/idem/unknown").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert!(unknown.headers.contains_key("content-security-policy"));
}

#[tokio::test]
async fn only_so_many_overviews_are_renewed() {
    let (store, _) = with_record().await;
    let browser = Browser::new(&store, Options::new());
    let mut open = Vec::new();
    for _ in 0..32 {
        let request = browser.request(Method::GET, "/events", String::new());
        let response = browser.app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        open.push(response);
    }
    let page = browser.get("/events").await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
    open.pop();
    let request = browser.request(Method::GET, "/events", String::new());
    let response = browser.app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
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
async fn an_address_of_all_is_not_served_without_access() {
    let store: Arc<dyn IdempotencyStore> = Arc::new(MemoryStore::new());
    let options = Options::new().with_address("0.0.0.0:0".parse().unwrap());
    let refused = serve(store.clone(), options).await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = serve_on(listener, store, Options::new()).await;
    assert_eq!(
        refused.unwrap_err().kind(),
        std::io::ErrorKind::InvalidInput
    );
}

#[tokio::test]
async fn a_form_is_bounded() {
    let (store, _) = with_record().await;
    let browser = Browser::new(&store, Options::new());
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

#[tokio::test]
async fn a_stream_begins_with_the_records() {
    let (store, _) = with_record().await;
    let options = Options::new().with_refresh(Duration::from_millis(100));
    let browser = Browser::new(&store, options);
    let request = browser.request(Method::GET, "/events", String::new());
    let response = browser.app.clone().oneshot(request).await.unwrap();
    assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    let first = body.next().await.unwrap().unwrap();
    let first = std::str::from_utf8(&first).unwrap();
    assert!(
        first.contains("event: overview") && first.contains("order-1"),
        "{first}"
    );
}

#[tokio::test]
async fn a_stream_ends_with_its_session() {
    let (store, _) = with_record().await;
    let options = token().with_refresh(Duration::from_millis(100));
    let mut browser = Browser::new(&store, options);
    browser.log_in(TOKEN, "").await;
    let csrf = browser.csrf().await;
    let request = browser.request(Method::GET, "/events", String::new());
    let response = browser.app.clone().oneshot(request).await.unwrap();
    browser.post("/logout", &[("csrf", &csrf)]).await;
    let ended = tokio::time::timeout(
        Duration::from_secs(30),
        to_bytes(response.into_body(), 1 << 20),
    );
    let text = ended.await.expect("the stream goes on").unwrap();
    let text = std::str::from_utf8(&text).unwrap();
    assert!(
        text.contains("event: over\n") && !text.contains("order-1"),
        "{text}"
    );
}
