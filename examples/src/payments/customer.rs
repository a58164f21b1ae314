//! [`Customer`]: sends until it gets an answer.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use idem_core::BoxError;
use tokio::time::{sleep, timeout};

use super::Order;

/// How often a request is sent before the customer gives up.
const TRIES: u32 = 400;

/// A customer with a real HTTP client.
#[derive(Debug, Clone)]
pub struct Customer {
    client: Client<HttpConnector, Full<Bytes>>,
    url: String,
}

/// The result of one request.
#[derive(Debug, Clone, Default)]
pub struct Story {
    /// The body of the answer.
    pub answer: Bytes,
    /// Whether the answer was made for an earlier attempt.
    pub is_replay: bool,
    /// How often it was sent without an answer: the server was killed, or is not up.
    pub unanswered: u32,
    /// How often the answer was that the same request is in progress.
    pub busy: u32,
}

impl Customer {
    /// Creates a customer of the server at this address.
    #[must_use]
    pub fn new(server: SocketAddr) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            url: format!("http://{server}/payments"),
        }
    }

    /// Sends one request. Returns `None` without an answer.
    ///
    /// # Errors
    ///
    /// An error when the request cannot be built.
    pub async fn send(
        &self,
        key: &str,
        order: &Order,
    ) -> Result<Option<(StatusCode, bool, Bytes)>, BoxError> {
        let request = Request::post(&self.url)
            .header("authorization", "Bearer customer-7")
            .header("content-type", "application/json")
            .header("idempotency-key", key)
            .body(Full::new(serde_json::to_vec(order)?.into()))?;
        let answer = async {
            let response = self.client.request(request).await.ok()?;
            let is_replay = response.headers().contains_key("idempotent-replayed");
            let status = response.status();
            let body = response.into_body().collect().await.ok()?.to_bytes();
            Some((status, is_replay, body))
        };
        Ok(timeout(Duration::from_secs(5), answer)
            .await
            .unwrap_or_default())
    }

    /// Sends the same request until it gets an answer.
    ///
    /// # Errors
    ///
    /// An error when the request is refused, or has no answer for long.
    pub async fn pay(&self, key: &str, order: &Order) -> Result<Story, BoxError> {
        let mut story = Story::default();
        for _ in 0..TRIES {
            match self.send(key, order).await? {
                Some((StatusCode::CREATED, is_replay, body)) => {
                    story.answer = body;
                    story.is_replay = is_replay;
                    return Ok(story);
                }
                Some((StatusCode::CONFLICT, ..)) => story.busy += 1,
                Some((status, ..)) if status.is_server_error() => story.unanswered += 1,
                Some((status, _, body)) => {
                    let text = String::from_utf8_lossy(&body);
                    return Err(format!("the answer to {key} is {status}: {text}").into());
                }
                None => story.unanswered += 1,
            }
            sleep(Duration::from_millis(25)).await;
        }
        Err(format!("{key} was not answered in {TRIES} tries").into())
    }
}
