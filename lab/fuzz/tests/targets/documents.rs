//! Requests and their documents: a handler reads them, and the layer reads their keys.

#[path = "../../../../idem-core/tests/raw_json/judge.rs"]
mod judge;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use idem_core::{Idempotency, MemoryStore};
use idem_fuzz::Input;
use idem_http::{HttpPolicy, IdempotencyLayer, KeySource, presets};
use tower::{Layer as _, ServiceExt as _, service_fn};

use self::judge::{Order, PIECES, judge, write};

/// The headers that the layer reads.
const HEADERS: [&str; 8] = [
    "idempotency-key",
    "content-type",
    "content-encoding",
    "content-length",
    "accept",
    "cache-control",
    "x-amz-target",
    "mcp-session-id",
];

/// A document, and the bytes themselves.
fn document(mut input: Input<'_>) -> Vec<u8> {
    let (is_whole, place, piece) = (input.byte() % 4, input.byte(), input.byte());
    let mut text = Vec::new();
    match is_whole {
        0 => text.extend(input.rest()),
        _ => write(&mut input.rest().iter().copied(), 0, &mut text),
    }
    if is_whole == 1 {
        let place = usize::from(place) % (text.len() + 1);
        let piece = PIECES[usize::from(piece) % PIECES.len()];
        text.splice(place..place, piece.iter().copied());
    }
    text
}

/// What typed readers find in a document is found, or refused.
#[test]
fn members() {
    check!("documents::members", |bytes: &[u8]| judge(&document(
        Input(bytes)
    )));
}

/// Whatever a request has beside it, one in which a typed handler finds a key runs at most once; its
/// duplicate gets the bytes of its answer.
#[test]
fn requests() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    check!("documents::requests", |bytes: &[u8]| {
        let mut input = Input(bytes);
        let is_nested = input.byte() % 2 == 1;
        let policy = match is_nested {
            true => HttpPolicy::ietf().with_key_source(KeySource::member("/meta/key")),
            false => presets::aws("/key"),
        };
        let mut request = Request::post("/orders");
        let mut is_json = true;
        for _ in 0..input.below(4) {
            let name = HEADERS[input.below(8)];
            if let Ok(value) = HeaderValue::from_bytes(input.text().as_bytes()) {
                is_json &= !name.starts_with("content-");
                request = request.header(name, value);
            }
        }
        if is_json {
            request = request.header("content-type", "application/json");
        }
        let body = Bytes::from(document(input));
        let request = request.body(Full::new(body.clone())).unwrap();
        let key = serde_json::from_slice::<Order>(&body)
            .ok()
            .and_then(|order| match is_nested {
                true => order.meta?.key,
                false => order.key,
            });
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let handler = service_fn(move |request: Request<Full<Bytes>>| {
            let run = count.fetch_add(1, Ordering::SeqCst);
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                let answer = [format!("run {run}: ").as_bytes(), &body].concat();
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answer))))
            }
        });
        let idempotency = Idempotency::new(MemoryStore::new());
        let scope = |_: &http::request::Parts| Some("account".to_owned());
        let service = IdempotencyLayer::new(idempotency, scope)
            .with_policy(policy)
            .layer(handler);
        let answers = runtime.block_on(async {
            let mut answers = Vec::new();
            for _ in 0..2 {
                let answer = service.clone().oneshot(request.clone()).await.unwrap();
                let status = answer.status();
                answers.push((
                    status,
                    answer.into_body().collect().await.unwrap().to_bytes(),
                ));
            }
            answers
        });
        if key.is_some() && is_json {
            assert!(runs.load(Ordering::SeqCst) <= 1, "{answers:?}");
            assert_eq!(answers[0], answers[1], "{}", runs.load(Ordering::SeqCst));
        }
        assert!(
            answers
                .iter()
                .all(|(status, _)| *status != StatusCode::INTERNAL_SERVER_ERROR)
        );
    });
}
