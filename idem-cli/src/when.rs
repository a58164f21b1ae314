//! Durations and instants as people write them.

use std::time::Duration;

use idem_core::Timestamp;
use jiff::{Span, SpanRelativeTo};

/// Reads a duration such as `90s`, `10m`, `2h 30m` or `7d`; a day has 24 hours.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = |_| "a duration is a number and a unit, such as `90s`, `10m`, `24h` or `7d`";
    let span: Span = text.parse().map_err(wrong)?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let signed = signed.map_err(wrong)?;
    Duration::try_from(signed).map_err(|_| "a duration is not negative".to_owned())
}

/// Shows a duration in its two largest units.
pub(crate) fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let (minutes, rest) = (seconds / 60 % 60, seconds % 60);
    match (days, hours, minutes) {
        (0, 0, 0) if seconds < 10 => {
            let tenths = duration.as_millis() / 100;
            format!("{}.{}s", tenths / 10, tenths % 10)
        }
        (0, 0, 0) => format!("{rest}s"),
        (0, 0, _) => format!("{minutes}m{rest:02}s"),
        (0, _, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

/// Returns the instant in RFC 3339, in UTC with microseconds; an instant beyond the years of that
/// format as its number.
pub(crate) fn instant(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.as_micros())
        .map_or_else(|_| at.as_micros().to_string(), |at| format!("{at:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, seconds) in [
            ("90s", 90),
            ("10m", 600),
            ("2h 30m", 9_000),
            ("7d", 604_800),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "10", "-5s", "1 parsec", "99999999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_shown_in_two_units() {
        for (millis, text) in [
            (340, "0.3s"),
            (42_000, "42s"),
            (61_000, "1m01s"),
            (7_260_000, "2h01m"),
            (90_000_000, "1d01h"),
        ] {
            assert_eq!(shown(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn instants_are_shown_in_utc() {
        let at = Timestamp::from_micros(1_700_000_000_123_456);
        assert_eq!(instant(at), "2023-11-14T22:13:20.123456Z");
        assert_eq!(
            instant(Timestamp::from_micros(i64::MAX)),
            i64::MAX.to_string()
        );
    }
}
