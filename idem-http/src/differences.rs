//! How two JSON documents differ, within limits.

use serde_json::{Map, Value, json};

use crate::refusal::Differences;

/// Most operations of a patch.
const MAX_OPERATIONS: usize = 100;

/// Most bytes of a patch's paths and values.
const MAX_BYTES: usize = 16 << 10;

/// Compares two documents. The time grows with their sizes only, and nothing is written after the
/// limits.
pub(crate) fn between(first: &Value, this: &Value) -> Differences {
    let mut comparison = Comparison::default();
    comparison.compare(first, this);
    match comparison.places == comparison.operations.len() {
        true => Ok(comparison.operations.into()),
        false => Err(comparison.places),
    }
}

#[derive(Default)]
struct Comparison {
    /// The JSON Pointer (RFC 6901) of the values that are compared now.
    path: String,
    operations: Vec<Value>,
    bytes: usize,
    places: usize,
}

impl Comparison {
    fn compare(&mut self, first: &Value, this: &Value) {
        match (first, this) {
            (Value::Object(first), Value::Object(this)) => self.compare_objects(first, this),
            (Value::Array(first), Value::Array(this)) => {
                for (index, (first, this)) in first.iter().zip(this).enumerate() {
                    self.at(&index.to_string(), |inner| inner.compare(first, this));
                }
                // From the end, so that none moves the next one.
                for index in (this.len()..first.len()).rev() {
                    self.at(&index.to_string(), |inner| inner.note("remove", None));
                }
                for (index, value) in this.iter().enumerate().skip(first.len()) {
                    self.at(&index.to_string(), |inner| inner.note("add", Some(value)));
                }
            }
            _ if first == this => {}
            _ => self.note("replace", Some(this)),
        }
    }

    fn compare_objects(&mut self, first: &Map<String, Value>, this: &Map<String, Value>) {
        for (name, value) in first {
            self.at(name, |inner| match this.get(name) {
                Some(other) => inner.compare(value, other),
                None => inner.note("remove", None),
            });
        }
        for (name, value) in this {
            if !first.contains_key(name) {
                self.at(name, |inner| inner.note("add", Some(value)));
            }
        }
    }

    /// Goes on one level deeper.
    fn at(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
        let end = self.path.len();
        self.path.push('/');
        self.path
            .push_str(&name.replace('~', "~0").replace('/', "~1"));
        inside(self);
        self.path.truncate(end);
    }

    /// Notes a difference, while there is room.
    fn note(&mut self, operation: &str, value: Option<&Value>) {
        self.places += 1;
        if self.places > self.operations.len() + 1 {
            return;
        }
        let size = value.map_or(0, |value| value.to_string().len());
        self.bytes += self.path.len() + size;
        if self.bytes > MAX_BYTES || self.operations.len() == MAX_OPERATIONS {
            return;
        }
        let mut noted = json!({"op": operation, "path": self.path});
        if let Some(value) = value {
            noted["value"] = value.clone();
        }
        self.operations.push(noted);
    }
}
