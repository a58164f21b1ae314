//! The audit: effects against answers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Payload, Tally};
use crate::effects::Effect;

/// The receiver's answer to an event that it refused because of its version.
const REFUSED: &str = "older than what was seen before, not handled";

/// Returns the errors, one line each; none if every event had one effect, or was refused because of
/// a later one.
#[must_use]
pub fn audit(events: &[Payload], effects: &[Effect], tally: &Tally) -> Vec<String> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in effects {
        *times.entry(&effect.id).or_default() += 1;
    }
    let refused: BTreeSet<usize> = tally
        .acknowledged
        .iter()
        .filter(|(_, text)| text == REFUSED)
        .map(|(event, _)| *event)
        .collect();
    let handled = |event: usize| times.get(events[event].id.as_str()).copied().unwrap_or(0);
    let mut wrong = Vec::new();
    if tally.fooled > 0 {
        wrong.push(format!(
            "{} forged deliveries were not refused",
            tally.fooled
        ));
    }
    for (index, event) in events.iter().enumerate() {
        match (handled(index), refused.contains(&index)) {
            (1, false) => {}
            (0, true) if was_overtaken(events, index, handled) => {}
            (0, true) => wrong.push(format!("{} was refused for no later one", event.id)),
            (times, true) => wrong.push(format!("{} was refused, with {times} effects", event.id)),
            (times, false) => wrong.push(format!("{} had {times} effects", event.id)),
        }
    }
    let known: BTreeSet<&str> = events.iter().map(|event| event.id.as_str()).collect();
    let foreign = times.keys().filter(|id| !known.contains(*id));
    wrong.extend(foreign.map(|id| format!("{id} had an effect and was never sent")));
    wrong
}

/// Returns whether a later state of the same issue or pull request was handled.
fn was_overtaken(events: &[Payload], index: usize, handled: impl Fn(usize) -> usize) -> bool {
    let Some(version) = Payload::version(events[index].body.as_bytes()) else {
        return false;
    };
    (0..events.len()).any(|other| {
        handled(other) == 1
            && Payload::version(events[other].body.as_bytes()).is_some_and(|later| {
                later.source() == version.source() && later.number() > version.number()
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, version: u64) -> Payload {
        Payload {
            id: id.to_owned(),
            topic: "issues".to_owned(),
            body: format!(r#"{{"issue":{{"id":1,"updated_at":"{version}"}}}}"#),
        }
    }

    fn effect(id: &str) -> Effect {
        Effect {
            id: id.to_owned(),
            note: String::new(),
            attempts: 1,
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        let events = [event("a", 1), event("b", 2)];
        let returned = |index, text: &str| Tally {
            acknowledged: vec![(index, text.to_owned())],
            ..Tally::default()
        };
        let wrong = |effects: &[Effect], tally: &Tally| audit(&events, effects, tally).len();
        assert_eq!(wrong(&[effect("a"), effect("b")], &Tally::default()), 0);
        assert_eq!(wrong(&[effect("b")], &returned(0, REFUSED)), 0);
        assert_eq!(wrong(&[effect("b")], &returned(0, "handled")), 1, "lost");
        assert_eq!(
            wrong(&[effect("a")], &returned(1, REFUSED)),
            1,
            "not overtaken"
        );
        assert_eq!(wrong(&[effect("a"), effect("b")], &returned(0, REFUSED)), 1);
        let twice = [effect("a"), effect("b"), effect("a")];
        assert_eq!(wrong(&twice, &Tally::default()), 1, "twice");
        let foreign = [effect("a"), effect("b"), effect("c")];
        assert_eq!(wrong(&foreign, &Tally::default()), 1, "foreign");
        let fooled = Tally {
            fooled: 1,
            ..Tally::default()
        };
        assert_eq!(wrong(&[effect("a"), effect("b")], &fooled), 1);
    }
}
