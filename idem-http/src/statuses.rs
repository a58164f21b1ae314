//! [`Statuses`]: a set of HTTP statuses.

use std::fmt;
use std::ops::RangeInclusive;

use http::StatusCode;

/// A set of HTTP statuses whose responses are stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Statuses(Vec<RangeInclusive<u16>>);

impl Statuses {
    /// Creates an empty set.
    #[must_use]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Returns every status, including 5xx: all callers get the first response.
    #[must_use]
    pub fn all() -> Self {
        Self::none().with(0..=u16::MAX)
    }

    /// Adds statuses.
    #[must_use]
    pub fn with(mut self, statuses: RangeInclusive<u16>) -> Self {
        self.0.push(statuses);
        self
    }

    /// Removes statuses.
    #[must_use]
    pub fn without(self, statuses: RangeInclusive<u16>) -> Self {
        let (first, last) = statuses.into_inner();
        if first > last {
            return self;
        }
        let mut left = Self::none();
        for range in self.0 {
            let (start, end) = range.into_inner();
            if let Some(before) = first.checked_sub(1) {
                left.0.push(start..=end.min(before));
            }
            if let Some(after) = last.checked_add(1) {
                left.0.push(start.max(after)..=end);
            }
        }
        left.0.retain(|range| !range.is_empty());
        left
    }

    /// Returns whether the set contains the status.
    #[must_use]
    pub fn contains(&self, status: StatusCode) -> bool {
        self.0.iter().any(|range| range.contains(&status.as_u16()))
    }
}

/// Returns 2xx to 4xx, except `429`: a retry after `429` or a 5xx may succeed.
impl Default for Statuses {
    fn default() -> Self {
        Self::none().with(200..=499).without(429..=429)
    }
}

impl fmt::Debug for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(statuses: &Statuses, status: u16) -> bool {
        statuses.contains(StatusCode::from_u16(status).unwrap())
    }

    #[test]
    fn the_default_keeps_2xx_to_4xx_except_429() {
        let statuses = Statuses::default();
        for kept in [200, 201, 204, 303, 400, 404, 409, 428, 430, 499] {
            assert!(has(&statuses, kept), "{kept}");
        }
        for released in [100, 101, 429, 500, 503, 599] {
            assert!(!has(&statuses, released), "{released}");
        }
    }

    #[test]
    fn statuses_are_added_and_taken_away() {
        let statuses = Statuses::all().without(500..=599).with(501..=501);
        assert!(has(&statuses, 501) && has(&statuses, 499) && has(&statuses, 600));
        assert!(!has(&statuses, 500) && !has(&statuses, 599));
        let turned_round = std::ops::RangeInclusive::new(9, 3);
        assert_eq!(Statuses::all().without(turned_round), Statuses::all());
        assert_eq!(Statuses::all().without(0..=u16::MAX), Statuses::none());
    }
}
