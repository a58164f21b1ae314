//! [`Mask`]: a part of a JSON document to hide.

use serde_json::Value;

use crate::json::RawJson;

/// The text that replaces a masked value.
const MASKED: &str = "***";

/// The same as JSON.
const MASKED_JSON: &[u8] = b"\"***\"";

/// A JSON Pointer (RFC 6901) to masked values, with `*` for every element of an array and every
/// member of an object.
///
/// ```
/// use idem_core::wrappers::Mask;
///
/// let mut document = serde_json::json!({"cards": [{"number": "4242"}, {"number": "1881"}]});
/// Mask::new("/cards/*/number").apply(&mut document);
/// assert_eq!(document["cards"][1]["number"], "***");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask(Vec<String>);

impl Mask {
    /// Parses a pointer. One that does not begin with `/` is read as if it did: masking too much is
    /// safer than too little.
    #[must_use]
    pub fn new(pointer: &str) -> Self {
        let pointer = pointer
            .strip_prefix('/')
            .or((!pointer.is_empty()).then_some(pointer));
        let steps = pointer.into_iter().flat_map(|pointer| pointer.split('/'));
        Self(
            steps
                .map(|step| step.replace("~1", "/").replace("~0", "~"))
                .collect(),
        )
    }

    /// Masks the values that it points to, if they exist.
    pub fn apply(&self, document: &mut Value) {
        mask(document, &self.0);
    }
}

/// Returns the JSON text with the values that the masks point to replaced; `None` when there is no
/// such value, and an error when the text is not JSON.
pub(crate) fn masked_text(masks: &[Mask], text: &[u8]) -> Result<Option<Vec<u8>>, NotJson> {
    let document = RawJson::read(text).ok_or(NotJson)?;
    let mut found = Vec::new();
    for mask in masks {
        find(document, &mask.0, &mut found);
    }
    if found.is_empty() {
        return Ok(None);
    }
    // Each value is a part of the text. An outer one comes before those within it.
    let span = |value: RawJson<'_>| {
        let start = value.bytes().as_ptr().addr() - text.as_ptr().addr();
        start..start + value.bytes().len()
    };
    found.sort_by_key(|value| (span(*value).start, std::cmp::Reverse(span(*value).end)));
    let mut masked = Vec::with_capacity(text.len() + found.len() * MASKED_JSON.len());
    let mut end = 0;
    for span in found.into_iter().map(span) {
        if span.start >= end {
            masked.extend_from_slice(&text[end..span.start]);
            masked.extend_from_slice(MASKED_JSON);
            end = span.end;
        }
    }
    masked.extend_from_slice(&text[end..]);
    Ok(Some(masked))
}

/// A text is not JSON.
#[derive(Debug, PartialEq)]
pub(crate) struct NotJson;

/// Adds the values that the steps lead to, from this value on; repeated members too.
fn find<'t>(value: RawJson<'t>, steps: &[String], found: &mut Vec<RawJson<'t>>) {
    let Some((step, rest)) = steps.split_first() else {
        found.push(value);
        return;
    };
    for (name, member) in value.members() {
        if step == "*" || name.is_str(step) {
            find(member, rest, found);
        }
    }
    let at: Option<usize> = step.parse().ok();
    for (index, element) in value.elements().enumerate() {
        if step == "*" || at == Some(index) {
            find(element, rest, found);
        }
    }
}

fn mask(value: &mut Value, steps: &[String]) {
    let Some((step, rest)) = steps.split_first() else {
        *value = Value::from(MASKED);
        return;
    };
    match value {
        Value::Object(members) if step == "*" => {
            members.values_mut().for_each(|member| mask(member, rest));
        }
        Value::Object(members) => {
            if let Some(member) = members.get_mut(step) {
                mask(member, rest);
            }
        }
        Value::Array(elements) if step == "*" => {
            elements.iter_mut().for_each(|element| mask(element, rest));
        }
        Value::Array(elements) => {
            let element = step.parse().ok().and_then(|at: usize| elements.get_mut(at));
            if let Some(element) = element {
                mask(element, rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn masked(pointer: &str) -> Value {
        let mut document = json!({"card": {"number": "4242", "a/b~c": 1}, "cards": [{"number": "1"}, {"number": "2"}], "": 3});
        Mask::new(pointer).apply(&mut document);
        document
    }

    #[test]
    fn the_value_at_a_pointer_is_masked_and_nothing_else() {
        for (pointer, at) in [
            ("/card/number", "/card/number"),
            ("card/number", "/card/number"),
            ("/card", "/card"),
            ("/card/a~1b~0c", "/card/a~1b~0c"),
            ("/cards/1/number", "/cards/1/number"),
            ("/", "/"),
            ("", ""),
        ] {
            let mut expected = masked("/nowhere");
            *expected.pointer_mut(at).unwrap() = json!("***");
            assert_eq!(masked(pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn a_star_stands_for_every_element_and_member() {
        assert_eq!(
            masked("/cards/*/number")["cards"],
            json!([{"number": "***"}, {"number": "***"}])
        );
        assert_eq!(masked("/*/number")["card"]["number"], "***");
        assert_eq!(masked("/*")["cards"], "***");
    }

    #[test]
    fn a_pointer_to_nowhere_changes_nothing() {
        for pointer in [
            "/cards/7",
            "/card/number/x",
            "/cards/number",
            "/nowhere/at/all",
        ] {
            assert_eq!(masked(pointer), masked("/nowhere"), "{pointer}");
        }
    }

    #[test]
    fn a_text_keeps_every_byte_that_is_not_masked() {
        let text = r#" {"b" : 1.50, "t":"x\"y","a":[ {"t": {"u":1}} , {"n":123456789012345678901} ],"t":2}"#;
        let masked = |pointers: &[&str]| {
            let masks: Vec<_> = pointers.iter().copied().map(Mask::new).collect();
            let masked = masked_text(&masks, text.as_bytes()).unwrap();
            masked.map(|masked| String::from_utf8(masked).unwrap())
        };
        assert_eq!(
            masked(&["/t", "/a/*/t/u", "/a/0/t"]).unwrap(),
            r#" {"b" : 1.50, "t":"***","a":[ {"t": "***"} , {"n":123456789012345678901} ],"t":"***"}"#
        );
        assert_eq!(masked(&[""]).unwrap(), " \"***\"");
        assert_eq!(masked(&["/x", "/b/c", "/a/7", "/a/t"]), None);
        assert!(masked_text(&[Mask::new("/t")], b"<html>").is_err());
        assert!(masked_text(&[Mask::new("/t")], br#"{"t":1}{"t":2}"#).is_err());
    }

    #[test]
    fn a_text_and_a_document_are_masked_alike() {
        let document =
            json!({"a": {"*": [1, {"b": null}], "b/~": "x"}, "c": [[true]], "": {"": 7}});
        let text = document.to_string();
        for pointer in [
            "", "/", "//", "/a", "/a/*", "/a/*/1/b", "/a/b~1~0", "/c/0/0", "/c/*/*", "/*/*",
        ] {
            let mut expected = document.clone();
            let mask = Mask::new(pointer);
            mask.apply(&mut expected);
            let masked = masked_text(&[mask], text.as_bytes())
                .unwrap()
                .unwrap_or_else(|| text.clone().into_bytes());
            assert_eq!(
                serde_json::from_slice::<Value>(&masked).unwrap(),
                expected,
                "{pointer}"
            );
        }
    }
}
