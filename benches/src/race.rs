//! [`race`]: contenders take turns.

use idem_core::BoxError;

use crate::standings::Standings;
use crate::{Contender, Length, Plan};

/// Returns the order of turns: each contender begins equally often.
fn order(contenders: usize, repetition: usize) -> impl Iterator<Item = usize> {
    (0..contenders).map(move |index| (index + repetition) % contenders)
}

/// Lets the contenders take turns, `ABC BCA CAB …`, after a round each that does not count. So a
/// disturbance of the machine affects all of them, and compared rounds are moments apart.
///
/// A round that fails does not count; a line on standard error says so.
///
/// # Errors
///
/// The last error of a contender without a round that counts.
pub(crate) async fn race(
    contenders: &[&dyn Contender],
    callers: usize,
    plan: &Plan,
) -> Result<Standings, BoxError> {
    for contender in contenders {
        contender.round(callers, Length::Time(plan.warm_up)).await?;
    }
    let mut standings = Standings::new(contenders.iter().map(|contender| contender.name()));
    let mut failures: Vec<Option<BoxError>> = contenders.iter().map(|_| None).collect();
    for repetition in 0..plan.repetitions {
        for index in order(contenders.len(), repetition) {
            let contender = contenders[index];
            let round = contender.round(callers, Length::Time(plan.round)).await;
            let round = round.map_err(|error| {
                eprintln!("{}: a round failed: {error}", contender.name());
                failures[index] = Some(error);
            });
            standings.add(index, round.ok());
        }
    }
    for (index, failure) in failures.into_iter().enumerate() {
        match failure {
            Some(error) if standings.has_none(index) => return Err(error),
            _ => {}
        }
    }
    Ok(standings)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use async_trait::async_trait;

    use super::*;
    use crate::Round;

    type Log = Arc<Mutex<String>>;

    /// Reports this many operations in a second, and logs its name.
    struct Fake(&'static str, u64, Log);

    #[async_trait]
    impl Contender for Fake {
        fn name(&self) -> &str {
            self.0
        }

        async fn round(&self, _: usize, length: Length) -> Result<Round, BoxError> {
            let length = length.time()?;
            self.2.lock().unwrap().push_str(self.0);
            if self.1 == 0 {
                return Err("tired".into());
            }
            Ok(Round {
                operations: self.1 * u64::try_from(length.as_millis()).unwrap() / 1000,
                elapsed: length,
                latencies: None,
            })
        }
    }

    fn plan() -> Plan {
        Plan {
            repetitions: 4,
            round: Duration::from_secs(2),
            warm_up: Duration::from_secs(1),
            quick: false,
        }
    }

    fn group(rates: [u64; 3], log: &Log) -> Vec<Fake> {
        let named = ["A", "B", "C"].into_iter().zip(rates);
        named
            .map(|(name, rate)| Fake(name, rate, Arc::clone(log)))
            .collect()
    }

    fn all(group: &[Fake]) -> Vec<&dyn Contender> {
        group.iter().map(|fake| fake as _).collect()
    }

    #[tokio::test]
    async fn contenders_take_turns_and_each_begins() {
        let log = Log::default();
        let group = group([300, 100, 50], &log);
        let standings = race(&all(&group), 1, &plan()).await.unwrap();
        assert_eq!(*log.lock().unwrap(), "ABCABCBCACABABC");
        assert_eq!(standings.ratio("A", "B").unwrap().median, 3.0);
        assert_eq!(standings.ratio("C", "B").unwrap().median, 0.5);
        assert_eq!(standings.figures("C").unwrap().per_second, 50.0);
    }

    #[tokio::test]
    async fn a_contender_without_a_round_that_counts_fails_the_race() {
        let group = group([1, 0, 1], &Log::default());
        let error = race(&all(&group), 1, &plan()).await;
        assert_eq!(error.unwrap_err().to_string(), "tired");
    }
}
