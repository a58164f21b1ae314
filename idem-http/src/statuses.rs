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

    /// Removes the client errors after which a retry may succeed: `401`, `407`, `408`, `421`, `423`,
    /// `425` and `429`. Most of them come from a layer in front of the work, which has not begun.
    #[must_use]
    pub fn without_transient(self) -> Self {
        let transient = [401, 407, 408, 421, 423, 425, 429].into_iter();
        transient.fold(self, |left, status| left.without(status..=status))
    }

    /// Returns whether the set contains the status.
    #[must_use]
    pub fn contains(&self, status: StatusCode) -> bool {
        self.0.iter().any(|range| range.contains(&status.as_u16()))
    }
}

/// Returns 2xx to 4xx, [except those](Statuses::without_transient) after which a retry may succeed.
impl Default for Statuses {
    fn default() -> Self {
        Self::none().with(200..=499).without_transient()
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
    fn the_default_keeps_2xx_to_final_4xx() {
        let statuses = Statuses::default();
        for kept in [200, 201, 204, 303, 400, 402, 403, 404, 409, 422, 428, 499] {
            assert!(has(&statuses, kept), "{kept}");
        }
        for released in [100, 101, 401, 407, 408, 421, 423, 425, 429, 500, 503, 599] {
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
