//! [`Tree`]: a document of any form as JSON values, without a key given twice.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads a document.
#[derive(Clone, Copy)]
pub(super) struct Tree<'p> {
    /// The path of the key that is being read: of the failed key, if reading failed.
    pub(super) path: &'p RefCell<Vec<String>>,
    /// Reading fails at the key with this path: the parser then reports the position.
    pub(super) until: Option<&'p [String]>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, a list, a text, a number, or true or false")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("this is not a number"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = table.next_key_seed(NewKey {
            tree: self,
            entries: &entries,
        })? {
            let value = table.next_value_seed(self)?;
            self.path.borrow_mut().pop();
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

/// A key that must not exist yet.
struct NewKey<'t> {
    tree: Tree<'t>,
    entries: &'t Map<String, Value>,
}

impl<'de> DeserializeSeed<'de> for NewKey<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for NewKey<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text as key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        let mut path = self.tree.path.borrow_mut();
        path.push(key.to_owned());
        if self.tree.until == Some(&path[..]) {
            return Err(E::custom("found"));
        }
        if self.entries.contains_key(key) {
            return Err(E::custom(format_args!("the key `{key}` is given twice")));
        }
        Ok(key.to_owned())
    }
}
