//! [`Gateway`]: a payment provider that accepts idempotency keys, as real ones do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::Request;
use axum::routing::post;
use axum::{Json, Router};
use idem_core::{BoxError, Idempotency, Key, MemoryStore};
use idem_examples::http::{Client, serve};
use idem_http::IdempotencyLayer;
use tokio::time::sleep;

use crate::Order;

/// Charges once per key; retries while the charge of a killed process is under way.
pub(crate) async fn charge(gateway: &str, key: &Key, order: &Order) -> Result<String, BoxError> {
    let client = Client::default();
    for _ in 0..100 {
        let request = Request::post(gateway)
            .header("content-type", "application/json")
            .header("idempotency-key", format!("\"{}\"", key.id()))
            .body(serde_json::to_vec(order)?)?;
        let response = client.send(request).await?;
        let status = response.status();
        let text = String::from_utf8_lossy(response.body());
        match status.as_u16() {
            200 => return Ok(text.into_owned()),
            409 => sleep(Duration::from_millis(20)).await,
            _ => return Err(format!("the provider answered with {status}: {text}").into()),
        }
    }
    Err("the provider is busy with this charge for too long".into())
}

type Charges = Arc<Mutex<Vec<Order>>>;

/// A provider on its own port in this process, which outlives the server.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) url: String,
    charges: Charges,
}

impl Gateway {
    pub(crate) async fn start() -> Result<Self, BoxError> {
        let charges = Charges::default();
        let idem = Idempotency::new(MemoryStore::new());
        let layer = IdempotencyLayer::new(idem, |_: &_| Some("shop".to_owned()))
            .with_policy(idem_http::presets::stripe());
        let router = Router::new().route("/charges", post(Self::charge));
        let router = router.layer(layer).with_state(Arc::clone(&charges));
        let url = format!("http://{}/charges", serve(router).await?);
        Ok(Self { url, charges })
    }

    async fn charge(State(charges): State<Charges>, Json(order): Json<Order>) -> String {
        sleep(Duration::from_millis(5)).await;
        let mut charges = charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.push(order);
        format!("ch_{}", charges.len())
    }

    /// Returns every charge that was made.
    pub(crate) fn charges(&self) -> Vec<Order> {
        let charges = self.charges.lock();
        charges.unwrap_or_else(PoisonError::into_inner).clone()
    }
}
