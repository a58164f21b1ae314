//! [`Audit`]: whether every effect happened exactly once, and every answer was true.

use std::mem;

use idem_core::Fingerprint;
use serde::Serialize;

use super::backend::Entry;
use super::plan::{Plan, Workload};
use super::protocol::Outcome;
use super::tally::Answer;

/// The maximum number of effects of one key that are shown.
const SHOWN: usize = 3;

/// The result of ledger and answers together.
#[derive(Debug)]
pub(crate) struct Audit {
    /// Rows of the ledger.
    pub(crate) effects: u64,
    /// How often a claim was taken over from a dead worker.
    pub(crate) takeovers: u64,
    /// The keys at fault, in the order of the requests.
    pub(crate) violations: Vec<Violation>,
}

/// A key at fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Violation {
    pub(crate) key: String,
    pub(crate) reason: String,
    /// The first few of its effects.
    #[serde(rename = "effects")]
    pub(crate) rows: Vec<Entry>,
}

/// A request's entry in the ledger.
#[derive(Debug)]
struct Truth {
    /// The payload that had the effect.
    variant: u32,
    receipt: Fingerprint,
    /// Whether a delivery was answered as the first.
    has_first: bool,
}

impl Truth {
    /// Returns what is wrong with the answer to a delivery.
    fn lie(&mut self, variant: u32, answer: Option<Answer>) -> Option<&'static str> {
        let is_same = variant == self.variant;
        let Some(answer) = answer else {
            return Some("was not answered");
        };
        match answer.outcome {
            Outcome::Conflict if is_same => {
                Some("was refused, with the payload that had the effect")
            }
            Outcome::Conflict => None,
            _ if !is_same => {
                Some("was accepted, with another payload than the one that had the effect")
            }
            _ if answer.receipt != self.receipt => Some("got an answer that is not that effect's"),
            Outcome::Fresh if mem::replace(&mut self.has_first, true) => {
                Some("was answered as the first again")
            }
            _ => None,
        }
    }
}

/// Compares the ledger with the plan and the answers. It is exact, whichever payload won:
///
/// * every request has one row, of a payload that was sent under its key;
/// * every delivery of that payload was answered with the receipt of that row, byte for byte;
/// * every delivery of another payload under that key was refused as a conflict.
pub(crate) fn audit(
    workload: &Workload,
    plan: &Plan,
    ledger: &[Entry],
    answers: &[Option<Answer>],
) -> Audit {
    let mut rows: Vec<Vec<&Entry>> = vec![Vec::new(); workload.keys.len()];
    let mut violations = Vec::new();
    for entry in ledger {
        match workload.request(&entry.key) {
            Some(request) => rows[request as usize].push(entry),
            None => violations.push(Violation {
                key: entry.key.clone(),
                reason: "has an effect and was never sent".to_owned(),
                rows: vec![entry.clone()],
            }),
        }
    }
    let mut truths: Vec<Result<Truth, String>> = (0..)
        .zip(&rows)
        .map(|(request, rows)| truth(workload, request, rows))
        .collect();
    for ((number, delivery), answer) in (0_u32..).zip(&plan.deliveries).zip(answers) {
        let request = workload.variants[delivery.variant as usize].request as usize;
        if let Ok(truth) = &mut truths[request]
            && let Some(lie) = truth.lie(delivery.variant, *answer)
        {
            truths[request] = Err(format!("one effect, but delivery {number} {lie}"));
        }
    }
    for ((key, rows), truth) in workload.keys.iter().zip(&rows).zip(truths) {
        if let Err(reason) = truth {
            violations.push(Violation {
                key: key.clone(),
                reason,
                rows: rows.iter().take(SHOWN).copied().cloned().collect(),
            });
        }
    }
    let attempts = |rows: &Vec<&Entry>| rows.iter().map(|entry| entry.attempts.max(1)).max();
    Audit {
        effects: ledger.len() as u64,
        takeovers: rows
            .iter()
            .filter_map(attempts)
            .map(|attempts| attempts.unsigned_abs() - 1)
            .sum(),
        violations,
    }
}

/// Returns the one row of a request, or the error in its rows.
fn truth(workload: &Workload, request: u32, rows: &[&Entry]) -> Result<Truth, String> {
    match rows {
        [] => Err("no effect".to_owned()),
        [row] => match workload.find(request, &row.fingerprint) {
            Some(variant) => Ok(Truth {
                variant,
                receipt: Fingerprint::raw(row.receipt()),
                has_first: false,
            }),
            None => Err("the effect of a payload that was never sent".to_owned()),
        },
        rows => Err(format!("{} effects: {}", rows.len(), explain(rows))),
    }
}

/// Names the writers of the first few rows.
fn explain(rows: &[&Entry]) -> String {
    let mut writers: Vec<String> = rows
        .iter()
        .take(SHOWN)
        .map(|row| match row.token {
            0 => format!("no claim (process {})", row.worker),
            _ => format!("attempt {} (process {})", row.attempts, row.worker),
        })
        .collect();
    if rows.len() > SHOWN {
        writers.push("…".to_owned());
    }
    writers.join(", ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::Args;
    use super::super::plan::payments;
    use super::*;

    struct World {
        workload: Workload,
        plan: Plan,
        ledger: Vec<Entry>,
        answers: Vec<Option<Answer>>,
    }

    /// Ten requests of two payloads each, the first delivery of each wins.
    fn honest() -> World {
        let args = Args::parse_from(["storm", "--conflict-rate", "0.5"]);
        let mut workload = payments(10, 1).unwrap();
        let plan = Plan::draw(&mut workload, &args, 1);
        let mut world = World {
            ledger: Vec::new(),
            answers: Vec::new(),
            workload,
            plan,
        };
        for (number, delivery) in (0..).zip(&world.plan.deliveries) {
            let variant = &world.workload.variants[delivery.variant as usize];
            let key = &world.workload.keys[variant.request as usize];
            let fingerprint = variant.fingerprint.to_string();
            let winner = world.ledger.iter().find(|entry| entry.key == *key);
            let outcome = match winner {
                None => Outcome::Fresh,
                Some(winner) if winner.fingerprint == fingerprint => Outcome::Replay,
                Some(_) => Outcome::Conflict,
            };
            let entry = winner.cloned().unwrap_or_else(|| Entry {
                key: key.clone(),
                fingerprint,
                token: i64::from(number) + 1,
                attempts: 1,
                delivery: i64::from(number),
                worker: "0.0".to_owned(),
            });
            let receipt = Fingerprint::raw(entry.receipt());
            world.answers.push(Some(Answer { outcome, receipt }));
            if outcome == Outcome::Fresh {
                world.ledger.push(entry);
            }
        }
        world
    }

    fn faults(world: &World) -> Vec<Violation> {
        audit(&world.workload, &world.plan, &world.ledger, &world.answers).violations
    }

    fn position(world: &World, outcome: Outcome) -> usize {
        let found = |answer: &Option<Answer>| answer.unwrap().outcome == outcome;
        world.answers.iter().position(found).unwrap()
    }

    #[test]
    fn honest_run_passes() {
        assert_eq!(faults(&honest()), []);
    }

    #[test]
    fn double_and_missing_effects_are_found() {
        let mut world = honest();
        let twice = Entry {
            attempts: 2,
            ..world.ledger[3].clone()
        };
        let missing = world.ledger.remove(0).key;
        world.ledger.push(twice.clone());
        let mut found = faults(&world);
        found.sort_by_key(|violation| violation.key != missing);
        assert_eq!(
            (&*found[0].key, &*found[0].reason),
            (&*missing, "no effect")
        );
        assert_eq!(found[1].key, twice.key);
        assert!(found[1].reason.starts_with("2 effects: "), "{found:?}");
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn foreign_effects_are_found() {
        let mut world = honest();
        world.ledger[0].fingerprint = Fingerprint::raw("foreign").to_string();
        world.ledger[1].key = "foreign".to_owned();
        assert_eq!(faults(&world).len(), 3, "one key has none, one is unknown");
    }

    #[test]
    fn every_lie_is_found() {
        for (outcome, reported) in [
            (Outcome::Replay, Outcome::Conflict),
            (Outcome::Conflict, Outcome::Replay),
            (Outcome::Replay, Outcome::Fresh),
        ] {
            let mut world = honest();
            let at = position(&world, outcome);
            world.answers[at].as_mut().unwrap().outcome = reported;
            assert_eq!(
                faults(&world).len(),
                1,
                "{outcome:?} reported as {reported:?}"
            );
        }
        let mut world = honest();
        let at = position(&world, Outcome::Replay);
        world.answers[at].as_mut().unwrap().receipt = Fingerprint::raw("other");
        world.answers[position(&honest(), Outcome::Conflict)] = None;
        assert!(!faults(&world).is_empty());
    }
}
