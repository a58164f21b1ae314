//! [`Audit`]: whether every effect happened exactly once, and every answer was true.

use idem_core::Fingerprint;
use serde::Serialize;

use super::backend::Entry;
use super::plan::{Plan, key};
use super::protocol::{End, Outcome};

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

/// Compares the ledger with the plan and the answers. It is exact, whichever payload won:
///
/// * every request has one row, of a payload that was sent under its key;
/// * every delivery of that payload was answered with the receipt of that row, byte for byte;
/// * every delivery of another payload under that key was refused as a conflict.
pub(crate) fn audit(plan: &Plan, ledger: &[Entry], answers: &[Option<End>]) -> Audit {
    let mut requests = vec![(Vec::new(), Vec::new()); plan.payloads.len()];
    let mut violations = Vec::new();
    for entry in ledger {
        let number = entry
            .key
            .rsplit('-')
            .next()
            .and_then(|end| end.parse::<usize>().ok());
        let request = number.and_then(|number| number.checked_sub(1));
        match request.filter(|request| *request < requests.len()) {
            Some(request) => requests[request].0.push(entry),
            None => violations.push(Violation {
                key: entry.key.clone(),
                reason: "has an effect and was never sent".to_owned(),
                rows: vec![entry.clone()],
            }),
        }
    }
    for (number, delivery) in (0_u32..).zip(&plan.deliveries) {
        requests[delivery.request as usize].1.push(number);
    }
    let mut takeovers = 0;
    for (request, (rows, deliveries)) in (0..).zip(&requests) {
        let attempts = rows.iter().map(|row| row.attempts.unsigned_abs()).max();
        takeovers += attempts.unwrap_or(1).max(1) - 1;
        if let Some(reason) = fault(plan, rows, deliveries, answers) {
            violations.push(Violation {
                key: key(request),
                reason,
                rows: rows.iter().take(SHOWN).copied().cloned().collect(),
            });
        }
    }
    Audit {
        effects: ledger.len() as u64,
        takeovers,
        violations,
    }
}

/// Returns what is wrong with the rows of a request, or with the answers to its deliveries.
fn fault(
    plan: &Plan,
    rows: &[&Entry],
    deliveries: &[u32],
    answers: &[Option<End>],
) -> Option<String> {
    let row = match rows {
        [] => return Some("no effect".to_owned()),
        [row] => row,
        rows => return Some(format!("{} effects: {}", rows.len(), explain(rows))),
    };
    let sent = |number: u32| {
        let payload = plan.payload(&plan.deliveries[number as usize]);
        Fingerprint::json(payload)
            .map(|sent| sent.to_string())
            .unwrap_or_default()
    };
    if !deliveries
        .iter()
        .any(|&number| sent(number) == row.fingerprint)
    {
        return Some("the effect of a payload that was never sent".to_owned());
    }
    let (receipt, mut has_first) = (row.receipt(), false);
    for &number in deliveries {
        let is_same = sent(number) == row.fingerprint;
        let lie = match &answers[number as usize] {
            None => "was not answered",
            Some(End {
                outcome: Outcome::Conflict,
                ..
            }) if is_same => "was refused, with the payload that had the effect",
            Some(End {
                outcome: Outcome::Conflict,
                ..
            }) => continue,
            Some(_) if !is_same => {
                "was accepted, with another payload than the one that had the effect"
            }
            Some(end) if end.receipt != receipt => "got an answer that is not that effect's",
            Some(End {
                outcome: Outcome::Fresh,
                ..
            }) if has_first => "was answered as the first again",
            Some(end) => {
                has_first |= end.outcome == Outcome::Fresh;
                continue;
            }
        };
        return Some(format!("one effect, but delivery {number} {lie}"));
    }
    None
}

/// Names the writers of the first few rows.
fn explain(rows: &[&Entry]) -> String {
    let writer = |row: &&Entry| match row.token {
        0 => format!("no claim (process {})", row.worker),
        _ => format!("attempt {} (process {})", row.attempts, row.worker),
    };
    let mut writers: Vec<String> = rows.iter().take(SHOWN).map(writer).collect();
    if rows.len() > SHOWN {
        writers.push("…".to_owned());
    }
    writers.join(", ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::Args;
    use super::*;

    /// A plan, its ledger, and the answers to its deliveries.
    type World = (Plan, Vec<Entry>, Vec<Option<End>>);

    /// Ten requests of two payloads each, the first delivery of each wins.
    fn honest() -> World {
        let line = "storm --requests 10 --conflict-rate 0.5";
        let plan = Plan::draw(&Args::parse_from(line.split(' ')), 1);
        let (mut ledger, mut answers) = (Vec::<Entry>::new(), Vec::new());
        for (number, delivery) in (0..).zip(&plan.deliveries) {
            let fingerprint = Fingerprint::json(plan.payload(delivery))
                .unwrap()
                .to_string();
            let key = key(delivery.request);
            let winner = ledger.iter().find(|entry| entry.key == key).cloned();
            let outcome = match &winner {
                None => Outcome::Fresh,
                Some(winner) if winner.fingerprint == fingerprint => Outcome::Replay,
                Some(_) => Outcome::Conflict,
            };
            let entry = winner.unwrap_or_else(|| Entry {
                key,
                fingerprint,
                token: number + 1,
                attempts: 1,
                delivery: number,
                worker: "0.0".to_owned(),
            });
            answers.push(Some(End {
                outcome,
                waited: false,
                fenced: 0,
                receipt: entry.receipt(),
            }));
            if outcome == Outcome::Fresh {
                ledger.push(entry);
            }
        }
        (plan, ledger, answers)
    }

    fn faults((plan, ledger, answers): &World) -> Vec<Violation> {
        audit(plan, ledger, answers).violations
    }

    fn position(answers: &[Option<End>], outcome: Outcome) -> usize {
        let found = |answer: &Option<End>| answer.as_ref().unwrap().outcome == outcome;
        answers.iter().position(found).unwrap()
    }

    #[test]
    fn double_missing_and_foreign_effects_are_found() {
        let mut world = honest();
        assert_eq!(faults(&world), []);
        let twice = world.1[3].clone();
        let missing = world.1.remove(0).key;
        world.1.push(twice.clone());
        let mut found = faults(&world);
        found.sort_by_key(|violation| violation.key != missing);
        assert_eq!(found[0].reason, "no effect");
        assert_eq!((&found[0].key, &found[1].key), (&missing, &twice.key));
        assert!(found[1].reason.starts_with("2 effects: "), "{found:?}");
        assert_eq!(found.len(), 2);
        let mut world = honest();
        world.1[0].fingerprint = Fingerprint::raw("foreign").to_string();
        world.1[1].key = "foreign".to_owned();
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
            let at = position(&world.2, outcome);
            world.2[at].as_mut().unwrap().outcome = reported;
            let found = faults(&world);
            assert_eq!(found.len(), 1, "{outcome:?} reported as {reported:?}");
        }
        let mut world = honest();
        let at = position(&world.2, Outcome::Replay);
        world.2[at].as_mut().unwrap().receipt = "other".to_owned();
        assert_eq!(faults(&world).len(), 1);
        let mut world = honest();
        let at = position(&world.2, Outcome::Conflict);
        world.2[at] = None;
        assert_eq!(faults(&world).len(), 1);
    }
}
