//! [`Plan`]: the requests, and the deliveries of each worker with their order and their crashes.

use std::collections::VecDeque;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::args::Args;
use super::protocol::Point;

/// How many other requests begin while the senders of one repeat it at once.
const BURST: f64 = 8.0;

/// A delivery of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) request: u32,
    /// Whether it carries the request's other payload. Only one of both may have an effect: the
    /// first to arrive.
    pub(crate) is_altered: bool,
    /// The worker process that gets it.
    pub(crate) process: u32,
    pub(crate) crash: Option<Point>,
}

/// All deliveries, in order; the same seed and options give the same plan.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) deliveries: Vec<Planned>,
    /// The payment of each request, as JSON.
    pub(crate) payloads: Vec<String>,
}

/// Returns the id of a request's key.
pub(crate) fn key(request: u32) -> String {
    format!("payment-{:06}", request + 1)
}

impl Plan {
    /// Draws the plan from the seed. Requests begin in random order. Half of a request's
    /// repetitions come while it is in progress, as from an impatient sender; the others at any
    /// later time. They go to the processes in turn.
    pub(crate) fn draw(args: &Args, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let payment = |request| {
            let (customer, cents) = (rng.random_range(1..10_000), rng.random_range(1..1_000_000));
            let currency = ["EUR", "USD", "JPY", "CHF"][rng.random_range(0..4)];
            let id = key(request);
            format!(
                r#"{{"id":"{id}","customer":{customer},"amount":{cents},"currency":"{currency}"}}"#
            )
        };
        let payloads = (0..args.requests).map(payment).collect();
        let mut requests: Vec<_> = (0..args.requests).collect();
        requests.shuffle(&mut rng);
        let end = requests.len() as f64;
        // Each with its time, counted in requests.
        let mut timed = Vec::with_capacity(requests.len() * args.retries as usize);
        for (position, request) in requests.into_iter().enumerate() {
            let begin = position as f64;
            let first_process = rng.random_range(0..args.processes);
            for repetition in 0..args.retries {
                let is_altered = rng.random_bool(args.conflict_rate);
                let crashes = rng.random_bool(args.crash_rate);
                let point = Point::ALL[rng.random_range(0..Point::ALL.len())].0;
                let delivery = Planned {
                    request,
                    is_altered,
                    process: (first_process + repetition) % args.processes,
                    crash: crashes.then_some(point),
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
        let deliveries = timed.into_iter().map(|(_, delivery)| delivery).collect();
        Self {
            deliveries,
            payloads,
        }
    }

    /// Returns the payload of a delivery.
    pub(crate) fn payload(&self, delivery: &Planned) -> String {
        let payload = &self.payloads[delivery.request as usize];
        match delivery.is_altered {
            true => payload.replace('}', r#","altered":true}"#),
            false => payload.clone(),
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_seed_decides_and_every_delivery_has_one_process() {
        let line = "storm --requests 100 --crash-rate 0.1 --conflict-rate 0.1";
        let args = Args::parse_from(line.split(' '));
        let plan = Plan::draw(&args, 1);
        assert_eq!(plan, Plan::draw(&args, 1));
        assert_ne!(plan, Plan::draw(&args, 2));
        let mut all: Vec<_> = (0..4).flat_map(|process| plan.share(process)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..500).collect::<Vec<_>>());
        assert!(
            plan.deliveries
                .iter()
                .any(|delivery| delivery.crash.is_some())
        );
    }
}
