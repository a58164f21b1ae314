//! The server behind the presets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{Method, StatusCode};
use idem_core::{ErrorKind, Idempotency, Policy};
use idem_http::{HttpPolicy, IdempotencyLayer, Lifetime};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::store::FailingStore;

/// A server whose handler counts its runs.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) store: FailingStore,
    pub(super) lifetime: Lifetime,
    desk: Arc<Desk>,
}

#[derive(Default)]
struct Desk {
    runs: AtomicUsize,
    /// Lets slow payments end.
    slow: Notify,
}

impl Server {
    pub(super) async fn start(policy: HttpPolicy) -> Self {
        let store = FailingStore::new(ErrorKind::Unavailable);
        // A test does not wait for a store that stays down.
        let engine = Policy::default().with_retry_timeout(Duration::from_millis(50));
        let idempotency = Idempotency::new(store.clone()).with_policy(engine);
        let layer = IdempotencyLayer::new(idempotency, account);
        // The rows show what a client gets that found no answer in time.
        let layer = layer.with_policy(policy.with_wait(Duration::ZERO));
        layer.verify().unwrap();
        let lifetime = layer.lifetime().unwrap();
        let desk = Arc::new(Desk::default());
        let router = Router::new()
            .fallback(handle)
            .layer(layer)
            .with_state(Arc::clone(&desk));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            store,
            lifetime,
            desk,
        }
    }

    pub(super) fn runs(&self) -> usize {
        self.desk.runs.load(Ordering::SeqCst)
    }

    pub(super) fn end_slow_payments(&self) {
        self.desk.slow.notify_one();
    }
}

fn account(parts: &Parts) -> Option<String> {
    let token = parts.headers.get("authorization")?.to_str().ok()?;
    token.strip_prefix("Bearer ").map(str::to_owned)
}

async fn handle(State(desk): State<Arc<Desk>>, request: Request) -> Response {
    if request.method() == Method::GET {
        desk.runs.fetch_add(1, Ordering::SeqCst);
        return "no payments\n".into_response();
    }
    let body = to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let run = desk.runs.fetch_add(1, Ordering::SeqCst) + 1;
    let places = [
        "/params/arguments/payload",
        "/params/arguments",
        "/params/message/parts/0/data",
        "",
    ];
    let order = places.iter().find_map(|place| body.pointer(place)).unwrap();
    let card = order["card"].as_str().unwrap_or_default();
    if card == "slow" {
        desk.slow.notified().await;
    }
    match body.get("jsonrpc") {
        Some(_) => answer_call(&body, order, card, run),
        None => answer(order, card, run),
    }
}

/// Answers over REST.
fn answer(order: &Value, card: &str, run: usize) -> Response {
    let (status, body) = match card {
        "declined" => (402, json!({"error": "the card is declined", "run": run})),
        "limited" => (429, json!({"error": "too many requests", "run": run})),
        "broken" | "transient" => (500, json!({"error": "it broke", "run": run})),
        "unpaid" => (200, json!({"errors": ["the card is declined"], "run": run})),
        _ => (201, json!({"payment": run, "amount": order["amount"]})),
    };
    let status = StatusCode::from_u16(status).unwrap();
    let mut response = (status, axum::Json(body)).into_response();
    if card == "transient" {
        let value = http::HeaderValue::from_static("true");
        response.headers_mut().insert("transient-error", value);
    }
    response
}

/// Answers a call.
fn answer_call(body: &Value, order: &Value, card: &str, run: usize) -> Response {
    let content = match card {
        "declined" | "unpaid" => {
            json!({"status": "failed", "errors": [{"code": "DECLINED"}], "run": run})
        }
        _ => json!({"status": "completed", "payment": run, "amount": order["amount"]}),
    };
    let mut content = content;
    if let Some(context) = body.pointer("/params/arguments/context") {
        content["context"] = context.clone();
    }
    let result = json!({
        "content": [{"type": "text", "text": content.to_string()}],
        "structuredContent": content,
        "isError": card == "declined",
    });
    let mut answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
    let mut status = StatusCode::OK;
    match card {
        "limited" => status = StatusCode::TOO_MANY_REQUESTS,
        "broken" => status = StatusCode::INTERNAL_SERVER_ERROR,
        _ => {}
    }
    if status != StatusCode::OK {
        let members = answer.as_object_mut().unwrap();
        members.remove("result");
        members.insert(
            "error".to_owned(),
            json!({"code": -32603, "message": format!("run {run}")}),
        );
    }
    (status, axum::Json(answer)).into_response()
}
