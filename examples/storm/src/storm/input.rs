//! Real events: a file with one JSON object per line, each with its key at a [`Pointer`].

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, stdin};
use std::str::FromStr;

use idem_core::fingerprint::canonical_json;
use idem_core::{BoxError, Fingerprint, Key};
use serde_json::value::RawValue;

use super::args::Args;
use super::plan::{self, Workload};
use super::stop::{OrStop, Stop};
use crate::report::Count;

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
        let limit = Count(MAX_INPUT);
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
        let found = match workload.refused {
            0 => "holds no events".to_owned(),
            refused => format!("has no line that can be used ({refused} refused)"),
        };
        return Err(Stop::new(format!(
            "{name} {found}; at least one JSON object on a line of its own is needed"
        )));
    }
    Ok(workload)
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

/// A JSON Pointer (RFC 6901).
///
/// It searches the text, not parsed values, so that a number keeps all of its digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer(String);

impl FromStr for Pointer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') {
            let example = format!("`/{text}`, or `/outer/inner`");
            return Err(format!("a JSON Pointer starts with a slash: {example}"));
        }
        let mut escapes = text.split('~').skip(1);
        if !escapes.all(|escape| escape.starts_with(['0', '1'])) {
            return Err("in a JSON Pointer `~` is written `~0` and a slash `~1`".to_owned());
        }
        Ok(Self(text.to_owned()))
    }
}

impl Pointer {
    /// Returns the string or number at this position of the document, as the id of a key. A number
    /// counts as its digits: `7` and `"7"` are one id.
    pub(crate) fn id(&self, document: &RawValue) -> Result<String, String> {
        let text = &self.0;
        let steps = text.split('/').skip(1);
        let mut steps = steps.map(|step| step.replace("~1", "/").replace("~0", "~"));
        let found = steps
            .try_fold(document, |value, step| member(value, &step))
            .ok_or_else(|| format!("there is nothing at `{text}`, where the key should be"))?
            .get();
        let kind = match found.as_bytes().first() {
            Some(b'"') => return serde_json::from_str(found).map_err(|error| error.to_string()),
            Some(b'-' | b'0'..=b'9') => return Ok(found.to_owned()),
            Some(b'{') => "an object",
            Some(b'[') => "an array",
            Some(b'n') => "null",
            _ => "a boolean",
        };
        Err(format!(
            "at `{text}` is {kind}; a key is a string or a number"
        ))
    }
}

fn member<'v>(value: &'v RawValue, step: &str) -> Option<&'v RawValue> {
    match value.get().as_bytes().first()? {
        b'{' => serde_json::from_str::<HashMap<String, &RawValue>>(value.get())
            .ok()?
            .remove(step),
        b'[' => {
            let index: usize = step.parse().ok()?;
            let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
            // An index has one form: no sign, no leading zero.
            let found = items.get(index).filter(|_| index.to_string() == step);
            found.copied()
        }
        _ => None,
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

    fn id(document: &str, pointer: &str) -> Result<String, String> {
        let document = RawValue::from_string(document.to_owned()).unwrap();
        pointer.parse::<Pointer>()?.id(&document)
    }

    #[test]
    fn ids_are_found() {
        let document = r#"{"a":{"b":[1,{"c":"x\u00e9"}]},"/":"slash","~1":"tilde","":0,"n":123456789012345678901}"#;
        for (pointer, expected) in [
            ("/a/b/0", "1"),
            ("/a/b/1/c", "xé"),
            ("/~1", "slash"),
            ("/~01", "tilde"),
            ("/", "0"),
            ("/n", "123456789012345678901"),
        ] {
            assert_eq!(id(document, pointer).as_deref(), Ok(expected), "{pointer}");
        }
    }

    #[test]
    fn what_is_no_id_is_named() {
        let document = r#"{"o":{},"a":[1],"n":null,"b":true}"#;
        for (pointer, expected) in [
            ("/o", "an object"),
            ("/a", "an array"),
            ("/n", "null"),
            ("/b", "a boolean"),
            ("/x", "nothing at `/x`"),
            ("/a/01", "nothing"),
            ("/a/1", "nothing"),
            ("/b/x", "nothing"),
        ] {
            let error = id(document, pointer).unwrap_err();
            assert!(error.contains(expected), "{pointer}: {error}");
        }
        assert!(id(document, "o").unwrap_err().contains("`/o`"));
        assert!(id(document, "/~2").is_err() && id(document, "/~").is_err());
    }
}
