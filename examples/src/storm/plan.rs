//! [`Plan`]: the deliveries of each worker, their order, and their crashes.

use std::collections::VecDeque;

use idem_core::Fingerprint;
use indicatif::HumanCount;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use super::args::Args;
use super::probe::Point;
use super::stop::Stop;
use super::workload::Workload;

/// The maximum number of deliveries of a run: they fit into memory with a margin.
pub(crate) const MAX_DELIVERIES: u64 = 50_000_000;

/// How many other requests begin while the senders of one repeat it at once.
const BURST: f64 = 8.0;

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
        let mut timed = Vec::with_capacity(lines.len() * args.retries as usize);
        for (position, &line) in lines.iter().enumerate() {
            let begin = position as f64;
            let first_process = rng.random_range(0..args.processes);
            for repetition in 0..args.retries {
                let process = (first_process + repetition) % args.processes;
                let delivery = delivery(line, process, workload, args, &mut rng);
                timed.push((time(repetition, begin, end, &mut rng), delivery));
            }
        }
        // The sort is stable, so that equal times keep their order.
        timed.sort_by(|(one, _), (two, _)| one.total_cmp(two));
        Self::of(
            timed.into_iter().map(|(_, delivery)| delivery).collect(),
            workload,
        )
    }

    fn of(deliveries: Vec<Planned>, workload: &Workload) -> Self {
        let mut bytes = Vec::new();
        for variant in &workload.variants {
            bytes.extend(variant.fingerprint.to_bytes());
        }
        for delivery in &deliveries {
            bytes.extend(delivery.variant.to_be_bytes());
            bytes.push(delivery.process.to_be_bytes()[3]);
            bytes.push(delivery.crash.map_or(u8::MAX, |point| point as u8));
        }
        Self {
            deliveries,
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

fn delivery(
    line: u32,
    process: u32,
    workload: &mut Workload,
    args: &Args,
    rng: &mut StdRng,
) -> Planned {
    let variant = match rng.random_bool(args.conflict_rate) {
        true => workload.altered(line),
        false => line,
    };
    let crash = rng
        .random_bool(args.crash_rate)
        .then(|| Point::ALL[rng.random_range(0..Point::ALL.len())]);
    Planned {
        variant,
        process,
        crash,
    }
}

/// Returns when a repetition is sent, counted in requests.
fn time(repetition: u32, begin: f64, end: f64, rng: &mut StdRng) -> f64 {
    match repetition {
        0 => begin,
        _ if rng.random_bool(0.5) => begin + rng.random_range(0.0..BURST),
        _ => begin + rng.random_range(0.0..=end - begin),
    }
}

/// Refuses input of this many lines, each delivered several times, if that is too much.
pub(crate) fn check_size(lines: u64, args: &Args) -> Result<(), Stop> {
    if lines * u64::from(args.retries) <= MAX_DELIVERIES {
        return Ok(());
    }
    Err(Stop::new(format!(
        "that makes more than {} deliveries; lower --requests or --retries, or use a part of the input",
        HumanCount(MAX_DELIVERIES)
    )))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::workload::payments;
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
}
