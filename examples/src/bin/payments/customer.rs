//! [`Customer`]: sends until it gets an answer.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response, StatusCode};
use idem_core::BoxError;
use idem_examples::http::Client;
use tokio::time::{sleep, timeout};

use crate::Order;

/// How often a request is sent before the customer gives up.
const TRIES: u32 = 400;

/// A customer with a real HTTP client.
#[derive(Debug, Clone)]
pub(crate) struct Customer {
    client: Client,
    url: String,
}

/// The result of one request.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// The body of the answer.
    pub(crate) answer: Bytes,
    /// Whether the answer was made for an earlier attempt.
    pub(crate) is_replay: bool,
    /// How often it was sent without an answer: the server was killed, or is not up.
    pub(crate) unanswered: u64,
    /// How often the answer was that the same request is in progress.
    pub(crate) busy: u64,
}

impl Customer {
    /// Creates a customer of the server at this address.
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self {
            client: Client::default(),
            url: format!("http://{server}/payments"),
        }
    }

    /// Sends one request. Returns `None` without an answer.
    pub(crate) async fn send(
        &self,
        key: &str,
        order: &Order,
    ) -> Result<Option<Response<Bytes>>, BoxError> {
        let request = Request::post(&self.url)
            .header("authorization", "Bearer customer-7")
            .header("content-type", "application/json")
            .header("idempotency-key", key)
            .body(serde_json::to_vec(order)?)?;
        let answer = timeout(Duration::from_secs(5), self.client.send(request)).await;
        Ok(answer.ok().and_then(Result::ok))
    }

    /// Sends the same request until it gets an answer.
    pub(crate) async fn pay(&self, key: String, order: Order) -> Result<Story, BoxError> {
        let mut story = Story::default();
        for _ in 0..TRIES {
            let response = self.send(&key, &order).await?;
            match response.as_ref().map(Response::status) {
                None => story.unanswered += 1,
                Some(StatusCode::CONFLICT) => story.busy += 1,
                Some(status) if status.is_server_error() => story.unanswered += 1,
                Some(status) => {
                    let response = response.unwrap_or_default();
                    story.is_replay = response.headers().contains_key("idempotent-replayed");
                    story.answer = response.into_body();
                    if status == StatusCode::CREATED {
                        return Ok(story);
                    }
                    let text = String::from_utf8_lossy(&story.answer);
                    return Err(format!("the answer to {key} is {status}: {text}").into());
                }
            }
            sleep(Duration::from_millis(25)).await;
        }
        Err(format!("{key} was not answered in {TRIES} tries").into())
    }
}
