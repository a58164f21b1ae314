//! Who gets in.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{AUTHORIZATION, HOST, RETRY_AFTER, SET_COOKIE};
use http::{Request, StatusCode};
use idem_console::{Access, Options, router, serve, serve_on};
use idem_core::{ErrorKind, IdempotencyStore, MemoryStore};

use crate::browser::{Browser, TOKEN, token, with_record};

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
async fn another_name_of_the_host_is_refused() {
    let (store, _) = with_record().await;
    let browser = Browser::known(&store, Options::new());
    for (host, status) in [
        ("localhost:7433", StatusCode::OK),
        ("127.0.0.1:7433", StatusCode::OK),
        ("evil.example:7433", StatusCode::MISDIRECTED_REQUEST),
    ] {
        let mut request = Request::get("/")
            .header(HOST, host)
            .header(AUTHORIZATION, format!("Bearer {TOKEN}"))
            .body(Body::empty())
            .unwrap();
        request.extensions_mut().insert(ConnectInfo(browser.peer));
        let page = browser.send(request).await;
        assert_eq!(page.status, status, "{host}");
        assert!(page.headers.contains_key("content-security-policy"));
    }
}

#[tokio::test]
async fn a_mounted_console_stays_below_its_path() {
    let (store, _) = with_record().await;
    let options = Options::new().with_base_path("/admin/idem").unwrap();
    let mut browser = Browser::known(&store, options);
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
async fn a_router_without_access_is_not_built() {
    let store: Arc<dyn IdempotencyStore> = Arc::new(MemoryStore::new());
    let refused = router(store, Options::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Misconfigured);
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
