//! Lists, records, results and streams.

use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use futures_util::StreamExt;
use http::header::CONTENT_TYPE;
use http::{Method, StatusCode};
use idem_console::Options;
use idem_core::{Failure, IdempotencyStore, Key, MemoryStore, Response};
use tower::ServiceExt;

use crate::browser::{Browser, DAY, TOKEN, claim, token, with_record};

#[tokio::test]
async fn handles_are_not_keys_and_cannot_be_forged() {
    let (store, _) = with_record().await;
    let browser = Browser::known(&store, Options::new());
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
    let other = Browser::known(&store, Options::new());
    let csrf = other.csrf().await;
    let fields = [("csrf", csrf.as_str()), ("record", handle)];
    assert_eq!(
        other.post("/record", &fields).await.status,
        StatusCode::GONE
    );
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
    let browser = Browser::known(&store, Options::new());
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
        let browser = Browser::known(&store, options);
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
async fn only_so_many_overviews_are_renewed() {
    let (store, _) = with_record().await;
    let browser = Browser::known(&store, Options::new());
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

#[tokio::test]
async fn a_stream_begins_with_the_records() {
    let (store, _) = with_record().await;
    let options = Options::new().with_refresh(Duration::from_millis(100));
    let browser = Browser::known(&store, options);
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
