//! Forced steps.

use http::StatusCode;
use idem_core::{ErrorKind, IdempotencyStore, IdempotencyStoreExt, Response};

use crate::browser::{Browser, DAY, TOKEN, claim, key, token, with_record};

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
