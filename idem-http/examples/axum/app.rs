//! The service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Json, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Extension, Router};
use http::StatusCode;
use http::header::{AUTHORIZATION, LOCATION, SET_COOKIE};
use http::request::Parts;
use idem_core::{Idempotency, MemoryStore, Work};
use idem_http::{HttpPolicy, IdempotencyLayer, Requirement};
use serde::{Deserialize, Serialize};

/// The whole service; a report takes `report_time`.
pub(crate) fn app(report_time: Duration) -> Router {
    let idempotency = Idempotency::new(MemoryStore::new()); // or PostgresStore, MySqlStore, …
    let layer = IdempotencyLayer::new(idempotency, account);
    let payments = HttpPolicy::ietf()
        .with_operation("payments.create")
        .with_requirement(Requirement::Required);
    let reports = HttpPolicy::ietf()
        .with_operation("reports.make")
        .with_wait(Duration::from_secs(1));
    let report = async move || {
        tokio::time::sleep(report_time).await;
        "the report\n"
    };
    Router::new()
        .route(
            "/payments",
            post(pay).layer(layer.clone().with_policy(payments)),
        )
        .route("/reports", post(report).layer(layer.with_policy(reports)))
        .with_state(Arc::default())
        .layer(from_fn(authenticate))
}

/// The authenticated account.
#[derive(Clone)]
struct Account(String);

/// Runs outside the idempotency layer, so that only authenticated requests reach it.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let token = request.headers().get(AUTHORIZATION);
    let account = match token.map(http::HeaderValue::as_bytes) {
        Some(b"Bearer token-of-alice") => "alice",
        Some(b"Bearer token-of-bob") => "bob",
        _ => return (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response(),
    };
    request.extensions_mut().insert(Account(account.to_owned()));
    next.run(request).await
}

/// The scope of keys comes from the authentication, never from what the client sends.
fn account(parts: &Parts) -> Option<String> {
    let Account(name) = parts.extensions.get()?;
    Some(name.clone())
}

#[derive(Deserialize)]
struct Order {
    amount: u64,
}

#[derive(Serialize)]
struct Payment {
    payment: u64,
    amount: u64,
}

/// Makes a payment with a new number at each call.
async fn pay(
    State(numbers): State<Arc<AtomicU64>>,
    Extension(work): Extension<Work>,
    Json(order): Json<Order>,
) -> impl IntoResponse {
    let _for_the_bank = work.derive("bank"); // the same at every attempt: its id is the key of the bank's own API
    let payment = numbers.fetch_add(1, Ordering::SeqCst) + 1;
    let headers = [
        (LOCATION, format!("/payments/{payment}")),
        (SET_COOKIE, "seen=yes".to_owned()),
    ];
    let amount = order.amount;
    (
        StatusCode::CREATED,
        headers,
        Json(Payment { payment, amount }),
    )
}
