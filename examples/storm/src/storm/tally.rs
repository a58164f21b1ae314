//! [`Tally`]: the counts of a run.

use std::time::{Duration, Instant};

use idem_core::Fingerprint;

use super::probe::Point;
use super::protocol::{End, Outcome};

/// The parts of an answer that the audit needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// The fingerprint of the receipt's bytes; of no bytes without a receipt.
    pub(crate) receipt: Fingerprint,
}

/// The counts of a run.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The answers, by number of delivery.
    pub(crate) answers: Vec<Option<Answer>>,
    pub(crate) answered: u64,
    pub(crate) fresh: u64,
    pub(crate) replays: u64,
    pub(crate) conflicts: u64,
    pub(crate) waits: u64,
    /// Late holders whose commit was refused.
    pub(crate) fenced: u64,
    /// The crashes at each [`Point`]; the last: not planned.
    pub(crate) crashes: [u64; 5],
    latencies: Vec<Duration>,
    start: Instant,
    /// The time until the last answer.
    pub(crate) elapsed: Duration,
}

impl Tally {
    pub(crate) fn new(deliveries: usize) -> Self {
        Self {
            answers: vec![None; deliveries],
            answered: 0,
            fresh: 0,
            replays: 0,
            conflicts: 0,
            waits: 0,
            fenced: 0,
            crashes: [0; 5],
            latencies: Vec::with_capacity(deliveries),
            start: Instant::now(),
            elapsed: Duration::ZERO,
        }
    }

    /// Counts a worker process that died: killed at this point, or for another reason.
    pub(crate) fn crashed(&mut self, point: Option<Point>) {
        self.crashes[point.map_or(Point::ALL.len(), |point| point as usize)] += 1;
    }

    /// Counts a delivery that was acknowledged, with the time since its first attempt.
    pub(crate) fn answered(&mut self, delivery: u32, end: End, latency: Duration) {
        self.answers[delivery as usize] = Some(Answer {
            outcome: end.outcome,
            receipt: Fingerprint::raw(end.receipt),
        });
        self.answered += 1;
        self.waits += u64::from(end.waited);
        self.fenced += u64::from(end.fenced);
        *match end.outcome {
            Outcome::Fresh => &mut self.fresh,
            Outcome::Replay => &mut self.replays,
            Outcome::Conflict => &mut self.conflicts,
        } += 1;
        self.latencies.push(latency);
        self.elapsed = self.start.elapsed();
    }

    /// Returns the latency that this part of the deliveries did not exceed.
    pub(crate) fn latency(&self, quantile: f64) -> Duration {
        let mut latencies = self.latencies.clone();
        let rank = (latencies.len() as f64 * quantile).ceil() as usize;
        match rank.checked_sub(1) {
            Some(index) => *latencies.select_nth_unstable(index).1,
            None => Duration::ZERO,
        }
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.answered as f64 / self.elapsed.as_secs_f64().max(1e-6)
    }

    pub(crate) fn all_crashes(&self) -> u64 {
        self.crashes.iter().sum()
    }
}
