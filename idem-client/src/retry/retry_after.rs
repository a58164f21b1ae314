//! `Retry-After` (RFC 9110, 10.2.3).

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

/// Returns how long the server wants a client to wait: seconds, or the time until an HTTP date. A
/// date counts from the answer's own `Date`, if it has one, so that a wrong clock here changes
/// nothing. `None` without a header that can be read.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    let date = headers.get(DATE).and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let now = date.unwrap_or_else(SystemTime::now);
    Some(until.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &str, date: Option<&str>) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, value.parse().unwrap());
        if let Some(date) = date {
            headers.insert(DATE, date.parse().unwrap());
        }
        retry_after(&headers)
    }

    #[test]
    fn seconds_and_dates_are_read() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let later = "Sun, 06 Nov 1994 08:50:07 GMT";
        for (value, date, expected) in [
            ("0", None, Some(0)),
            (" 120 ", None, Some(120)),
            ("99999999999999999999999", None, Some(u64::MAX)),
            (later, Some(date), Some(30)),
            (date, Some(later), Some(0)),
            (date, None, Some(0)),
            ("", None, None),
            ("soon", None, None),
            ("-1", None, None),
            ("1.5", None, None),
        ] {
            let expected = expected.map(Duration::from_secs);
            assert_eq!(parsed(value, date), expected, "{value}");
        }
    }

    #[test]
    fn a_date_without_the_server_s_own_counts_from_here() {
        let until = SystemTime::now() + Duration::from_secs(100);
        let after = parsed(&httpdate::fmt_http_date(until), None).unwrap();
        assert!((98..=100).contains(&after.as_secs()), "{after:?}");
    }
}
