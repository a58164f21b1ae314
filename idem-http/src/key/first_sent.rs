//! [`FirstSent`]: the time at which a client sent a request first.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::KeyError;

/// How far a client's clock may be ahead.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// A header with the time of the first attempt, an HTTP date, which a client sends with the key and
/// repeats unchanged, such as `Repeatability-First-Sent` of OASIS and Azure.
///
/// A request that was first sent before the window is refused with `412`: its answer may be
/// forgotten, and to handle it could be to handle it twice. So is a request whose answer is older
/// than the retention, whatever time it names. A time more than 5 minutes ahead is refused as
/// malformed. All by this process's clock.
///
/// The store keeps records 10 minutes longer than the retention, so that a client whose clock is
/// ahead does not outlive its record. Failures stay as long as answers at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstSent {
    pub(crate) header: HeaderName,
    window: Option<Duration>,
    pub(crate) is_optional: bool,
}

impl FirstSent {
    /// How long a record outlives the replays of its answer. Until a request is refused for its
    /// time, the record must be there, or the request is handled again. Half of this time is for
    /// clients whose clock is ahead; the other half is for servers whose clocks differ, and for
    /// requests that are on their way.
    pub(crate) const KEPT: Duration = AHEAD.saturating_mul(2);

    /// Requires this header with each key. The window is the route's retention.
    #[must_use]
    pub fn header(header: HeaderName) -> Self {
        Self {
            header,
            window: None,
            is_optional: false,
        }
    }

    /// Also takes a key without the time, whose window cannot be checked: after the retention it is
    /// refused only for as long as its record is there. A time without a key stays an error.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.is_optional = true;
        self
    }

    /// Sets the window, at most the retention of the route. Default: the retention.
    #[must_use]
    pub fn with_window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// Returns the time in the headers.
    pub(crate) fn read(&self, headers: &HeaderMap) -> Result<Option<SystemTime>, KeyError> {
        let mut values = headers.get_all(&self.header).iter();
        let value = match (values.next(), values.next()) {
            (None, _) => return Ok(None),
            (Some(value), None) => value,
            (Some(_), Some(_)) => return Err(KeyError::Repeated),
        };
        date(value).map(Some).ok_or(KeyError::NotADate)
    }

    /// Checks that the time is not in the future.
    pub(crate) fn check(sent: SystemTime, now: SystemTime) -> Result<(), KeyError> {
        let ahead = sent.duration_since(now).unwrap_or_default();
        if ahead > AHEAD {
            return Err(KeyError::Future);
        }
        Ok(())
    }

    /// Returns whether the answer may be forgotten.
    pub(crate) fn is_over(&self, sent: SystemTime, now: SystemTime, retention: Duration) -> bool {
        let window = self.window.unwrap_or(retention).min(retention);
        now.duration_since(sent).is_ok_and(|age| age > window)
    }
}

/// `httpdate` also reads the two obsolete forms, which RFC 9110 requires of recipients.
fn date(value: &HeaderValue) -> Option<SystemTime> {
    httpdate::parse_http_date(value.to_str().ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("repeatability-first-sent");

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_window_is_never_longer_than_the_retention() {
        let hour = Duration::from_secs(3600);
        let now = at(100_000);
        for (window, over, within) in [
            (None, 3601, 3600),
            (Some(60), 61, 60),
            (Some(7200), 3601, 3600),
        ] {
            let mut header = FirstSent::header(NAME);
            if let Some(window) = window {
                header = header.with_window(Duration::from_secs(window));
            }
            assert!(header.is_over(at(100_000 - over), now, hour));
            assert!(!header.is_over(at(100_000 - within), now, hour));
        }
    }

    #[test]
    fn a_clock_may_be_five_minutes_ahead() {
        assert_eq!(FirstSent::check(at(300), at(0)), Ok(()));
        assert_eq!(FirstSent::check(at(301), at(0)), Err(KeyError::Future));
        assert_eq!(FirstSent::check(at(0), at(301)), Ok(()));
    }

    #[test]
    fn a_date_is_read_and_anything_else_is_an_error() {
        let read = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(NAME, HeaderValue::from_static(value));
            FirstSent::header(NAME).read(&headers)
        };
        assert_eq!(
            read("Sun, 06 Nov 1994 08:49:37 GMT"),
            Ok(Some(at(784_111_777)))
        );
        assert_eq!(read("1994-11-06T08:49:37Z"), Err(KeyError::NotADate));
        assert_eq!(FirstSent::header(NAME).read(&HeaderMap::new()), Ok(None));
    }
}
