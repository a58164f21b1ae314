//! [`Sender`]: delivers at least once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use idem_core::BoxError;
use idem_webhooks::{Provider, Verifier};
use tokio::time::{sleep, timeout};

use super::{Delivery, Payload, SECRET};

/// How often the sender repeats an unacknowledged delivery before it gives up.
const TRIES: u32 = 200;

/// Stands for GitHub, and for a sender without the secret.
#[derive(Debug, Clone)]
pub struct Sender {
    events: Arc<Vec<Payload>>,
    url: String,
    client: Client<HttpConnector, Full<Bytes>>,
    genuine: Verifier,
    forger: Verifier,
    tally: Arc<Mutex<Tally>>,
}

/// The answers to the sender.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// How often each answer came, by status and text.
    pub answers: BTreeMap<(u16, String), u64>,
    /// The acknowledgement of each event: its index and the text.
    pub acknowledged: Vec<(usize, String)>,
    /// Forged deliveries that were not refused.
    pub fooled: u64,
    /// Senders that disconnected before the answer.
    pub hung_up: u64,
}

impl Sender {
    /// Creates a sender of these events to this address.
    ///
    /// # Errors
    ///
    /// None with the secrets of this program.
    pub fn new(events: Vec<Payload>, to: SocketAddr) -> Result<Self, BoxError> {
        Ok(Self {
            events: Arc::new(events),
            url: format!("http://{to}/github"),
            client: Client::builder(TokioExecutor::new()).build_http(),
            genuine: Verifier::new(Provider::GitHub, SECRET)?,
            forger: Verifier::new(Provider::GitHub, "a guess")?,
            tally: Arc::default(),
        })
    }

    /// Sends until the receiver acknowledges it; a forged one once.
    ///
    /// # Errors
    ///
    /// An error when the receiver does not acknowledge it for long.
    pub async fn deliver(self, delivery: Delivery) -> Result<(), BoxError> {
        if let Some(micros) = delivery.hangs_up {
            let call = self.send(delivery);
            // The sender has disconnected, so it ignores any answer.
            let _ = timeout(Duration::from_micros(micros), call).await;
            self.note(|tally| tally.hung_up += 1);
        }
        for _ in 0..TRIES {
            let (status, text) = self.send(delivery).await?;
            let is_done = (200..300).contains(&status);
            self.note(|tally| {
                *tally.answers.entry((status, text.clone())).or_default() += 1;
                match (delivery.is_forged, status) {
                    (true, 401) | (false, _) => {}
                    (true, _) => tally.fooled += 1,
                }
                if is_done && !delivery.is_forged {
                    tally.acknowledged.push((delivery.event, text));
                }
            });
            if is_done || delivery.is_forged {
                return Ok(());
            }
            sleep(Duration::from_millis(20)).await;
        }
        let id = &self.events[delivery.event].id;
        Err(format!("{id} was not acknowledged in {TRIES} tries").into())
    }

    async fn send(&self, delivery: Delivery) -> Result<(u16, String), BoxError> {
        let event = &self.events[delivery.event];
        let signer = if delivery.is_forged {
            &self.forger
        } else {
            &self.genuine
        };
        let body = Bytes::copy_from_slice(event.body.as_bytes());
        let mut request = Request::post(&self.url).body(Full::new(body.clone()))?;
        let headers = request.headers_mut();
        *headers = signer.sign(&body);
        headers.insert("x-github-delivery", HeaderValue::from_str(&event.id)?);
        headers.insert("x-github-event", HeaderValue::from_str(&event.topic)?);
        let response = self.client.request(request).await?;
        let status = response.status().as_u16();
        let text = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&text).into_owned()))
    }

    fn note(&self, what: impl FnOnce(&mut Tally)) {
        what(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns the answers so far.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
