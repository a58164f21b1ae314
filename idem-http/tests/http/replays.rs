//! The contents of a replay.

use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{CONTENT_TYPE, ETAG, HeaderName, LOCATION, SET_COOKIE};
use idem_http::{HttpPolicy, ReplayedHeaders};

use crate::support::{App, created, layer, no_content, post};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

fn app(policy: HttpPolicy) -> App {
    App::new(layer(policy), |_| async {
        let headers = [
            (CONTENT_TYPE, "application/octet-stream"),
            (LOCATION, "/orders/7"),
            (ETAG, "\"1\""),
            (SET_COOKIE, "session=1"),
            (SET_COOKIE, "theme=dark"),
            (HeaderName::from_static("connection"), "keep-alive, etag"),
            (HeaderName::from_static("keep-alive"), "timeout=5"),
            (HeaderName::from_static("proxy-authenticate"), "Basic"),
            (REQUEST_ID, "r-1"),
            (HeaderName::from_static("mcp-session-id"), "s-1"),
        ];
        created(headers, vec![0, 159, 146, 150, 255])
    })
}

/// Returns the names without that of the length, which is the server's own.
fn names(headers: &http::HeaderMap) -> Vec<&str> {
    let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
    names.retain(|name| *name != "content-length");
    names.sort_unstable();
    names
}

#[tokio::test]
async fn status_body_and_listed_headers_are_replayed_and_no_others() {
    let app = app(HttpPolicy::ietf());
    let first = app.send(post("a", "{}")).await;
    let retry = app.send(post("a", "{}")).await;
    assert_eq!((retry.status, &retry.body), (first.status, &first.body));
    assert_eq!(
        names(&retry.headers),
        [
            "content-type",
            "idempotency-first-answered",
            "idempotent-replayed",
            "location"
        ]
    );
    assert_eq!(retry.header("location"), Some("/orders/7"));
    assert_eq!(
        retry.header("content-type"),
        Some("application/octet-stream")
    );
}

#[tokio::test]
async fn the_first_caller_gets_every_header() {
    let first = app(HttpPolicy::ietf()).send(post("a", "{}")).await;
    assert_eq!(first.headers.get_all(SET_COOKIE).iter().count(), 2);
    assert_eq!(first.header("x-request-id"), Some("r-1"));
    assert_eq!(first.header("etag"), Some("\"1\""));
}

#[tokio::test]
async fn cookies_and_hop_by_hop_headers_are_never_replayed() {
    let mut headers = ReplayedHeaders::default();
    for name in [
        "set-cookie",
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "etag",
    ] {
        headers = headers.with(HeaderName::from_static(name));
    }
    let app = app(HttpPolicy::ietf().with_replayed_headers(headers));
    app.send(post("a", "{}")).await;
    let retry = app.send(post("a", "{}")).await;
    assert!(retry.is_replayed());
    for name in [
        "set-cookie",
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "etag",
    ] {
        assert_eq!(retry.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn the_list_of_headers_is_policy() {
    let headers = ReplayedHeaders::default()
        .with(REQUEST_ID)
        .without(&LOCATION);
    let app = app(HttpPolicy::ietf().with_replayed_headers(headers));
    app.send(post("a", "{}")).await;
    let retry = app.send(post("a", "{}")).await;
    assert_eq!(retry.header("x-request-id"), Some("r-1"));
    assert_eq!(retry.header("location"), None);
}

#[tokio::test]
async fn a_replay_has_the_date_of_the_first_answer() {
    let app = app(HttpPolicy::ietf());
    app.send(post("a", "{}")).await;
    let retry = app.send(post("a", "{}")).await;
    let returned = retry
        .header("idempotency-first-answered")
        .unwrap()
        .to_owned();
    let later = app.send(post("a", "{}")).await;
    assert_eq!(
        later.header("idempotency-first-answered"),
        Some(returned.as_str())
    );
    assert!(
        returned.ends_with(" GMT") && returned.len() == 29,
        "{returned}"
    );
    assert!(
        years(SystemTime::now()).any(|year| returned.contains(&year)),
        "{returned}"
    );
}

/// The current year, and the year of a moment ago, in case it is New Year.
fn years(now: SystemTime) -> impl Iterator<Item = String> {
    [now, now - Duration::from_secs(60)]
        .into_iter()
        .map(|instant| {
            let seconds = instant
                .duration_since(SystemTime::UNIX_EPOCH)
                .unwrap()
                .as_secs();
            format!(" {} ", 1970 + seconds / 31_556_952)
        })
}

#[tokio::test]
async fn an_empty_body_is_replayed_as_one() {
    let app = App::new(layer(HttpPolicy::ietf()), |_| async { no_content() });
    app.send(post("a", "{}")).await;
    let retry = app.send(post("a", "{}")).await;
    assert!(retry.is_replayed());
    assert_eq!(
        (retry.status, retry.body.len()),
        (StatusCode::NO_CONTENT, 0)
    );
    assert_eq!(retry.header("content-type"), None);
}
