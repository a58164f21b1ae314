//! [`Payload`]: an event of the file, its [`version`], and the [`audit`]: effects against answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use idem_core::BoxError;
use idem_storm::report::Report;
use idem_webhooks::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::sender::Tally;

/// An event of the file.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    /// The id, as GitHub gives one to each event: here made from the event's index in the file.
    pub(crate) id: String,
    /// The topic: `issues`, `push`, …
    pub(crate) topic: String,
    pub(crate) body: String,
}

/// Returns the version of the issue or pull request in a body: the time of its last change, in
/// digits.
pub(crate) fn version(body: &[u8]) -> Option<Version> {
    let sources: Sources = serde_json::from_slice(body).ok()?;
    let issue = sources.issue.map(|source| ("issue", source));
    let request = sources.pull_request.map(|source| ("pull_request", source));
    let (name, source) = issue.or(request)?;
    // 2019-05-15T15:20:18Z; all of GitHub's times are in UTC.
    let changed = source.updated_at?;
    let digits: String = changed.chars().filter(char::is_ascii_digit).collect();
    let source = format!("{name}/{}", source.id?);
    Some(Version::new(source, digits.parse().ok()?))
}

/// Objects with a state of their own and the time of its last change.
#[derive(Deserialize)]
struct Sources {
    issue: Option<Source>,
    pull_request: Option<Source>,
}

#[derive(Deserialize)]
struct Source {
    id: Option<u64>,
    updated_at: Option<String>,
}

#[derive(Deserialize)]
struct Line<'a> {
    event: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// Reads all events of the file.
pub(crate) fn read(file: &Path) -> Result<Vec<Payload>, BoxError> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    let payload = |(index, line)| {
        let line: Line<'_> = serde_json::from_str(line)
            .map_err(|error| format!("{name}, line {}: {error}", index + 1))?;
        Ok(Payload {
            id: format!("72d3162e-cc78-11e3-81ab-{index:012x}"),
            topic: line.event,
            body: line.payload.get().to_owned(),
        })
    };
    text.lines().enumerate().map(payload).collect()
}

/// The receiver's answer to an event that it refused because of its version.
const REFUSED: &str = "older than what was seen before, not handled";

/// Reports the errors; none if every event had one effect, or was refused because of a later one.
pub(crate) fn audit(report: &mut Report, events: &[Payload], effects: &[String], tally: &Tally) {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in effects {
        *times.entry(effect).or_default() += 1;
    }
    let refused = tally
        .acknowledged
        .iter()
        .filter(|(_, text)| text == REFUSED);
    let refused: BTreeSet<usize> = refused.map(|(event, _)| *event).collect();
    if tally.fooled > 0 {
        report.wrong(format!(
            "{} forged deliveries were not refused",
            tally.fooled
        ));
    }
    let handled = |event: &Payload| times.get(&*event.id).copied().unwrap_or(0);
    for (index, event) in events.iter().enumerate() {
        let id = &event.id;
        match (handled(event), refused.contains(&index)) {
            (1, false) => {}
            (0, true) if was_overtaken(events, event, handled) => {}
            (0, true) => report.wrong(format!("{id} was refused for no later one")),
            (times, true) => report.wrong(format!("{id} was refused, with {times} effects")),
            (times, false) => report.wrong(format!("{id} had {times} effects")),
        }
    }
    let known: BTreeSet<&str> = events.iter().map(|event| &*event.id).collect();
    for id in times.keys().filter(|id| !known.contains(*id)) {
        report.wrong(format!("{id} had an effect and was never sent"));
    }
}

/// Returns whether a later state of the same issue or pull request was handled.
fn was_overtaken(events: &[Payload], event: &Payload, handled: impl Fn(&Payload) -> usize) -> bool {
    let Some(own) = version(event.body.as_bytes()) else {
        return false;
    };
    let is_later = |other: &Payload| {
        let other = version(other.body.as_bytes());
        other.is_some_and(|it| it.source() == own.source() && it.number() > own.number())
    };
    events
        .iter()
        .any(|other| handled(other) == 1 && is_later(other))
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

    #[test]
    fn what_is_wrong_is_found() {
        let events = [event("a", 1), event("b", 2)];
        let returned = |index, text: &str| Tally {
            acknowledged: vec![(index, text.to_owned())],
            ..Tally::default()
        };
        let wrong = |effects: &[&str], tally: &Tally| {
            let mut report = Report::new("");
            let effects: Vec<String> = effects.iter().map(ToString::to_string).collect();
            audit(&mut report, &events, &effects, tally);
            report.to_string().matches("WRONG").count()
        };
        let none = Tally::default();
        assert_eq!(wrong(&["a", "b"], &none), 0);
        assert_eq!(wrong(&["b"], &returned(0, REFUSED)), 0);
        assert_eq!(wrong(&["b"], &returned(0, "handled")), 1, "lost");
        assert_eq!(wrong(&["a"], &returned(1, REFUSED)), 1, "not overtaken");
        assert_eq!(wrong(&["a", "b"], &returned(0, REFUSED)), 1);
        assert_eq!(wrong(&["a", "b", "a"], &none), 1, "twice");
        assert_eq!(wrong(&["a", "b", "c"], &none), 1, "foreign");
        let fooled = Tally { fooled: 1, ..none };
        assert_eq!(wrong(&["a", "b"], &fooled), 1);
    }

    #[test]
    fn a_version_is_the_time_of_the_last_change() {
        let body = br#"{"issue":{"id":7,"updated_at":"2019-05-15T15:20:18Z"}}"#;
        let expected = Version::new("issue/7", 20_190_515_152_018);
        assert_eq!(version(body), Some(expected));
        for none in [
            "{}",
            r#"{"issue":{"id":7}}"#,
            r#"{"issue":{"id":7,"updated_at":""}}"#,
            "no",
        ] {
            assert_eq!(version(none.as_bytes()), None, "{none}");
        }
    }
}
