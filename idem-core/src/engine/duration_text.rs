//! Durations as people write them: `500ms`, `30s`, `15m`, `24h`, `7d`.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

/// Units with their milliseconds, the longest first.
const UNITS: [(&str, u128); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

pub(super) fn serialize<S: Serializer>(
    duration: &Duration,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&write(*duration))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Duration, D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    read(&text).ok_or_else(|| {
        D::Error::custom(
            "a duration is a whole number and a unit (ms, s, m, h or d), such as \"30s\"",
        )
    })
}

/// In the longest unit that loses nothing; fractions of a millisecond are rounded up, as stores do.
fn write(duration: Duration) -> String {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    let (unit, length) = UNITS
        .into_iter()
        .find(|(_, length)| millis >= *length && millis.is_multiple_of(*length))
        .unwrap_or(("s", 1_000));
    format!("{}{unit}", millis / length)
}

fn read(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, length) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
    let millis = number
        .parse::<u64>()
        .ok()?
        .checked_mul(u64::try_from(length).ok()?)?;
    Some(Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip_in_their_longest_unit() {
        for text in ["0s", "1ms", "1500ms", "90s", "15m", "36h", "7d"] {
            assert_eq!(write(read(text).unwrap()), text);
        }
        assert_eq!(write(Duration::from_nanos(1)), "1ms");
        assert_eq!(write(read("24h").unwrap()), "1d");
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "30",
            "s",
            "-1s",
            "1.5s",
            "1 s",
            "1w",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
