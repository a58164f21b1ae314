//! [`Sender`]: delivers at least once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderValue, Request};
use idem_core::BoxError;
use idem_examples::http::Client;
use idem_webhooks::{Provider, Verifier};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::{sleep, timeout};

use crate::events::Payload;

/// The secret that GitHub and the receiver share.
pub(crate) const SECRET: &str = "It's a Secret to Everybody";

/// How often the sender repeats an unacknowledged delivery before it gives up.
const TRIES: u32 = 200;

/// One sending of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// The index of the event.
    event: usize,
    /// Whether its signer does not know the secret.
    is_forged: bool,
    /// After how many microseconds the sender disconnects, if it does; it then sends again.
    hangs_up: Option<u64>,
}

/// Draws one to four deliveries of each event, shuffled; the same seed gives the same deliveries.
/// One sender in twelve hangs up, and every tenth delivery has a forged one beside it.
pub(crate) fn deliveries(events: usize, seed: u64) -> Vec<Delivery> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut deliveries = Vec::new();
    for event in 0..events {
        for _ in 0..rng.random_range(1..=4) {
            let hangs_up = rng.random_ratio(1, 12);
            let genuine = Delivery {
                event,
                is_forged: false,
                hangs_up: hangs_up.then(|| rng.random_range(0..4_000)),
            };
            deliveries.push(genuine);
            if rng.random_ratio(1, 10) {
                deliveries.push(Delivery {
                    is_forged: true,
                    hangs_up: None,
                    ..genuine
                });
            }
        }
    }
    deliveries.shuffle(&mut rng);
    deliveries
}

/// Stands for GitHub, and for a sender without the secret.
pub(crate) struct Sender<'a> {
    events: &'a [Payload],
    url: String,
    client: Client,
    genuine: Verifier,
    forger: Verifier,
    tally: Mutex<Tally>,
}

/// The answers to the sender.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How often each answer came, by status and text.
    pub(crate) answers: BTreeMap<(u16, String), u64>,
    /// The acknowledgement of each event: its index and the text.
    pub(crate) acknowledged: Vec<(usize, String)>,
    /// Forged deliveries that were not refused.
    pub(crate) fooled: u64,
    /// Senders that disconnected before the answer.
    pub(crate) hung_up: u64,
}

impl<'a> Sender<'a> {
    /// Creates a sender of these events to this address.
    pub(crate) fn new(events: &'a [Payload], to: SocketAddr) -> Result<Self, BoxError> {
        Ok(Self {
            events,
            url: format!("http://{to}/github"),
            client: Client::default(),
            genuine: Verifier::new(Provider::github(), SECRET)?,
            forger: Verifier::new(Provider::github(), "a guess")?,
            tally: Mutex::default(),
        })
    }

    /// Sends until the receiver acknowledges it; a forged one once.
    pub(crate) async fn deliver(&self, delivery: Delivery) -> Result<(), BoxError> {
        if let Some(micros) = delivery.hangs_up {
            // The sender has disconnected, so it ignores any answer.
            let _ = timeout(Duration::from_micros(micros), self.send(delivery)).await;
            self.note(|tally| tally.hung_up += 1);
        }
        for _ in 0..TRIES {
            let (status, text) = self.send(delivery).await?;
            let is_done = (200..300).contains(&status);
            self.note(|tally| {
                let answer = (status, text.clone());
                *tally.answers.entry(answer).or_default() += 1;
                tally.fooled += u64::from(delivery.is_forged && status != 401);
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
        let signer = match delivery.is_forged {
            true => &self.forger,
            false => &self.genuine,
        };
        let mut request = Request::post(&self.url).body(Bytes::from(event.body.clone()))?;
        signer.sign(&mut request)?;
        let headers = request.headers_mut();
        headers.insert("x-github-delivery", HeaderValue::from_str(&event.id)?);
        headers.insert("x-github-event", HeaderValue::from_str(&event.topic)?);
        let response = self.client.send(request).await?;
        let text = String::from_utf8_lossy(response.body()).into_owned();
        Ok((response.status().as_u16(), text))
    }

    fn note(&self, what: impl FnOnce(&mut Tally)) {
        what(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn into_tally(self) -> Tally {
        let tally = self.tally.into_inner();
        tally.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_delivered_and_a_seed_repeats_it() {
        let drawn = deliveries(50, 7);
        for event in 0..50 {
            let genuine = |delivery: &&Delivery| delivery.event == event && !delivery.is_forged;
            assert!((1..=4).contains(&drawn.iter().filter(genuine).count()));
        }
        assert_eq!(drawn, deliveries(50, 7));
        assert_ne!(drawn, deliveries(50, 8));
    }
}
