//! [`Payload`]: an event of the file.

use std::path::Path;

use idem_core::BoxError;
use idem_webhooks::Version;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Objects with a state of their own and the time of its last change.
pub const SOURCES: [&str; 2] = ["issue", "pull_request"];

/// An event of the file.
#[derive(Debug, Clone)]
pub struct Payload {
    /// The id, as GitHub gives one to each event: here made from the event's index in the file.
    pub id: String,
    /// The topic: `issues`, `push`, …
    pub topic: String,
    /// The body.
    pub body: String,
}

#[derive(Deserialize)]
struct Line<'a> {
    event: String,
    #[serde(borrow)]
    payload: &'a RawValue,
}

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

/// Reads all events of the file.
///
/// # Errors
///
/// An error when the file cannot be read.
pub fn read(file: &Path) -> Result<Vec<Payload>, BoxError> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().enumerate();
    let payload = |(index, line)| {
        let line: Line<'_> = serde_json::from_str(line)
            .map_err(|error| format!("{}, line {}: {error}", file.display(), index + 1))?;
        Ok(Payload {
            id: format!("72d3162e-cc78-11e3-81ab-{index:012x}"),
            topic: line.event,
            body: line.payload.get().to_owned(),
        })
    };
    lines.map(payload).collect()
}

impl Payload {
    /// Returns the version of its issue or pull request: the time of the last change, in digits.
    #[must_use]
    pub fn version(body: &[u8]) -> Option<Version> {
        let sources: Sources = serde_json::from_slice(body).ok()?;
        let found = [sources.issue, sources.pull_request];
        let (name, source) = SOURCES
            .iter()
            .zip(found)
            .find_map(|(name, source)| source.map(|source| (name, source)))?;
        // 2019-05-15T15:20:18Z; all of GitHub's times are in UTC.
        let changed = source.updated_at?;
        let digits: String = changed.chars().filter(char::is_ascii_digit).collect();
        Some(Version::new(
            format!("{name}/{}", source.id?),
            digits.parse().ok()?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_time_of_the_last_change() {
        let body = br#"{"issue":{"id":7,"updated_at":"2019-05-15T15:20:18Z"}}"#;
        let expected = Version::new("issue/7", 20_190_515_152_018);
        assert_eq!(Payload::version(body), Some(expected));
        for none in [
            "{}",
            r#"{"issue":{"id":7}}"#,
            r#"{"issue":{"id":7,"updated_at":""}}"#,
            "no",
        ] {
            assert_eq!(Payload::version(none.as_bytes()), None, "{none}");
        }
    }
}
