//! [`Lifetime`]: how long a route's answers are replayed, in the forms that protocols publish.

use std::time::Duration;

use serde_json::{Value, json};

/// How long a route's answers are replayed: see
/// [`IdempotencyLayer::lifetime`](crate::IdempotencyLayer::lifetime).
///
/// All forms count whole seconds, rounded down, so that none promises too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lifetime {
    replayed: Duration,
    in_flight_max: Option<Duration>,
}

impl Lifetime {
    pub(crate) const fn new(replayed: Duration) -> Self {
        Self {
            replayed,
            in_flight_max: None,
        }
    }

    pub(crate) const fn replayed(self) -> Duration {
        self.replayed
    }

    /// Adds the longest time for which a request is in flight: the time after which the server ends
    /// a handler. Only AdCP publishes it. Default: none, because the layer ends no handler.
    #[must_use]
    pub const fn with_in_flight_max(mut self, limit: Duration) -> Self {
        self.in_flight_max = Some(limit);
        self
    }

    /// Returns the time in whole seconds.
    #[must_use]
    pub fn as_secs(self) -> u64 {
        self.replayed.as_secs()
    }

    /// Returns an ISO 8601 duration of hours, minutes and seconds, such as `PT24H`: the
    /// `idempotency-key-lifetime` of Iceberg's `GET /v1/config`.
    #[must_use]
    pub fn iso8601(self) -> String {
        let seconds = self.as_secs();
        let parts = [
            (seconds / 3600, 'H'),
            (seconds / 60 % 60, 'M'),
            (seconds % 60, 'S'),
        ];
        let written = parts.iter().filter(|(number, _)| *number > 0);
        let text: String = written
            .map(|(number, unit)| format!("{number}{unit}"))
            .collect();
        match text.is_empty() {
            true => "PT0S".to_owned(),
            false => format!("PT{text}"),
        }
    }

    /// Returns the member `idempotency` of AdCP's `get_adcp_capabilities`, such as
    /// `{"supported":true,"replay_ttl_seconds":86400}`, with `in_flight_max_seconds` where it is
    /// known, rounded up.
    #[must_use]
    pub fn adcp(self) -> Value {
        let mut member = json!({"supported": true, "replay_ttl_seconds": self.as_secs()});
        if let Some(limit) = self.in_flight_max {
            member["in_flight_max_seconds"] = rounded_up(limit).into();
        }
        member
    }
}

/// Returns whole seconds, rounded up, at least one.
pub(crate) fn rounded_up(time: Duration) -> u64 {
    let more = u64::from(time.subsec_nanos() > 0);
    time.as_secs().saturating_add(more).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_in_hours_minutes_and_seconds() {
        for (millis, expected) in [
            (0, "PT0S"),
            (999, "PT0S"),
            (1_000, "PT1S"),
            (86_400_000, "PT24H"),
            (5_430_500, "PT1H30M30S"),
            (3_605_000, "PT1H5S"),
        ] {
            assert_eq!(
                Lifetime::new(Duration::from_millis(millis)).iso8601(),
                expected
            );
        }
    }
}
