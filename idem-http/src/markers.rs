//! Names of headers, and [`Markers`]: those by which a client tells a replay from a first answer.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use idem_core::Timestamp;

use crate::seal::Unstored;

/// `Idempotency-Key`: the key, in a request.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `Idempotent-Replayed: true`, in a response made for an earlier request.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// `Idempotency-First-Answered`, in a replay: when the first response was stored, by the store's
/// clock, as an HTTP date.
pub const FIRST_ANSWERED: HeaderName = HeaderName::from_static("idempotency-first-answered");

/// The headers that the layer adds to answers of requests with a key.
///
/// Default: `Idempotent-Replayed: true` and `Idempotency-First-Answered` in replays, nothing in
/// others. A header of the handler's own with one of these names is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markers {
    replayed: Option<(HeaderName, HeaderValue)>,
    first_answered: Option<HeaderName>,
    key: Option<HeaderName>,
    result: Option<(HeaderName, HeaderValue, HeaderValue)>,
    unstored: Option<HeaderName>,
}

impl Markers {
    /// Adds no headers.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            replayed: None,
            first_answered: None,
            key: None,
            result: None,
            unstored: None,
        }
    }

    /// Adds this header to replays.
    #[must_use]
    pub fn with_replayed(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.replayed = Some((name, value));
        self
    }

    /// Adds the time of the first answer to replays, by the store's clock, as an HTTP date.
    #[must_use]
    pub fn with_first_answered(mut self, name: HeaderName) -> Self {
        self.first_answered = Some(name);
        self
    }

    /// Repeats the key, as the client wrote it, in every answer.
    #[must_use]
    pub fn with_key(mut self, name: HeaderName) -> Self {
        self.key = Some(name);
        self
    }

    /// Adds this header to every answer: one value when the request was or is handled, the other
    /// when it was refused.
    #[must_use]
    pub fn with_result(
        mut self,
        name: HeaderName,
        accepted: HeaderValue,
        rejected: HeaderValue,
    ) -> Self {
        self.result = Some((name, accepted, rejected));
        self
    }

    /// Adds this header to answers that are not stored, with the reason as a word such as `status`
    /// or `stream`: for debugging.
    #[must_use]
    pub fn with_unstored(mut self, name: HeaderName) -> Self {
        self.unstored = Some(name);
        self
    }

    /// Marks an answer that is not stored.
    pub(crate) fn mark_unstored(&self, headers: &mut HeaderMap, why: Unstored) {
        if let Some(name) = &self.unstored {
            headers.insert(name, HeaderValue::from_static(why.name()));
        }
    }

    /// Marks the handler's own answer.
    pub(crate) fn mark_first(&self, headers: &mut HeaderMap, sent: Option<&str>) {
        self.repeat_key(headers, sent);
        if let Some((name, accepted, _)) = &self.result {
            headers.insert(name, accepted.clone());
        }
    }

    pub(crate) fn mark_replayed(
        &self,
        headers: &mut HeaderMap,
        sent: Option<&str>,
        sealed_at: Timestamp,
    ) {
        self.mark_first(headers, sent);
        if let Some((name, value)) = &self.replayed {
            headers.insert(name, value.clone());
        }
        if let Some(name) = &self.first_answered
            && let Ok(date) = http_date(sealed_at).try_into()
        {
            headers.insert(name, date);
        }
    }

    pub(crate) fn mark_refused(&self, headers: &mut HeaderMap, sent: Option<&str>) {
        self.repeat_key(headers, sent);
        if let Some((name, _, rejected)) = &self.result {
            headers.insert(name, rejected.clone());
        }
    }

    fn repeat_key(&self, headers: &mut HeaderMap, sent: Option<&str>) {
        if let (Some(name), Some(sent)) = (&self.key, sent)
            && let Ok(value) = sent.try_into()
        {
            headers.insert(name, value);
        }
    }
}

impl Default for Markers {
    fn default() -> Self {
        Self::none()
            .with_replayed(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"))
            .with_first_answered(FIRST_ANSWERED)
    }
}

/// The end of the year 9999, after which HTTP has no dates.
const LAST: u64 = 253_402_300_799_000_000;

/// Returns the instant as an HTTP date; the first or last one when it is out of their range.
fn http_date(instant: Timestamp) -> String {
    let micros = u64::try_from(instant.as_micros())
        .unwrap_or_default()
        .min(LAST);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_http_dates() {
        for (seconds, expected) in [
            (-1, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (300_000_000_000, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            let instant = Timestamp::from_micros(seconds * 1_000_000);
            assert_eq!(http_date(instant), expected);
        }
    }
}
