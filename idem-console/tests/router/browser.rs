//! A browser without a network.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use http::header::{CONTENT_TYPE, COOKIE, HOST, SET_COOKIE};
use http::{HeaderMap, Method, Request, StatusCode};
use idem_console::{Access, Options, router};
use idem_core::{Claim, ClaimRequest, Fingerprint, IdempotencyStore, Key, MemoryStore};
use tower::ServiceExt;

pub(crate) const TOKEN: &str = "correct-horse-battery-staple";
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A console, and a browser at an address.
pub(crate) struct Browser {
    pub(crate) app: Router,
    pub(crate) peer: SocketAddr,
    pub(crate) cookie: Option<String>,
    pub(crate) extra: Vec<(&'static str, String)>,
}

pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Browser {
    pub(crate) fn new(store: &Arc<MemoryStore>, options: Options) -> Self {
        let store: Arc<dyn IdempotencyStore> = store.clone();
        Self {
            app: router(store, options).unwrap(),
            peer: "127.0.0.1:50000".parse().unwrap(),
            cookie: None,
            extra: Vec::new(),
        }
    }

    /// A browser that sends the token.
    pub(crate) fn known(store: &Arc<MemoryStore>, options: Options) -> Self {
        let options = options.with_access(Access::token(TOKEN).unwrap());
        let bearer = ("authorization", format!("Bearer {TOKEN}"));
        let mut browser = Self::new(store, options);
        browser.extra.push(bearer);
        browser
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Page {
        let response = self.app.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.unwrap();
        Page {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(body.into()).unwrap(),
        }
    }

    pub(crate) fn request(&self, method: Method, path: &str, body: String) -> Request<Body> {
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

    pub(crate) async fn get(&self, path: &str) -> Page {
        let request = self.request(Method::GET, path, String::new());
        self.send(request).await
    }

    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let request = self.request(Method::POST, path, form(fields));
        self.send(request).await
    }

    pub(crate) async fn log_in(&mut self, token: &str, name: &str) -> Page {
        let page = self
            .post("/login", &[("token", token), ("name", name)])
            .await;
        if let Some(cookie) = page.headers.get(SET_COOKIE) {
            let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
            self.cookie = Some(cookie.to_owned());
        }
        page
    }

    pub(crate) async fn csrf(&self) -> String {
        self.get("/records").await.value("csrf")
    }
}

impl Page {
    /// Returns the value of the first field of this name.
    pub(crate) fn value(&self, name: &str) -> String {
        let field = format!("name=\"{name}\" value=\"");
        let rest = self.text.split_once(&field).map(|(_, rest)| rest);
        let rest = rest.unwrap_or_else(|| panic!("no field {name} in {}", self.text));
        rest.split('"').next().unwrap().to_owned()
    }
}

pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.extend_pairs(fields).finish()
}

pub(crate) fn token() -> Options {
    Options::new().with_access(Access::token(TOKEN).unwrap())
}

pub(crate) fn key(id: &str) -> Key {
    Key::new("tenant", "pay", id).unwrap()
}

pub(crate) async fn claim(store: &MemoryStore, key: Key) -> Claim {
    let request = ClaimRequest::new(key, Fingerprint::raw("body")).with_lease(DAY / 24);
    store.claim(&request).await.unwrap().acquired().unwrap()
}

pub(crate) async fn with_record() -> (Arc<MemoryStore>, Claim) {
    let store = Arc::new(MemoryStore::new());
    let claim = claim(&store, key("order-1")).await;
    (store, claim)
}
