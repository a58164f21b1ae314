//! [`Gateway`]: a payment provider that accepts idempotency keys, as real ones do.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::Request;
use axum::routing::post;
use axum::{Json, Router};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use idem_core::{BoxError, Idempotency, Key, MemoryStore};
use idem_http::{HttpPolicy, IdempotencyLayer};
use tokio::net::TcpListener;
use tokio::time::sleep;

use super::Order;

/// A provider on its own port, which outlives the server.
#[derive(Debug, Clone)]
pub struct Gateway {
    address: SocketAddr,
    charges: Arc<Mutex<Vec<Order>>>,
}

impl Gateway {
    /// Starts the provider in this process.
    ///
    /// # Errors
    ///
    /// An error when there is no free port.
    pub async fn start() -> Result<Self, BoxError> {
        let charges: Arc<Mutex<Vec<Order>>> = Arc::default();
        let idem = Idempotency::new(MemoryStore::new());
        let layer = IdempotencyLayer::new(idem, |_: &_| Some("shop".to_owned()))
            .with_policy(HttpPolicy::stripe());
        let router = Router::new().route("/charges", post(Self::charge));
        let router = router.layer(layer).with_state(Arc::clone(&charges));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        tokio::spawn(axum::serve(listener, router).into_future());
        Ok(Self { address, charges })
    }

    async fn charge(
        State(charges): State<Arc<Mutex<Vec<Order>>>>,
        Json(order): Json<Order>,
    ) -> Result<String, Infallible> {
        sleep(Duration::from_millis(5)).await;
        let mut charges = charges.lock().unwrap_or_else(PoisonError::into_inner);
        charges.push(order);
        Ok(format!("ch_{}", charges.len()))
    }

    /// Returns its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/charges", self.address)
    }

    /// Returns every charge that was made.
    #[must_use]
    pub fn charges(&self) -> Vec<Order> {
        self.charges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Charges once per key; retries while the charge of a killed process is under way.
///
/// # Errors
///
/// An error when the provider refuses it, or is unreachable.
pub async fn charge(gateway: &str, key: &Key, order: &Order) -> Result<String, BoxError> {
    let client: Client<HttpConnector, Full<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    for _ in 0..100 {
        let request = Request::post(gateway)
            .header("content-type", "application/json")
            .header("idempotency-key", format!("\"{}\"", key.id()))
            .body(Full::new(serde_json::to_vec(order)?.into()))?;
        let response = client.request(request).await?;
        let status = response.status();
        let text = response.into_body().collect().await?.to_bytes();
        let text = String::from_utf8_lossy(&text).into_owned();
        match status.as_u16() {
            200 => return Ok(text),
            409 => sleep(Duration::from_millis(20)).await,
            _ => return Err(format!("the provider answered with {status}: {text}").into()),
        }
    }
    Err("the provider is busy with this charge for too long".into())
}
