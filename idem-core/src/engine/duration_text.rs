//! Durations as people write them: `500ms`, `30s`, `15m`, `24h`, `7d`.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, Unexpected, Visitor};
use serde::ser::Serializer;

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
    deserializer.deserialize_str(Text)
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration: a whole number and a unit (ms, s, m, h or d), such as \"30s\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Duration, E> {
        read(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Writes it in the longest unit that loses nothing; fractions of a millisecond are rounded up, as
/// stores do. A longer duration than can be read is written as the longest readable one.
fn write(duration: Duration) -> String {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    let millis = millis.min(u128::from(u64::MAX));
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
        assert!(read(&write(Duration::MAX)).is_some());
    }

    #[test]
    fn a_text_that_is_no_duration_is_refused() {
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
