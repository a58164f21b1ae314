//! [`ServerClock`]: the instant until which a script may run.
//!
//! A server may stall, or a proxy may hold bytes back. When it goes on, it runs the commands it
//! got, long after the callers have given up. A claim that runs then takes over claims that expired
//! meanwhile, although their holders live and only could not renew. No caller is left to do the
//! work. So each claim carries the instant, by the server's clock, at which its caller stops
//! waiting. After it the script does nothing and says so.
//!
//! Renewals, results, checkpoints and releases carry none. They change only what their own token
//! and attempt hold, so a late one takes nothing from another caller, and a late result is better
//! than none.

use std::sync::atomic::{AtomicI64, Ordering};

use redis::Value;
use tokio::time::Instant;

/// Converts an instant of this process's own clock, which no step of the client's wall clock moves,
/// to the server's clock.
///
/// It is an upper estimate: the time that the server's answer took counts as if it had all passed
/// before its clock was read. So nothing is dropped too early, and at most by that much too late.
/// The server's clock may be ahead of the estimate, because it was set or because another node is
/// master now. Then the server refuses its first claim; its answer shows its clock, and the claim
/// is sent again.
#[derive(Debug)]
pub(crate) struct ServerClock {
    base: Instant,
    ahead: AtomicI64,
}

impl ServerClock {
    pub(crate) fn new() -> Self {
        Self {
            base: Instant::now(),
            ahead: AtomicI64::new(0),
        }
    }

    /// Records that the server, queried at this instant, showed `now`, in microseconds since 1970.
    pub(crate) fn learn(&self, asked: Instant, now: i64) {
        self.ahead.store(
            now.saturating_sub(self.since_base(asked)),
            Ordering::Relaxed,
        );
    }

    /// Returns what it shows then, in microseconds since 1970.
    pub(crate) fn at(&self, then: Instant) -> i64 {
        let ahead = self.ahead.load(Ordering::Relaxed);
        ahead.saturating_add(self.since_base(then))
    }

    fn since_base(&self, then: Instant) -> i64 {
        let since = then.saturating_duration_since(self.base).as_micros();
        i64::try_from(since).unwrap_or(i64::MAX)
    }
}

/// Returns the clock in an answer of `TIME`, in microseconds.
pub(crate) fn time(answer: &Value) -> Option<i64> {
    let Value::Array(parts) = answer else {
        return None;
    };
    let number = |part: &Value| match part {
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse::<i64>().ok(),
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let [seconds, micros] = &parts[..] else {
        return None;
    };
    number(seconds)?
        .checked_mul(1_000_000)?
        .checked_add(number(micros)?)
}

/// Returns the server's clock in the answer of a claim that came too late to be run.
pub(crate) fn too_late(answer: &Value) -> Option<i64> {
    let Value::Array(parts) = answer else {
        return None;
    };
    match &parts[..] {
        [Value::BulkString(word), Value::Int(now)] if word == b"late" => Some(*now),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_estimate_is_never_too_early() {
        let clock = ServerClock::new();
        let sent_at = clock.base + Duration::from_secs(5);
        // Read by the server at any moment until the answer came.
        clock.learn(sent_at, 1_000_000_000);
        assert_eq!(clock.at(sent_at), 1_000_000_000);
        let then = sent_at + Duration::from_secs(2);
        assert_eq!(clock.at(then), 1_002_000_000);
        assert_eq!(clock.at(clock.base), 995_000_000);
    }

    #[test]
    fn answers_are_distinguished() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let answer = Value::Array(vec![text("1700000000"), text("000042")]);
        assert_eq!(time(&answer), Some(1_700_000_000_000_042));
        assert_eq!(time(&Value::Array(vec![text("x"), text("1")])), None);
        assert_eq!(time(&Value::Okay), None);
        let late = Value::Array(vec![text("late"), Value::Int(7)]);
        assert_eq!(too_late(&late), Some(7));
        let lost = Value::Array(vec![Value::Int(0), Value::Int(7), text("record")]);
        assert_eq!(too_late(&lost), None);
    }
}
