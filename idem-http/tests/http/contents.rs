//! Policies that look at bodies: keys in them, what is stored, how replays are adjusted.

use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use idem_core::engine::InterruptPolicy;
use idem_core::{Idempotency, MemoryStore, Policy};
use idem_http::{FingerprintRecipe, HttpPolicy, KeySource, ProblemType, json};

use crate::support::{App, layer, layer_on, post, without};

#[tokio::test]
async fn a_key_in_the_body_counts_and_the_body_reaches_the_handler() {
    let app = App::new(
        layer(HttpPolicy::ietf().with_key_source(KeySource::member("/key"))),
        |request: Request| async {
            axum::body::to_bytes(request.into_body(), usize::MAX)
                .await
                .unwrap()
        },
    );
    let send = |body: &'static str| app.send(without(post("ignored", body), "idempotency-key"));
    for _ in 0..2 {
        assert_eq!(
            send(r#"{"key":"k","a":1}"#).await.text(),
            r#"{"key":"k","a":1}"#
        );
    }
    assert_eq!(app.runs(), 1);
    send(r#"{"key":"k","a":2}"#)
        .await
        .problem(ProblemType::KeyReused);
    for (body, runs) in [
        (r#"{"a":1}"#, 2),
        (r#"{"key":null}"#, 3),
        ("[]", 4),
        ("", 5),
    ] {
        assert_eq!(send(body).await.text(), body, "no key");
        assert_eq!(app.runs(), runs);
    }
    for malformed in [
        r#"{"key":1}"#,
        r#"{"key":""}"#,
        r#"{"key":" "}"#,
        r#"{"key":"é"}"#,
        r#"["k"]"#,
        "?",
    ] {
        send(malformed).await.problem(ProblemType::KeyMalformed);
    }
    assert_eq!(app.runs(), 5);
}

#[tokio::test]
async fn answers_are_stored_by_their_content() {
    let policy = HttpPolicy::ietf().with_kept_if(|answer| {
        !answer.headers().contains_key("transient") && answer.body() != "not yet"
    });
    let policy_that_records = Policy::at_most_once();
    for (body, is_transient, runs) in [("not yet", false, 2), ("done", false, 1), ("done", true, 2)]
    {
        let answer = move |_| async move {
            let mut headers = http::HeaderMap::new();
            if is_transient {
                headers.insert("transient", HeaderValue::from_static("true"));
            }
            (headers, body)
        };
        let app = App::new(layer(policy.clone()), answer);
        let recording =
            Idempotency::new(MemoryStore::new()).with_policy(policy_that_records.clone());
        let at_most_once = App::new(layer_on(recording).with_policy(policy.clone()), answer);
        for _ in 0..2 {
            assert_eq!(app.send(post("k", "{}")).await.text(), body);
            assert_eq!(at_most_once.send(post("k", "{}")).await.text(), body);
        }
        assert_eq!(app.runs(), runs, "{body} {is_transient}");
        assert_eq!(
            at_most_once.runs(),
            1,
            "an engine that records errors stores all"
        );
    }
}

#[tokio::test]
async fn a_replay_is_adjusted_on_its_way_out_and_the_stored_answer_stays() {
    let policy = HttpPolicy::ietf().with_replay_hook(|request, mut response| async move {
        let note = request.member("/note").and_then(|note| note.parse().ok());
        let note = note.unwrap_or_default();
        if let Some(body) = json::with_member(response.body(), "/note", &note) {
            *response.body_mut() = body;
        }
        response
    });
    let policy = policy.with_fingerprint(FingerprintRecipe::body().without_member("/note"));
    let app = App::new(layer(policy), |_| async {
        r#"{"big":12345678901234567890123,"note":"first"}"#
    });
    assert_eq!(
        app.send(post("k", r#"{"note":"a"}"#)).await.text(),
        r#"{"big":12345678901234567890123,"note":"first"}"#
    );
    for note in ["b", "c"] {
        let body: &'static str = if note == "b" {
            r#"{"note":"b"}"#
        } else {
            r#"{"note":"c"}"#
        };
        let replay = app.send(post("k", body)).await;
        assert!(replay.is_replayed(), "the markers come after the hook");
        let expected = format!(r#"{{"big":12345678901234567890123,"note":"{note}"}}"#);
        assert_eq!(replay.text(), expected);
    }
}

#[tokio::test]
async fn a_tombstone_follows_the_time_of_failures_for_a_failure() {
    let engine = Policy::default()
        .with_on_panic(InterruptPolicy::Record)
        .with_retention(Duration::from_millis(1))
        .with_failure_retention(Duration::from_secs(3600));
    let idempotency = Idempotency::new(MemoryStore::new()).with_policy(engine);
    let policy = HttpPolicy::ietf().with_tombstone(Duration::from_secs(3600));
    let layer = layer_on(idempotency).with_policy(policy);
    let app = App::new(layer, |_| async { panic!("the handler's own") as () });
    let first = app.clone();
    let panicked = tokio::spawn(async move { first.send(post("k", "{}")).await });
    assert!(panicked.await.is_err());
    tokio::time::sleep(Duration::from_millis(5)).await; // longer than answers are replayed
    let retry = app.send(post("k", "{}")).await;
    retry.problem(ProblemType::OutcomeUnknown);
    assert_eq!(app.runs(), 1);
}

/// The first request does not reach the handler's work; the second one, mended, has the same key.
#[tokio::test]
async fn a_request_that_no_handler_could_read_uses_up_no_key() {
    let order = async |request: Request| {
        let Json(order) = Json::<u32>::from_request(request, &()).await?;
        Ok::<_, JsonRejection>((StatusCode::CREATED, order.to_string()))
    };
    let app = || App::new(layer(HttpPolicy::ietf()), order);
    let typed = |mut request: Request, media: &'static str| {
        let media = HeaderValue::from_static(media);
        request.headers_mut().insert(CONTENT_TYPE, media);
        request
    };
    for (request, status) in [
        (post("a", "7,"), 400),
        // A typed reader gives up before the end that is missing.
        (post("a", "{\"cents\":"), 422),
        (typed(post("a", "7"), "text/plain"), 415),
    ] {
        let app = app();
        assert_eq!(app.send(request).await.status, status);
        let mended = app.send(post("a", "7")).await;
        assert_eq!((mended.status, mended.text()), (StatusCode::CREATED, "7"));
    }
    // JSON of the wrong shape may have been a handler's own refusal.
    let app = app();
    assert_eq!(app.send(post("a", "\"seven\"")).await.status, 422);
    app.send(post("a", "7"))
        .await
        .problem(ProblemType::KeyReused);
}
