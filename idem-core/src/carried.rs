//! Checks that JSON carries a value: a stored value has to read back as it was.

use std::fmt::{self, Display};
use std::io;

use serde::de::DeserializeOwned;
use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};
use serde_json::Value;

use crate::{Error, Result};

/// Returns the value as JSON; `what` names it in the error.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it has no JSON form, or one that
/// `serde_json` writes and that reads back as something else: a number that is not finite, and a
/// `Some` of a value that is written as `null`.
pub(crate) fn to_json<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(value).map_err(|source| {
        Error::invalid_input(format!("{what} cannot be written as JSON")).with_source(source)
    })?;
    check(what, value)?;
    Ok(json)
}

/// Checks that `serde_json` writes the value in a form that reads back as the same value.
///
/// # Errors
///
/// As for [`to_json`].
pub(crate) fn check<T: Serialize + ?Sized>(what: &str, value: &T) -> Result<()> {
    let checked = value.serialize(Check { in_some: false });
    checked.map_err(|why| Error::invalid_input(format!("{what} {why}")))
}

/// Checks that this JSON, which was made of a `T`, reads back as an equal value. Equal values are
/// written alike, except for the order of members and elements: a `HashMap` and a `HashSet` have
/// another order each time.
///
/// # Errors
///
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it does not.
pub(crate) fn reads_back<T: Serialize + DeserializeOwned>(what: &str, json: &[u8]) -> Result<()> {
    let refused = |why: &str| Error::invalid_input(format!("{what} {why}"));
    let again: T = serde_json::from_slice(json).map_err(|source| {
        refused(
            "is written as JSON that cannot be read back as its type, so that no later caller \
             could get it; make the type's `Deserialize` read what its `Serialize` writes",
        )
        .with_source(source)
    })?;
    let mut compared = Comparing {
        left: json,
        is_equal: true,
    };
    let written = serde_json::to_writer(&mut compared, &again);
    if written.is_ok() && compared.is_equal && compared.left.is_empty() {
        return Ok(());
    }
    if written.is_ok() && is_reordered(json, &again) {
        return Ok(());
    }
    Err(refused(
        "reads back from its JSON as another value, so that later callers would get another one \
         than this; make the type's `Deserialize` the inverse of its `Serialize`",
    ))
}

fn is_reordered<T: Serialize>(json: &[u8], again: &T) -> bool {
    let Ok(again) = serde_json::to_vec(again) else {
        return false;
    };
    // Another order has as many bytes; of members with the same name, a parsed document keeps one.
    if json.len() != again.len() {
        return false;
    }
    let read = |json: &[u8]| serde_json::from_slice::<Value>(json).map(ordered);
    matches!((read(json), read(&again)), (Ok(one), Ok(two)) if one == two)
}

/// Returns the value with every array in an order that depends on its elements only.
fn ordered(value: Value) -> Value {
    match value {
        Value::Array(elements) => {
            let mut elements: Vec<_> = elements.into_iter().map(ordered).collect();
            elements.sort_by_cached_key(Value::to_string);
            Value::Array(elements)
        }
        Value::Object(members) => members
            .into_iter()
            .map(|(name, member)| (name, ordered(member)))
            .collect(),
        other => other,
    }
}

/// Compares the written bytes with the rest of the expected bytes, and keeps nothing.
struct Comparing<'b> {
    left: &'b [u8],
    is_equal: bool,
}

impl io::Write for Comparing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.left.strip_prefix(bytes) {
            Some(left) => self.left = left,
            None => self.is_equal = false,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A serializer that writes nothing. It refuses values that `serde_json` writes as `null` although
/// they are not nothing.
#[derive(Clone, Copy)]
struct Check {
    /// Whether the value is the content of a `Some`.
    in_some: bool,
}

/// A value that JSON does not carry.
#[derive(Debug)]
enum NotCarried {
    NotFinite,
    SomeOfNothing,
    /// The type's own `Serialize` refuses. It has not done so for `serde_json`, so this adds
    /// nothing.
    Unserializable,
}

impl Display for NotCarried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFinite => {
                "has a floating-point number that is not finite (an infinity or NaN), which JSON does not carry: it \
                 would be stored as `null`; give such a number as text, or `None` in its place"
            }
            Self::SomeOfNothing => {
                "has a `Some` of what JSON writes as `null`, such as `Some(None)` or `Some(())`, which would read back \
                 as `None`; give it an enum of its own"
            }
            Self::Unserializable => "cannot be written as JSON",
        })
    }
}

impl std::error::Error for NotCarried {}

impl ser::Error for NotCarried {
    fn custom<T: Display>(_message: T) -> Self {
        Self::Unserializable
    }
}

type Checked = std::result::Result<(), NotCarried>;

impl Check {
    /// The check of the content of this value.
    const WITHIN: Self = Self { in_some: false };

    fn null(self) -> Checked {
        if self.in_some {
            return Err(NotCarried::SomeOfNothing);
        }
        Ok(())
    }
}

/// Values that JSON always carries.
macro_rules! carried {
    ($($method:ident: $type:ty),+) => {
        $(fn $method(self, _value: $type) -> Checked {
            Ok(())
        })+
    };
}

/// Compound values, by their first call.
macro_rules! compound {
    ($($method:ident($($argument:ty),*) -> $compound:ident),+) => {
        $(fn $method(self, $(_: $argument),*) -> std::result::Result<Self::$compound, NotCarried> {
            Ok(Self::WITHIN)
        })+
    };
}

impl ser::Serializer for Check {
    type Ok = ();
    type Error = NotCarried;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    carried! {
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8]
    }

    compound! {
        serialize_seq(Option<usize>) -> SerializeSeq,
        serialize_tuple(usize) -> SerializeTuple,
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct,
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant,
        serialize_map(Option<usize>) -> SerializeMap,
        serialize_struct(&'static str, usize) -> SerializeStruct,
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant
    }

    fn serialize_f32(self, value: f32) -> Checked {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Checked {
        value.is_finite().then_some(()).ok_or(NotCarried::NotFinite)
    }

    fn serialize_none(self) -> Checked {
        self.null()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Checked {
        value.serialize(Self { in_some: true })
    }

    fn serialize_unit(self) -> Checked {
        self.null()
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Checked {
        self.null()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Checked {
        Ok(())
    }

    /// In JSON a newtype is its content.
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Checked {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        value: &T,
    ) -> Checked {
        value.serialize(Self::WITHIN)
    }

    fn collect_str<T: Display + ?Sized>(self, _value: &T) -> Checked {
        Ok(())
    }
}

/// The elements of a compound value.
macro_rules! elements {
    ($($compound:ident::$method:ident($($name:ty)?)),+) => {
        $(impl $compound for Check {
            type Ok = ();
            type Error = NotCarried;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $name,)? value: &T) -> Checked {
                value.serialize(Self::WITHIN)
            }

            fn end(self) -> Checked {
                Ok(())
            }
        })+
    };
}

elements! {
    SerializeSeq::serialize_element(),
    SerializeTuple::serialize_element(),
    SerializeTupleStruct::serialize_field(),
    SerializeTupleVariant::serialize_field(),
    SerializeStruct::serialize_field(&'static str),
    SerializeStructVariant::serialize_field(&'static str)
}

impl SerializeMap for Check {
    type Ok = ();
    type Error = NotCarried;

    /// `serde_json` itself refuses values that cannot name a member.
    fn serialize_key<T: Serialize + ?Sized>(&mut self, _key: &T) -> Checked {
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Checked {
        value.serialize(Self::WITHIN)
    }

    fn end(self) -> Checked {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;
    use crate::ErrorKind;

    fn stored<T: Serialize + DeserializeOwned>(value: &T) -> Result<()> {
        reads_back::<T>("the result", &to_json("the result", value)?)
    }

    fn refused<T: Serialize + DeserializeOwned>(value: &T, why: &str) {
        let error = stored(value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(why), "{error}");
    }

    #[derive(Serialize, Deserialize)]
    struct Unit;

    #[derive(Serialize, Deserialize)]
    struct Newtype<T>(T);

    #[derive(Serialize, Deserialize)]
    enum Choice {
        One(f64),
        Two { part: Option<Option<u8>> },
        Three,
    }

    #[test]
    fn numbers_that_are_not_finite_are_refused_wherever_they_are() {
        for number in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            refused(&number, "not finite");
            refused(&vec![1.0, number], "not finite");
            refused(&Some(number), "not finite");
            refused(&Newtype((1, number)), "not finite");
            refused(&Choice::One(number), "not finite");
            refused(&BTreeMap::from([("a".to_owned(), number)]), "not finite");
        }
        refused(&f32::NAN, "not finite");
    }

    #[test]
    fn a_some_that_reads_back_as_none_is_refused() {
        refused(&Some(None::<u8>), "`Some(None)`");
        refused(&Some(()), "`Some(None)`");
        refused(&Some(Unit), "`Some(None)`");
        refused(&Some(Newtype(None::<u8>)), "`Some(None)`");
        refused(&Some(Value::Null), "`Some(None)`");
        refused(&Choice::Two { part: Some(None) }, "`Some(None)`");
    }

    #[test]
    fn a_value_that_cannot_be_read_back_is_refused() {
        #[derive(Serialize, Deserialize)]
        struct Renamed {
            #[serde(rename(serialize = "a", deserialize = "b"))]
            part: u8,
        }
        refused(&Renamed { part: 1 }, "cannot be read back");

        let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
        refused(&deep, "cannot be read back");
    }

    #[test]
    fn a_value_that_reads_back_as_another_is_refused() {
        #[derive(Serialize, Deserialize)]
        struct Forgetful {
            #[serde(skip_deserializing)]
            part: u8,
        }
        refused(&Forgetful { part: 1 }, "another value");
        stored(&Forgetful { part: 0 }).unwrap();

        #[derive(Serialize, Deserialize, PartialEq, Eq, Hash)]
        #[serde(untagged)]
        enum Name {
            Number(u8),
            Text(String),
        }
        let twice = HashMap::from([(Name::Number(1), 7), (Name::Text("1".to_owned()), 7)]);
        refused(&twice, "another value");
    }

    #[test]
    fn a_value_that_json_carries_is_stored() {
        stored(&()).unwrap();
        stored(&None::<u8>).unwrap();
        stored(&Some(1)).unwrap();
        stored(&[Some(1), None]).unwrap();
        stored(&Choice::Three).unwrap();
        stored(&Some(Choice::Three)).unwrap();
        stored(&Some(Vec::<u8>::new())).unwrap();
        stored(&(
            f64::MAX,
            f64::MIN_POSITIVE,
            -0.0,
            0.1f32,
            u128::MAX,
            i128::MIN,
        ))
        .unwrap();
        stored(&json!({"a": null, "b": [1.5, "é\u{0}"]})).unwrap();
        stored(&HashMap::from([(1.5f32.to_bits(), 'a'), (2, 'b')])).unwrap();
    }

    #[test]
    fn collections_without_an_order_are_stored() {
        // Each map and set has an order of its own, and so does the one that is read back.
        for _ in 0..20 {
            let numbers: HashSet<u64> = (0..50).collect();
            let names: HashMap<String, HashSet<u64>> = (0..9)
                .map(|number| (number.to_string(), numbers.clone()))
                .collect();
            stored(&names).unwrap();
        }
    }

    proptest! {
        #[test]
        fn every_finite_number_is_stored(bits: u64, single: u32) {
            let (double, single) = (f64::from_bits(bits), f32::from_bits(single));
            if double.is_finite() && single.is_finite() {
                prop_assert!(stored(&(double, single, json!(double))).is_ok());
            }
        }
    }
}
