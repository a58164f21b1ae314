use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a generator that counts operations, not time, was seen to do a second, by its number of connections: from
/// that it knows how many operations make a round.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<usize, f64>>);

/// How many operations make a first look at how fast it is here, for each connection and at least.
const FIRST: (usize, u64) = (8, 200);

impl Rates {
    pub(super) fn note(&self, connections: usize, rate: f64) {
        let mut rates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rates.insert(connections, rate);
    }

    /// How many operations take about so long; none if this was never seen.
    pub(super) fn operations(&self, connections: usize, length: Duration) -> Option<u64> {
        let rates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = rates.get(&connections)?;
        let operations = (rate * length.as_secs_f64()) as u64;
        Some(operations.max(connections as u64))
    }

    /// For a first look.
    pub(super) fn first(connections: usize) -> u64 {
        let (each, least) = FIRST;
        least.max((each * connections) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_connections_has_a_rate_of_its_own() {
        let rates = Rates::default();
        rates.note(1, 500.0);
        let half = Duration::from_millis(500);
        assert_eq!(rates.operations(1, half), Some(250));
        assert_eq!(rates.operations(64, half), None);
        rates.note(64, 8.0);
        // One each, at least.
        assert_eq!(rates.operations(64, half), Some(64));
        assert_eq!((Rates::first(1), Rates::first(64)), (200, 512));
    }
}
