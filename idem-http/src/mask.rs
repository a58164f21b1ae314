//! [`Mask`]: a part of a JSON document to hide.

use serde_json::Value;

/// The text that replaces a masked value.
const MASKED: &str = "***";

/// A JSON Pointer (RFC 6901) to masked values, with `*` for every element of an array and every
/// member of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mask(Vec<String>);

impl Mask {
    /// Parses a pointer. One that does not begin with `/` is read as if it did: masking too much is
    /// safer than too little.
    pub(crate) fn new(pointer: &str) -> Self {
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
    pub(crate) fn apply(&self, document: &mut Value) {
        mask(document, &self.0);
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
}
