//! [`Workload`]: the requests to deliver.

use std::collections::HashMap;

use idem_core::Fingerprint;
use idem_core::fingerprint::canonical_json;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::value::RawValue;

use super::input::Event;
use super::stop::{OrStop, Stop};

/// Requests, each with one or more payloads, and the lines of input that they came from.
#[derive(Debug, Default)]
pub(crate) struct Workload {
    /// The id of each request's key.
    pub(crate) keys: Vec<String>,
    pub(crate) variants: Vec<Variant>,
    /// The variant of each line of input; each line is delivered several times.
    pub(crate) lines: Vec<u32>,
    /// Lines that could not be used.
    pub(crate) refused: u64,
    by_key: HashMap<String, u32>,
    by_fingerprint: HashMap<(u32, Fingerprint), u32>,
}

/// A payload under the key of a request. Only one variant of a request may have an effect: the
/// first to arrive.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) request: u32,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) payload: Box<RawValue>,
}

impl Workload {
    /// Adds a line of input. Lines with the same key are the same request.
    pub(crate) fn add(&mut self, event: Event) {
        let request = match self.by_key.get(&event.id) {
            Some(request) => *request,
            None => {
                let request = index(self.keys.len());
                self.keys.push(event.id.clone());
                self.by_key.insert(event.id, request);
                request
            }
        };
        let variant = self.variant(request, event.fingerprint, event.payload);
        self.lines.push(variant);
    }

    /// Returns the same request with another payload. It has to be refused wherever the original
    /// wins, and the reverse.
    pub(crate) fn altered(&mut self, variant: u32) -> u32 {
        let original = &self.variants[variant as usize];
        let request = original.request;
        let altered = with_member_more(original.payload.get());
        match (Fingerprint::json(&altered), RawValue::from_string(altered)) {
            (Ok(fingerprint), Ok(payload)) => self.variant(request, fingerprint, payload),
            // An object with an additional member is still an object.
            _ => variant,
        }
    }

    fn variant(&mut self, request: u32, fingerprint: Fingerprint, payload: Box<RawValue>) -> u32 {
        let next = index(self.variants.len());
        let variant = *self
            .by_fingerprint
            .entry((request, fingerprint))
            .or_insert(next);
        if variant == next {
            self.variants.push(Variant {
                request,
                fingerprint,
                payload,
            });
        }
        variant
    }

    /// Returns the variant with this printed fingerprint.
    pub(crate) fn find(&self, request: u32, fingerprint: &str) -> Option<u32> {
        let fingerprint = fingerprint.parse().ok()?;
        self.by_fingerprint.get(&(request, fingerprint)).copied()
    }

    /// Returns the request with this key.
    pub(crate) fn request(&self, key: &str) -> Option<u32> {
        self.by_key.get(key).copied()
    }
}

/// Draws `count` payments; the same seed gives the same payments.
pub(crate) fn payments(count: u32, seed: u64) -> Result<Workload, Stop> {
    let mut rng = StdRng::seed_from_u64(seed.wrapping_add(1));
    let mut workload = Workload::default();
    for number in 1..=count {
        let id = format!("payment-{number:06}");
        let currency = ["EUR", "USD", "JPY", "CHF"][rng.random_range(0..4)];
        let (customer, cents) = (rng.random_range(1..10_000), rng.random_range(1..1_000_000));
        let text = format!(
            r#"{{"id":"{id}","customer":{customer},"amount":{cents},"currency":"{currency}"}}"#
        );
        let event = Event::new(id, &text).or_stop("a request cannot be generated")?;
        workload.add(event);
    }
    Ok(workload)
}

/// Adds a new member to the object.
fn with_member_more(object: &str) -> String {
    let object = canonical_json(object.as_bytes()).unwrap_or_else(|_| object.to_owned());
    let mut name = "altered_by_storm".to_owned();
    while object.contains(&name) {
        name.push('_');
    }
    let members = object.trim_end_matches('}').len();
    let (head, tail) = object.split_at(object.len() - 1);
    let comma = if members > 1 { "," } else { "" };
    format!("{head}{comma}\"{name}\":true{tail}")
}

/// The input is limited to this range of indices: see
/// [`MAX_DELIVERIES`](super::plan::MAX_DELIVERIES).
fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn altered_objects_differ_and_are_objects() {
        for (object, expected) in [
            ("{}", r#"{"altered_by_storm":true}"#),
            (r#"{"a":{}}"#, r#"{"a":{},"altered_by_storm":true}"#),
            (
                r#"{"altered_by_storm":1}"#,
                r#"{"altered_by_storm":1,"altered_by_storm_":true}"#,
            ),
        ] {
            assert_eq!(with_member_more(object), expected);
        }
    }
}
