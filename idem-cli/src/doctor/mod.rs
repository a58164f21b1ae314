//! [`Findings`]: what an examination of a server reports, and the checks that all stores share.

use std::fmt::Display;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::when;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// As it should be.
    Ok,
    /// It costs something, or could not be seen.
    Warning,
    /// It breaks a promise of the store.
    Error,
}

impl Level {
    /// Returns the level as people read it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

/// One finding.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) level: Level,
    /// What was found.
    pub(crate) found: String,
    /// What to do about it.
    pub(crate) advice: Option<String>,
}

/// All findings, in the order of the checks.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    /// Reports that all is well.
    pub(crate) fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.add(check, Level::Ok, found.into(), None);
    }

    /// Reports something that costs.
    pub(crate) fn warning(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(check, Level::Warning, found.into(), Some(advice.into()));
    }

    /// Reports something that breaks a promise.
    pub(crate) fn error(
        &mut self,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.add(check, Level::Error, found.into(), Some(advice.into()));
    }

    /// Reports a setting that is fine or loses something.
    pub(crate) fn setting(
        &mut self,
        check: &'static str,
        value: &str,
        (level, advice): (Level, &str),
    ) {
        let advice = (level != Level::Ok).then(|| advice.to_owned());
        let value = match value {
            "" => "(empty)",
            value => value,
        };
        self.add(check, level, value.to_owned(), advice);
    }

    /// Reports the versions of the server and of this build's schema.
    pub(crate) fn version(&mut self, product: &str, version: &str, schema: impl Display) {
        self.ok("version", format!("{product} {version}, schema {schema}"));
    }

    /// Reports whether the connection is encrypted, as it has to be between machines.
    pub(crate) fn tls(&mut self, is_on: bool, is_local: bool, advice: &str) {
        match (is_on, is_local) {
            (true, _) => self.ok("tls", "in use"),
            (false, true) => self.ok("tls", "not in use, on this machine"),
            (false, false) => {
                let advice = format!("passwords and results cross the network readable; {advice}");
                self.warning("tls", "not in use", advice);
            }
        }
    }

    /// Reports that something could not be seen.
    pub(crate) fn unseen(&mut self, check: &'static str, advice: impl Into<String>) {
        self.add(
            check,
            Level::Warning,
            "not visible".to_owned(),
            Some(advice.into()),
        );
    }

    fn add(&mut self, check: &'static str, level: Level, found: String, advice: Option<String>) {
        self.0.push(Finding {
            check,
            level,
            found,
            advice,
        });
    }

    /// Reports the server's clock beside this machine's, and the time of a round trip: those of the
    /// fastest of three questions for the microseconds since 1970.
    pub(crate) async fn clock<E, F: Future<Output = Result<i64, E>>>(
        &mut self,
        ask: impl Fn() -> F,
    ) -> Result<(), E> {
        let mut reading = ClockReading::take(ask()).await?;
        for _ in 0..2 {
            reading = reading.or(ClockReading::take(ask()).await?);
        }
        self.compare(&reading);
        self.ok("round trip", format!("{:?}", reading.round_trip));
        Ok(())
    }

    fn compare(&mut self, reading: &ClockReading) {
        let (ahead, uncertainty) = reading.offset();
        let by = small(Duration::from_micros(ahead.unsigned_abs()));
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        let found = format!(
            "{by} {side} this machine's, known to ±{}",
            small(uncertainty)
        );
        if ahead.unsigned_abs() <= 1_000_000 + micros(uncertainty) {
            self.ok("clock", found);
        } else {
            self.warning(
                "clock",
                found,
                "leases follow the server's clock alone, so claims are safe; set both clocks by NTP, so that the \
                 instants shown here mean what you think",
            );
        }
    }

    /// Returns all findings.
    pub(crate) fn all(&self) -> &[Finding] {
        &self.0
    }

    /// Returns whether one of them is an error.
    pub(crate) fn has_errors(&self) -> bool {
        self.0.iter().any(|finding| finding.level == Level::Error)
    }
}

/// A reading of the server's clock, between two of this machine's.
#[derive(Debug)]
struct ClockReading {
    before: i64,
    server: i64,
    round_trip: Duration,
}

impl ClockReading {
    /// Takes a reading: `ask` returns the server's microseconds since 1970.
    async fn take<E>(ask: impl Future<Output = Result<i64, E>>) -> Result<Self, E> {
        let (before, began) = (now(), Instant::now());
        let server = ask.await?;
        Ok(Self {
            before,
            server,
            round_trip: began.elapsed(),
        })
    }

    /// Returns the reading with the shorter round trip, which knows more.
    fn or(self, other: Self) -> Self {
        match other.round_trip < self.round_trip {
            true => other,
            false => self,
        }
    }

    /// Returns by how many microseconds the server is ahead, and how far that may be wrong.
    fn offset(&self) -> (i64, Duration) {
        let half = self.round_trip / 2;
        let here = self.before.saturating_add_unsigned(micros(half));
        (self.server.saturating_sub(here), half)
    }
}

/// Shows a duration, in milliseconds if it is below a second.
fn small(duration: Duration) -> String {
    match duration < Duration::from_secs(1) {
        true => format!("{:.1} ms", duration.as_secs_f64() * 1_000.0),
        false => when::shown(duration),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ahead: i64) -> ClockReading {
        ClockReading {
            before: 1_000_000_000,
            server: 1_000_050_000 + ahead,
            round_trip: Duration::from_millis(100),
        }
    }

    #[test]
    fn the_shortest_round_trip_brackets_the_servers_clock() {
        assert_eq!(reading(0).offset(), (0, Duration::from_millis(50)));
        assert_eq!(reading(-7).offset().0, -7);
        let late = ClockReading {
            round_trip: Duration::from_secs(1),
            ..reading(7)
        };
        assert_eq!(late.or(reading(3)).offset().0, 3);
    }

    #[test]
    fn a_clock_that_is_off_by_seconds_is_a_warning() {
        let mut findings = Findings::default();
        findings.compare(&reading(900_000));
        findings.compare(&reading(-5_000_000));
        let levels: Vec<_> = findings.all().iter().map(|finding| finding.level).collect();
        assert_eq!(levels, [Level::Ok, Level::Warning]);
        assert!(findings.all()[1].found.contains("5.0s behind"));
        assert!(!findings.has_errors());
    }
}
