//! The server: `idem-http` in front of a handler that commits effect and answer together.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::{Extension, Json, Router};
use idem_core::{BoxError, Idempotency, Policy, Response, Work};
use idem_http::{HttpPolicy, IdempotencyLayer, Requirement};
use idem_storm::effects::Effects;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

pub(crate) const SCOPE: &str = "bank";
pub(crate) const OPERATION: &str = "charges.create";

struct Bank {
    effects: Effects,
    seed: u64,
}

/// Returns whether chance has one of ten in its eye, the same ones for the same seed.
pub(crate) fn is_unlucky(seed: u64, who: &str, order: &str) -> bool {
    let mut hasher = DefaultHasher::new();
    (seed, who, order).hash(&mut hasher);
    hasher.finish().is_multiple_of(10)
}

/// `POST /charges`.
async fn charge(
    State(bank): State<Arc<Bank>>,
    Extension(work): Extension<Work>,
    Json(request): Json<Value>,
) -> Result<impl IntoResponse, (StatusCode, String)> {
    let failed = |error: BoxError| (StatusCode::BAD_GATEWAY, error.to_string());
    sleep(Duration::from_millis(10)).await;
    let order = request["order"].as_str().unwrap_or_default();
    // No two executions have the same answer.
    let charge = json!({"order": order, "charge": format!("ch_{:016x}", rand::random::<u64>())});
    let body = serde_json::to_vec(&charge).map_err(|error| failed(error.into()))?;
    let response = Response::new(201, body).with_header("content-type", "application/json");
    let id = work.key().id();
    let committed = bank.effects.commit(&work, id, response).await;
    committed.map_err(failed)?;
    if is_unlucky(bank.seed, "bank", order) {
        // The answer is lost; its repeat gets the stored one.
        std::process::abort();
    }
    Ok((StatusCode::CREATED, Json(charge)))
}

pub(crate) async fn serve(
    address: SocketAddr,
    effects: Effects,
    seed: u64,
) -> Result<(), BoxError> {
    // Retries wait this long for a killed server's claim.
    let policy = Policy::default().with_lease(Duration::from_millis(500));
    let idem = Idempotency::new(effects.store()).with_policy(policy);
    let layer = IdempotencyLayer::new(idem, |_: &Parts| Some(SCOPE.to_owned()));
    let policy = HttpPolicy::ietf()
        .with_operation(OPERATION)
        .with_requirement(Requirement::Required);
    let bank = Arc::new(Bank { effects, seed });
    let route = post(charge).layer(layer.with_policy(policy));
    let router = Router::new().route("/charges", route).with_state(bank);
    let listener = TcpListener::bind(address).await?;
    Ok(axum::serve(listener, router).await?)
}
