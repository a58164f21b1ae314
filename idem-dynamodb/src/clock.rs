//! [`Clock`]: the service's clock, as far as a client can know it.
//!
//! DynamoDB has no clock in its expressions, so every instant in a condition comes from a client.
//! The store measures its own clock against the `Date` header of each answer. The header has whole
//! seconds, and says when the answer was made: after the request was sent and before the answer
//! came. So each answer bounds the service's clock from both sides, and later answers narrow the
//! bounds. Between answers the bounds move with the monotonic clock, and widen by its possible
//! drift.
//!
//! The clock of the machine counts while it is within the bounds. A machine whose clock is right
//! therefore adds no error, and a wrong clock counts as the nearer bound.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far the service's clock may be past the instant that its header shows: a second, because the
/// header has whole seconds, and another one, because servers may reuse a header for a second.
pub(crate) const DATE_PRECISION: i64 = 2_000_000;

/// A monotonic clock gains or loses at most a 2,000th: NTP slews a clock by at most 500 ppm.
const DRIFT: i64 = 2_000;

/// If the wall clock has moved by this much more or less than the monotonic one, one of them was
/// set, or the machine was suspended or restored from a snapshot. The bounds may be wrong then.
const STEP: i64 = 1_000_000;

/// The two clocks of this machine at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    /// The monotonic clock.
    pub(crate) at: Instant,
    /// The wall clock, in microseconds since 1970.
    pub(crate) wall: i64,
}

impl Reading {
    pub(crate) fn take() -> Self {
        let since_1970 = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            at: Instant::now(),
            wall: micros(since_1970),
        }
    }

    fn micros_since(self, earlier: Instant) -> i64 {
        micros(self.at.saturating_duration_since(earlier))
    }
}

/// The bounds of the service's clock, as of the last answer.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    taken: Reading,
    earliest: i64,
    latest: i64,
}

impl Bounds {
    /// Returns the bounds at a later moment.
    fn at(self, now: Reading) -> Self {
        let passed = now.micros_since(self.taken.at);
        let drift = passed / DRIFT;
        Self {
            taken: now,
            earliest: self.earliest.saturating_add(passed - drift),
            latest: self.latest.saturating_add(passed + drift),
        }
    }

    /// Returns whether wall clock and monotonic clock have moved together since.
    fn is_steady(&self, now: Reading) -> bool {
        let passed = now.micros_since(self.taken.at);
        let moved = now.wall.saturating_sub(self.taken.wall);
        moved.abs_diff(passed) <= STEP.unsigned_abs()
    }
}

/// An instant of the service's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Now {
    /// The best estimate, in microseconds since 1970.
    pub(crate) micros: i64,
    /// The service's clock is at this instant or later.
    pub(crate) earliest: i64,
}

/// The service's clock for one store.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The most by which the bounds may be apart.
    max_skew: i64,
    bounds: Mutex<Option<Bounds>>,
}

impl Clock {
    pub(crate) fn new(max_skew: Duration) -> Self {
        Self {
            max_skew: micros(max_skew),
            bounds: Mutex::new(None),
        }
    }

    /// Returns the service's time; `None` if an answer has to be measured first.
    pub(crate) fn now(&self) -> Option<Now> {
        self.now_at(Reading::take())
    }

    fn now_at(&self, now: Reading) -> Option<Now> {
        let bounds = (*self.lock())?;
        if !bounds.is_steady(now) {
            return None;
        }
        let Bounds {
            earliest, latest, ..
        } = bounds.at(now);
        if latest.saturating_sub(earliest) > self.max_skew {
            return None;
        }
        Some(Now {
            micros: now.wall.clamp(earliest, latest),
            earliest,
        })
    }

    /// Returns whether any answer had a date.
    pub(crate) fn is_measured(&self) -> bool {
        self.lock().is_some()
    }

    /// Measures an answer whose request was sent at `sent`, and whose header shows `date`, in
    /// microseconds since 1970.
    pub(crate) fn measure(&self, sent: Instant, received: Reading, date: i64) {
        let under_way = received.micros_since(sent);
        let measured = Bounds {
            taken: received,
            earliest: date,
            latest: date
                .saturating_add(DATE_PRECISION)
                .saturating_add(under_way),
        };
        let mut bounds = self.lock();
        let known = bounds.filter(|known| known.is_steady(received));
        let narrowed = known.map(|known| known.at(received)).map(|known| Bounds {
            taken: received,
            earliest: known.earliest.max(measured.earliest),
            latest: known.latest.min(measured.latest),
        });
        // Bounds that exclude each other: the service's clock was set, or this one stood still.
        let narrowed = narrowed.filter(|bounds| bounds.earliest <= bounds.latest);
        *bounds = Some(narrowed.unwrap_or(measured));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Bounds>> {
        self.bounds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the microseconds of a duration, at most what 64 bits hold.
pub(crate) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Reads the `Date` header, in microseconds since 1970.
pub(crate) fn date(header: &str) -> Option<i64> {
    let date = httpdate::parse_http_date(header).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    /// Any instant of the service.
    const NOON: i64 = 1_800_000_000 * SECOND;

    /// A machine whose clock is ahead of the service's by `ahead`.
    struct Machine {
        start: Instant,
        ahead: i64,
    }

    impl Machine {
        fn new(ahead: i64) -> Self {
            let start = Instant::now();
            Self { start, ahead }
        }

        /// Its clocks when the service's clock is this long past noon.
        fn at(&self, past: i64) -> Reading {
            Reading {
                at: self.start + Duration::from_micros(past.unsigned_abs()),
                wall: NOON + past + self.ahead,
            }
        }

        /// An answer that is made at `made`, to a request that takes `trip` in all.
        fn answer(&self, clock: &Clock, made: i64, trip: i64) {
            let sent = self.at(made - trip / 2).at;
            let date = (NOON + made) / SECOND * SECOND;
            clock.measure(sent, self.at(made + trip - trip / 2), date);
        }
    }

    fn clock() -> Clock {
        Clock::new(Duration::from_secs(5))
    }

    #[test]
    fn a_right_clock_adds_no_error() {
        let (clock, machine) = (clock(), Machine::new(0));
        assert_eq!(clock.now_at(machine.at(0)), None, "nothing is measured");
        machine.answer(&clock, 3 * SECOND / 2, 20_000);
        let now = clock.now_at(machine.at(4 * SECOND)).unwrap();
        assert_eq!(now.micros, NOON + 4 * SECOND);
        assert!(now.earliest <= now.micros);
    }

    #[test]
    fn a_wrong_clock_counts_as_the_nearer_bound() {
        for hours in [-1_000, -1, 1, 1_000] {
            let (clock, machine) = (clock(), Machine::new(hours * 3600 * SECOND));
            machine.answer(&clock, SECOND, 20_000);
            let now = clock.now_at(machine.at(2 * SECOND)).unwrap();
            let apart = now.micros.abs_diff(NOON + 2 * SECOND);
            assert!(apart < 2_100_000, "{apart} µs apart, {hours} h ahead");
            assert!(now.earliest <= NOON + 2 * SECOND);
        }
    }

    #[test]
    fn more_answers_narrow_the_bounds() {
        let (clock, machine) = (clock(), Machine::new(-3600 * SECOND));
        // The header changes between these two, so the service's clock is known to be at least at
        // the whole second.
        machine.answer(&clock, SECOND - 10_000, 10_000);
        machine.answer(&clock, SECOND + 10_000, 10_000);
        let now = clock.now_at(machine.at(SECOND + 15_000)).unwrap();
        assert!(NOON + SECOND + 15_000 - now.earliest < 30_000, "{now:?}");
    }

    #[test]
    fn a_slow_answer_bounds_nothing() {
        let (clock, machine) = (clock(), Machine::new(0));
        machine.answer(&clock, 4 * SECOND, 4 * SECOND);
        assert_eq!(clock.now_at(machine.at(7 * SECOND)), None);
        machine.answer(&clock, 8 * SECOND, 10_000);
        assert!(clock.now_at(machine.at(9 * SECOND)).is_some());
        machine.answer(&clock, 12 * SECOND, 6 * SECOND);
        assert!(
            clock.now_at(machine.at(16 * SECOND)).is_some(),
            "the bounds of before hold"
        );
    }

    #[test]
    fn old_bounds_have_to_be_measured_again() {
        let (clock, machine) = (clock(), Machine::new(0));
        machine.answer(&clock, SECOND, 10_000);
        let hour = 3600 * SECOND;
        assert!(clock.now_at(machine.at(hour / 2)).is_some());
        assert_eq!(clock.now_at(machine.at(2 * hour)), None);
    }

    #[test]
    fn a_machine_that_was_suspended_measures_again() {
        let (clock, machine) = (clock(), Machine::new(0));
        machine.answer(&clock, SECOND, 10_000);
        // The monotonic clock has stood still for an hour.
        let hour = 3600 * SECOND;
        let resumed = Reading {
            wall: machine.at(hour).wall,
            ..machine.at(2 * SECOND)
        };
        assert_eq!(clock.now_at(resumed), None);
        let sent = resumed.at;
        clock.measure(sent, resumed, NOON + hour);
        let now = clock.now_at(resumed).unwrap();
        assert_eq!(now.micros, NOON + hour);
    }

    #[test]
    fn dates_are_read() {
        assert_eq!(
            date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777_000_000)
        );
        assert_eq!(date("yesterday"), None);
    }
}
