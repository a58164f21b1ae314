//! Real events: a file with one JSON object per line.

use std::fs::File;
use std::io::{Read, stdin};

use idem_core::fingerprint::canonical_json;
use idem_core::{BoxError, Fingerprint, Key};
use indicatif::HumanCount;
use serde_json::value::RawValue;

use super::args::Args;
use super::plan;
use super::pointer::Pointer;
use super::stop::{OrStop, Stop};
use super::workload::Workload;

/// The scope of all requests.
const SCOPE: &str = "storm";
/// The operation of all requests.
const OPERATION: &str = "storm.effect";
/// The maximum size of the input, which is held in memory, in bytes.
const MAX_INPUT: u64 = 1 << 30;

/// A usable line of input.
#[derive(Debug)]
pub(crate) struct Event {
    /// The id of its key.
    pub(crate) id: String,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) payload: Box<RawValue>,
}

impl Event {
    pub(crate) fn new(id: String, payload: &str) -> Result<Self, BoxError> {
        Ok(Self {
            id,
            fingerprint: Fingerprint::json(payload)?,
            payload: RawValue::from_string(payload.to_owned())?,
        })
    }
}

/// Returns the key with this id.
pub(crate) fn key(id: &str) -> Result<Key, idem_core::Error> {
    Key::new(SCOPE, OPERATION, id)
}

/// Reads all of `--input`.
pub(crate) fn read(input: &str, args: &Args) -> Result<Workload, Stop> {
    let (name, reader): (_, Box<dyn Read>) = match input {
        "-" => ("standard input".to_owned(), Box::new(stdin())),
        path => {
            let file = File::open(path).or_stop(format!("the input `{path}` cannot be opened"))?;
            (format!("`{path}`"), Box::new(file))
        }
    };
    let mut bytes = Vec::new();
    let read = reader.take(MAX_INPUT + 1).read_to_end(&mut bytes);
    if read.or_stop(format!("{name} cannot be read"))? as u64 > MAX_INPUT {
        let limit = HumanCount(MAX_INPUT);
        return Err(Stop::new(format!(
            "{name} has more than {limit} bytes; use a part of it"
        )));
    }
    let mut workload = Workload::default();
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        match event(line, args.key.as_ref()) {
            Ok(None) => {}
            Ok(Some(event)) => workload.add(event),
            Err(_) if args.skip_bad => workload.refused += 1,
            Err(reason) => {
                return Err(Stop::new(format!(
                    "{name}, line {number}: {reason} (--skip-bad goes on without such lines)"
                )));
            }
        }
    }
    plan::check_size(workload.lines.len() as u64, args)?;
    if workload.lines.is_empty() {
        return Err(empty(&name, &workload));
    }
    Ok(workload)
}

fn empty(name: &str, workload: &Workload) -> Stop {
    let found = match workload.refused {
        0 => "holds no events".to_owned(),
        refused => format!(
            "has no line that can be used ({} refused)",
            HumanCount(refused)
        ),
    };
    Stop::new(format!(
        "{name} {found}; at least one JSON object on a line of its own is needed"
    ))
}

/// Parses a line; `None` when it is blank.
fn event(line: &[u8], key_at: Option<&Pointer>) -> Result<Option<Event>, BoxError> {
    let text = std::str::from_utf8(line).map_err(|error| {
        let byte = error.valid_up_to() + 1;
        format!("byte {byte} is not UTF-8; save it as UTF-8")
    })?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(None);
    }
    check_object(text)?;
    let canonical = canonical_json(text.as_bytes())?;
    let key = match key_at {
        Some(pointer) => key(&pointer.id(serde_json::from_str(&canonical)?)?)?,
        None => Key::from_parts(SCOPE, OPERATION, [&canonical])?,
    };
    Event::new(key.id().to_owned(), text).map(Some)
}

fn check_object(text: &str) -> Result<(), String> {
    if let Err(error) = serde_json::from_str::<&RawValue>(text) {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or(&reason);
        let hint = match error.is_eof() {
            true => "; one object has to be on one line",
            false => "",
        };
        let column = error.column();
        return Err(format!("not JSON at column {column}: {reason}{hint}"));
    }
    match text.as_bytes().first() {
        Some(b'{') => Ok(()),
        Some(b'[') => {
            Err("an array, where an object is needed; `jq -c '.[]'` makes lines of it".to_owned())
        }
        _ => Err("not a JSON object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_systems_are_read() {
        let plain = event(b"{\"id\":1}\n", None).unwrap().unwrap();
        for line in ["{\"id\":1}\r\n", "\u{feff}{ \"id\" : 1.0 }", "  {\"id\":1}"] {
            let same = event(line.as_bytes(), None).unwrap().unwrap();
            assert_eq!((&same.id, same.fingerprint), (&plain.id, plain.fingerprint));
        }
        assert!(event(b"\r\n", None).unwrap().is_none());
    }

    #[test]
    fn bad_lines_have_reasons() {
        for (line, expected) in [
            (&b"{\"a\":"[..], "one object has to be on one line"),
            (b"hello", "not JSON at column 1"),
            (b"[{}]", "jq -c"),
            (b"7", "not a JSON object"),
            (b"{\"a\":1,\"a\":2}", "twice"),
            (b"\xff\xfe{", "byte 1 is not UTF-8"),
        ] {
            let error = event(line, None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let pointer = "/id".parse().unwrap();
        let long = format!("{{\"id\":\"{}\"}}", "x".repeat(256));
        let error = event(long.as_bytes(), Some(&pointer)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("256 bytes"), "{error}");
    }
}
