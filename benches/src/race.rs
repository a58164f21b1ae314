//! [`race`]: contenders take turns.

use idem_core::BoxError;

use crate::{Contender, Plan, Standings};

/// In which order `contenders` take their turns: each begins as often as any other.
fn order(contenders: usize, repetition: usize) -> impl Iterator<Item = usize> {
    (0..contenders).map(move |place| (place + repetition) % contenders)
}

/// Lets the contenders of a group take turns, `ABC BCA CAB …`, after a round each that does not count. So whatever else
/// the machine does meets all of them alike, and what is compared was measured within moments.
///
/// A round that fails counts for nothing; a line on standard error says so.
///
/// # Errors
///
/// That of the last round of a contender that had not one that counts.
pub async fn race(
    contenders: &[&dyn Contender],
    callers: usize,
    plan: &Plan,
) -> Result<Standings, BoxError> {
    for contender in contenders {
        contender.round(callers, plan.warm_up).await?;
    }
    let names = contenders
        .iter()
        .map(|contender| contender.name().to_owned());
    let mut standings = Standings::new(names.collect());
    let mut failures: Vec<Option<BoxError>> = contenders.iter().map(|_| None).collect();
    for repetition in 0..plan.repetitions {
        for number in order(contenders.len(), repetition) {
            let contender = contenders[number];
            match contender.round(callers, plan.round).await {
                Ok(round) => standings.add(number, repetition, round),
                Err(error) => {
                    eprintln!("{}: a round failed: {error}", contender.name());
                    failures[number] = Some(error);
                }
            }
        }
    }
    for (number, failure) in failures.into_iter().enumerate() {
        match failure {
            Some(error) if standings.has_none(number) => return Err(error),
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

    /// Does so many operations in a second, and writes its name down.
    struct Fake(&'static str, u64, Log);

    #[async_trait]
    impl Contender for Fake {
        fn name(&self) -> &str {
            self.0
        }

        async fn round(&self, _: usize, length: Duration) -> Result<Round, BoxError> {
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
