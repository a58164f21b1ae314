//! [`Workload`] and [`Plan`]: the requests, and the deliveries of each worker with their order and
//! their crashes.

use std::collections::{HashMap, VecDeque};

use idem_core::Fingerprint;
use idem_core::fingerprint::canonical_json;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::value::RawValue;

use super::args::Args;
use super::input::Event;
use super::probe::Point;
use super::stop::{OrStop, Stop};
use crate::report::Count;

/// The maximum number of deliveries of a run: they fit into memory with a margin.
const MAX_DELIVERIES: u64 = 50_000_000;

/// How many other requests begin while the senders of one repeat it at once.
const BURST: f64 = 8.0;

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

/// The input is limited to this range of indices: see [`MAX_DELIVERIES`].
fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// A delivery of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Planned {
    pub(crate) variant: u32,
    /// The worker process that gets it.
    pub(crate) process: u32,
    pub(crate) crash: Option<Point>,
}

/// All deliveries, in order; the same seed, workload and options give the same plan.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) deliveries: Vec<Planned>,
    /// The digest of all fields above.
    pub(crate) digest: Fingerprint,
}

impl Plan {
    /// Draws the plan from the seed. Requests begin in random order. Half of a request's
    /// repetitions come while it is in progress, as from an impatient sender; the others at any
    /// later time. They go to the processes in turn.
    pub(crate) fn draw(workload: &mut Workload, args: &Args, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut lines = workload.lines.clone();
        lines.shuffle(&mut rng);
        let end = lines.len() as f64;
        // Each with its time, counted in requests.
        let mut timed = Vec::with_capacity(lines.len() * args.retries as usize);
        for (position, &line) in lines.iter().enumerate() {
            let begin = position as f64;
            let first_process = rng.random_range(0..args.processes);
            for repetition in 0..args.retries {
                let variant = match rng.random_bool(args.conflict_rate) {
                    true => workload.altered(line),
                    false => line,
                };
                let crashes = rng.random_bool(args.crash_rate);
                let delivery = Planned {
                    variant,
                    process: (first_process + repetition) % args.processes,
                    crash: crashes.then(|| Point::ALL[rng.random_range(0..Point::ALL.len())]),
                };
                let time = match repetition {
                    0 => begin,
                    _ if rng.random_bool(0.5) => begin + rng.random_range(0.0..BURST),
                    _ => begin + rng.random_range(0.0..=end - begin),
                };
                timed.push((time, delivery));
            }
        }
        // The sort is stable, so that equal times keep their order.
        timed.sort_by(|(one, _), (two, _)| one.total_cmp(two));
        let mut bytes = Vec::new();
        for variant in &workload.variants {
            bytes.extend(variant.fingerprint.to_bytes());
        }
        for (_, delivery) in &timed {
            bytes.extend(delivery.variant.to_be_bytes());
            bytes.push(delivery.process.to_be_bytes()[3]);
            bytes.push(delivery.crash.map_or(u8::MAX, |point| point as u8));
        }
        Self {
            deliveries: timed.into_iter().map(|(_, delivery)| delivery).collect(),
            digest: Fingerprint::raw(bytes),
        }
    }

    /// Returns the numbers of this process's deliveries, in order.
    pub(crate) fn share(&self, process: u32) -> VecDeque<u32> {
        (0..)
            .zip(&self.deliveries)
            .filter(|(_, delivery)| delivery.process == process)
            .map(|(number, _)| number)
            .collect()
    }
}

/// Refuses input of this many lines, each delivered several times, if that is too much.
pub(crate) fn check_size(lines: u64, args: &Args) -> Result<(), Stop> {
    if lines * u64::from(args.retries) <= MAX_DELIVERIES {
        return Ok(());
    }
    Err(Stop::new(format!(
        "that makes more than {} deliveries; lower --requests or --retries, or use a part of the input",
        Count(MAX_DELIVERIES)
    )))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn draw(seed: u64) -> Plan {
        let args = Args::parse_from(["storm", "--crash-rate", "0.1", "--conflict-rate", "0.1"]);
        let mut workload = payments(100, seed).unwrap();
        Plan::draw(&mut workload, &args, seed)
    }

    #[test]
    fn seed_decides() {
        assert_eq!(draw(1).digest, draw(1).digest);
        assert_ne!(draw(1).digest, draw(2).digest);
    }

    #[test]
    fn every_delivery_has_one_process() {
        let plan = draw(3);
        assert_eq!(plan.deliveries.len(), 500);
        let mut all: Vec<u32> = (0..4).flat_map(|process| plan.share(process)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..500).collect::<Vec<u32>>());
        assert!(
            plan.deliveries
                .iter()
                .any(|delivery| delivery.crash.is_some())
        );
    }

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
