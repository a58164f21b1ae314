//! [`Pointer`]: the position of an event's key.

use std::collections::HashMap;
use std::str::FromStr;

use serde_json::value::RawValue;

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
