//! [`Breaker`]: stops calling a cache that does not answer.

use std::time::Duration;

use tokio::time::Instant;

use crate::Config;

/// A circuit breaker as a pure state machine: callers pass the time, and it waits for nothing.
///
/// ```text
///           threshold failures in a row            pause is over: one probe
///   closed ────────────────────────────▶ open ─────────────────────────────▶ half-open
///     ▲                                   ▲  probe fails: twice the pause       │  │
///     │                                   └─────────────────────────────────────┘  │
///     └──────────────────────────────── probe succeeds ────────────────────────────┘
/// ```
///
/// Pauses are shortened at random by up to a quarter, so that many processes do not probe at the
/// same instant.
#[derive(Debug, Clone)]
pub(crate) struct Breaker {
    state: State,
    threshold: u32,
    first_pause: Duration,
    max_pause: Duration,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant, pause: Duration },
    HalfOpen { pause: Duration },
}

/// The right to make one call; its end must be reported to the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the breaker needs the end of the call"]
pub(crate) enum Permit {
    /// One of many calls.
    Call,
    /// The one call that shows whether the cache is back.
    Probe,
}

impl Breaker {
    /// Creates a closed breaker with the threshold and pauses of this config.
    #[must_use]
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            state: State::Closed { failures: 0 },
            threshold: config.breaker_threshold.max(1),
            first_pause: config.breaker_pause,
            max_pause: config.breaker_max_pause.max(config.breaker_pause),
        }
    }

    /// Returns a permit if a call may be made now; `None` means to do without.
    pub(crate) fn permit(&mut self, now: Instant) -> Option<Permit> {
        match self.state {
            State::Closed { .. } => Some(Permit::Call),
            State::Open { until, pause } if now >= until => {
                self.state = State::HalfOpen { pause };
                Some(Permit::Probe)
            }
            State::Open { .. } | State::HalfOpen { .. } => None,
        }
    }

    /// Reports that the call was answered.
    pub(crate) fn succeeded(&mut self, permit: Permit) {
        match (permit, self.state) {
            // A call that began before the breaker opened says nothing new.
            (Permit::Call, State::Open { .. } | State::HalfOpen { .. }) => {}
            (Permit::Call | Permit::Probe, _) => self.state = State::Closed { failures: 0 },
        }
    }

    /// Reports that the call failed or took too long.
    pub(crate) fn failed(&mut self, permit: Permit, now: Instant) {
        match (permit, self.state) {
            (Permit::Call, State::Closed { failures }) if failures + 1 < self.threshold => {
                let failures = failures + 1;
                self.state = State::Closed { failures };
            }
            (Permit::Call, State::Closed { .. }) => self.open(self.first_pause, now),
            (Permit::Call, State::Open { .. } | State::HalfOpen { .. }) => {}
            (Permit::Probe, State::HalfOpen { pause } | State::Open { pause, .. }) => {
                self.open(pause.saturating_mul(2).min(self.max_pause), now);
            }
            (Permit::Probe, State::Closed { .. }) => self.open(self.first_pause, now),
        }
    }

    /// Reports that the call was dropped before it ended, which says nothing: after a probe,
    /// another one is let through once the same pause is over again.
    pub(crate) fn abandoned(&mut self, permit: Permit, now: Instant) {
        if let (Permit::Probe, State::HalfOpen { pause }) = (permit, self.state) {
            self.open(pause, now);
        }
    }

    /// Returns whether calls are made as usual.
    #[must_use]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    fn open(&mut self, pause: Duration, now: Instant) {
        let wait = pause.mul_f64(1.0 - rand::random::<f64>() / 4.0);
        let until = now.checked_add(wait).unwrap_or(now);
        self.state = State::Open { until, pause };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(100);

    fn breaker() -> Breaker {
        let config = Config::new().with_breaker_threshold(3);
        Breaker::new(&config.with_breaker_pause(PAUSE, PAUSE * 3))
    }

    fn fail(breaker: &mut Breaker, now: Instant) -> Option<Permit> {
        let permit = breaker.permit(now)?;
        breaker.failed(permit, now);
        Some(permit)
    }

    fn opened(now: Instant) -> Breaker {
        let mut breaker = breaker();
        for _ in 0..3 {
            assert_eq!(fail(&mut breaker, now), Some(Permit::Call));
        }
        breaker
    }

    #[test]
    fn only_failures_in_a_row_open_it() {
        let (mut breaker, now) = (breaker(), Instant::now());
        for _ in 0..5 {
            for _ in 0..2 {
                assert!(fail(&mut breaker, now).is_some());
            }
            let permit = breaker.permit(now).unwrap();
            breaker.succeeded(permit);
        }
        assert!(breaker.is_closed());
        for _ in 0..3 {
            assert!(fail(&mut breaker, now).is_some());
        }
        assert_eq!(breaker.permit(now), None);
    }

    #[test]
    fn exactly_one_probe_is_let_through() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.permit(now + PAUSE * 7 / 10), None);
        assert_eq!(breaker.permit(now + PAUSE), Some(Permit::Probe));
        assert_eq!(breaker.permit(now + PAUSE * 9), None, "the second");
        breaker.succeeded(Permit::Probe);
        assert_eq!(breaker.permit(now + PAUSE * 9), Some(Permit::Call));
    }

    #[test]
    fn the_pause_doubles_up_to_its_maximum() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        for pause in [PAUSE, PAUSE * 2, PAUSE * 3, PAUSE * 3] {
            assert_eq!(breaker.permit(now + pause * 7 / 10), None, "{pause:?}");
            now += pause;
            assert_eq!(fail(&mut breaker, now), Some(Permit::Probe), "{pause:?}");
        }
        now += PAUSE * 3;
        assert_eq!(breaker.permit(now), Some(Permit::Probe));
        breaker.succeeded(Permit::Probe);
        for _ in 0..3 {
            assert!(fail(&mut breaker, now).is_some());
        }
        assert_eq!(breaker.permit(now + PAUSE), Some(Permit::Probe), "as new");
    }

    #[test]
    fn late_answers_of_calls_do_not_move_an_open_breaker() {
        let now = Instant::now();
        let mut breaker = opened(now);
        breaker.succeeded(Permit::Call);
        assert_eq!(breaker.permit(now), None);
        assert_eq!(breaker.permit(now + PAUSE), Some(Permit::Probe));
        breaker.failed(Permit::Call, now + PAUSE);
        breaker.succeeded(Permit::Call);
        assert_eq!(breaker.permit(now + PAUSE), None, "the probe is out");
    }

    #[test]
    fn a_probe_that_is_dropped_makes_room_for_another() {
        let now = Instant::now();
        let mut breaker = opened(now);
        assert_eq!(breaker.permit(now + PAUSE), Some(Permit::Probe));
        breaker.abandoned(Permit::Probe, now + PAUSE);
        assert_eq!(breaker.permit(now + PAUSE), None);
        assert_eq!(breaker.permit(now + PAUSE * 2), Some(Permit::Probe));
    }
}
