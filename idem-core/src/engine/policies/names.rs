//! Names of keys: the known ones, and the one that was meant.

use serde::Deserialize;
use serde::de::value::Error as Stop;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

use super::super::Policy;

/// Returns the keys of a policy, as its own form has them.
pub(super) fn policy_keys() -> Vec<&'static str> {
    let mut names: &'static [&'static str] = &[];
    // Always ends in an error: nothing is read.
    let _ = Policy::deserialize(Listen(&mut names));
    names.to_vec()
}

/// Records which fields a struct has.
struct Listen<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Listen<'_> {
    type Error = Stop;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stop> {
        Err(Stop::custom("nothing is read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// Says that a key is not known, and which one was probably meant.
pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|known| (distance(name, known), *known))
        .min()
        .filter(|(distance, _)| *distance <= 2);
    match nearest {
        Some((_, known)) => format!("there is no {what} `{name}`; did you mean `{known}`?"),
        None => format!(
            "there is no {what} `{name}`; there are {}",
            known.join(", ")
        ),
    }
}

/// Returns how many characters have to be inserted, deleted or replaced.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (above, a) in from.chars().enumerate() {
        let mut diagonal = above;
        let mut left = above + 1;
        for (at, b) in to.chars().enumerate() {
            let changed = diagonal + usize::from(a != b);
            diagonal = row[at + 1];
            row[at] = left;
            left = changed.min(diagonal + 1).min(left + 1);
        }
        row[to.chars().count()] = left;
    }
    row[to.chars().count()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_those_of_the_policy() {
        let keys = policy_keys();
        for key in ["lease", "on_busy", "max_request_bytes", "metadata"] {
            assert!(keys.contains(&key), "{keys:?}");
        }
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        for (from, to, expected) in [
            ("lease", "lease", 0),
            ("leese", "lease", 1),
            ("leas", "lease", 1),
            ("eleases", "lease", 2),
            ("", "abc", 3),
            ("abc", "", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}
