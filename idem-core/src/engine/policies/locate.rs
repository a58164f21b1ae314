//! [`Locate`]: where in a document a key is.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// Walks down to the key at the end of this path and fails there: the parser then reports the
/// position.
pub(super) struct Locate<'p>(pub(super) &'p [String]);

impl<'de> DeserializeSeed<'de> for Locate<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Locate<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<(), A::Error> {
        let Some((wanted, rest)) = self.0.split_first() else {
            return Err(A::Error::custom("found"));
        };
        let is_last = rest.is_empty();
        while let Some(is_here) = table.next_key_seed(Step { wanted, is_last })? {
            if is_here {
                table.next_value_seed(Locate(rest))?;
            } else {
                table.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// Whether a key is the wanted one; an error if it is the last one.
struct Step<'p> {
    wanted: &'p str,
    is_last: bool,
}

impl<'de> DeserializeSeed<'de> for Step<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Step<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text as key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<bool, E> {
        if key == self.wanted && self.is_last {
            return Err(E::custom("found"));
        }
        Ok(key == self.wanted)
    }
}
