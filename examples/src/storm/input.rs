//! Real events: a file with one JSON object per line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};

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
/// The maximum size of a line, in bytes.
const MAX_LINE: u64 = 16 << 20;
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
    pub(crate) fn new(id: String, payload: String) -> Result<Self, BoxError> {
        Ok(Self {
            id,
            fingerprint: Fingerprint::json(&payload)?,
            payload: RawValue::from_string(payload)?,
        })
    }
}

/// Returns the key with this id.
pub(crate) fn key(id: &str) -> Result<Key, idem_core::Error> {
    Key::new(SCOPE, OPERATION, id)
}

/// Reads all of `--input`.
pub(crate) fn read(input: &str, args: &Args) -> Result<Workload, Stop> {
    let (name, mut reader) = open(input)?;
    let mut workload = Workload::default();
    let (mut bytes, mut total) = (Vec::new(), 0);
    for line in 1_u64.. {
        bytes.clear();
        let count = reader
            .by_ref()
            .take(MAX_LINE + 1)
            .read_until(b'\n', &mut bytes)
            .or_stop(format!("{name} cannot be read"))?;
        if count == 0 {
            break;
        }
        total += count as u64;
        check_size(&name, line, count as u64, total)?;
        match event(&bytes, args.key.as_ref()) {
            Ok(None) => {}
            Ok(Some(event)) => workload.add(event),
            Err(_) if args.skip_bad => workload.refused += 1,
            Err(reason) => {
                return Err(Stop::new(format!(
                    "{name}, line {line}: {reason} (--skip-bad goes on without such lines)"
                )));
            }
        }
        plan::check_size(workload.lines.len() as u64, args)?;
    }
    if workload.lines.is_empty() {
        return Err(empty(&name, &workload));
    }
    Ok(workload)
}

fn open(input: &str) -> Result<(String, Box<dyn BufRead>), Stop> {
    if input == "-" {
        return Ok(("standard input".to_owned(), Box::new(stdin().lock())));
    }
    let file = File::open(input).or_stop(format!("the input `{input}` cannot be opened"))?;
    Ok((format!("`{input}`"), Box::new(BufReader::new(file))))
}

fn check_size(name: &str, line: u64, bytes: u64, total: u64) -> Result<(), Stop> {
    let (what, limit) = match (bytes > MAX_LINE, total > MAX_INPUT) {
        (true, _) => ("has", MAX_LINE),
        (_, true) => ("brings the input to", MAX_INPUT),
        _ => return Ok(()),
    };
    Err(Stop::new(format!(
        "{name}, line {line} {what} more than {} bytes; use a part of it, with one JSON object a line",
        HumanCount(limit)
    )))
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
fn event(line: &[u8], key_at: Option<&Pointer>) -> Result<Option<Event>, String> {
    let text = std::str::from_utf8(line).map_err(|error| {
        format!(
            "byte {} is not UTF-8; save it as UTF-8",
            error.valid_up_to() + 1
        )
    })?;
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(None);
    }
    let payload = parse(text)?;
    let reason = |error: idem_core::Error| error.to_string();
    let canonical = canonical_json(text.as_bytes()).map_err(reason)?;
    let id = match key_at {
        Some(pointer) => {
            let canonical = RawValue::from_string(canonical.clone()).map_err(|e| e.to_string())?;
            pointer.id(&canonical)?
        }
        None => Key::from_parts(SCOPE, OPERATION, [&canonical])
            .map_err(reason)?
            .id()
            .to_owned(),
    };
    key(&id).map_err(reason)?;
    Ok(Some(Event {
        id,
        fingerprint: Fingerprint::json(canonical).map_err(reason)?,
        payload,
    }))
}

fn parse(text: &str) -> Result<Box<RawValue>, String> {
    let value = RawValue::from_string(text.to_owned()).map_err(|error| {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or(&reason);
        let hint = if error.is_eof() {
            "; one object has to be on one line"
        } else {
            ""
        };
        format!("not JSON at column {}: {reason}{hint}", error.column())
    })?;
    match text.as_bytes().first() {
        Some(b'{') => Ok(value),
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
            let error = event(line, None).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let pointer = "/id".parse().unwrap();
        let long = format!("{{\"id\":\"{}\"}}", "x".repeat(256));
        let error = event(long.as_bytes(), Some(&pointer)).unwrap_err();
        assert!(error.contains("256 bytes"), "{error}");
    }
}
