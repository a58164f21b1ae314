//! [`Mask`]: a part of a JSON document to hide.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The text that replaces a masked value.
const MASKED: &str = "***";

/// The same as JSON.
const MASKED_JSON: &str = "\"***\"";

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
/// such value. All other bytes stay: white space, order, and the notation of numbers, which a parsed
/// document would lose. Of members with the same name, all are masked.
///
/// # Errors
///
/// Those of the parser, when the text is not JSON.
pub(crate) fn masked_text(masks: &[Mask], text: &str) -> serde_json::Result<Option<String>> {
    let document: &RawValue = serde_json::from_str(text)?;
    let mut spans = Vec::new();
    for mask in masks {
        find(document.get(), text, &mask.0, &mut spans)?;
    }
    if spans.is_empty() {
        return Ok(None);
    }
    // An outer span comes before those within it.
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut masked = String::with_capacity(text.len() + spans.len() * MASKED_JSON.len());
    let mut end = 0;
    for span in spans.into_iter().filter(|span| !span.is_empty()) {
        if span.start >= end {
            masked.push_str(&text[end..span.start]);
            masked.push_str(MASKED_JSON);
            end = span.end;
        }
    }
    masked.push_str(&text[end..]);
    Ok(Some(masked))
}

/// Adds the places in the text of the values that the steps lead to, from this value on.
fn find(
    value: &str,
    text: &str,
    steps: &[String],
    spans: &mut Vec<Range<usize>>,
) -> serde_json::Result<()> {
    let Some((step, rest)) = steps.split_first() else {
        // The value is a part of the text.
        let start = value.as_ptr().addr() - text.as_ptr().addr();
        spans.push(start..start + value.len());
        return Ok(());
    };
    match value.as_bytes().first() {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(value)?;
            for (name, member) in members {
                if step == "*" || *step == name {
                    find(member.get(), text, rest, spans)?;
                }
            }
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(value)?;
            let chosen = match step.as_str() {
                "*" => &elements[..],
                step => {
                    let at = step.parse().ok();
                    let at = at.and_then(|at: usize| elements.get(at..at.checked_add(1)?));
                    at.unwrap_or_default()
                }
            };
            for element in chosen {
                find(element.get(), text, rest, spans)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// The members of an object in their order, repeated names too.
struct Members<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Collect)
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
            masked_text(&masks, text).unwrap()
        };
        assert_eq!(
            masked(&["/t", "/a/*/t/u", "/a/0/t"]).unwrap(),
            r#" {"b" : 1.50, "t":"***","a":[ {"t": "***"} , {"n":123456789012345678901} ],"t":"***"}"#
        );
        assert_eq!(masked(&[""]).unwrap(), " \"***\"");
        assert_eq!(masked(&["/x", "/b/c", "/a/7", "/a/t"]), None);
        assert!(masked_text(&[Mask::new("/t")], "<html>").is_err());
        assert!(masked_text(&[Mask::new("/t")], r#"{"t":1}{"t":2}"#).is_err());
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
            let masked = masked_text(&[mask], &text)
                .unwrap()
                .unwrap_or_else(|| text.clone());
            assert_eq!(
                serde_json::from_str::<Value>(&masked).unwrap(),
                expected,
                "{pointer}"
            );
        }
    }
}
