//! [`Payload`]: an event of the file, and [`version`].

use std::path::Path;

use idem_core::BoxError;
use idem_webhooks::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

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

#[cfg(test)]
mod tests {
    use super::*;

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
