//! [`Lifetime`]: how long a route's answers are replayed, in the forms that protocols publish.

use std::time::Duration;

use serde_json::{Value, json};

/// How long a route's answers are replayed: see
/// [`IdempotencyLayer::lifetime`](crate::IdempotencyLayer::lifetime).
///
/// All forms count whole seconds, rounded down, so that none promises too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lifetime(pub(crate) Duration);

impl Lifetime {
    /// Returns the time in whole seconds.
    #[must_use]
    pub fn as_secs(self) -> u64 {
        self.0.as_secs()
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
    /// `{"supported":true,"replay_ttl_seconds":86400}`.
    #[must_use]
    pub fn adcp(self) -> Value {
        json!({"supported": true, "replay_ttl_seconds": self.as_secs()})
    }
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
            assert_eq!(Lifetime(Duration::from_millis(millis)).iso8601(), expected);
        }
    }
}
