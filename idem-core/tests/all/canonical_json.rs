//! The canonical form against the vectors of RFC 8785 and against another implementation.

use std::collections::HashSet;
use std::time::Instant;

use idem_core::Fingerprint;
use idem_core::fingerprint::{MAX_JSON_DEPTH, canonical_json};
use proptest::prelude::*;
use serde_json::Value;

fn canonical(text: &str) -> String {
    canonical_json(text.as_bytes()).unwrap()
}

#[test]
fn published_vectors_are_reproduced() {
    for (input, output) in [
        (
            include_str!("../data/jcs/input/arrays.json"),
            include_str!("../data/jcs/output/arrays.json"),
        ),
        (
            include_str!("../data/jcs/input/french.json"),
            include_str!("../data/jcs/output/french.json"),
        ),
        (
            include_str!("../data/jcs/input/structures.json"),
            include_str!("../data/jcs/output/structures.json"),
        ),
    ] {
        assert_eq!(canonical(input), output);
    }
}

#[test]
fn names_are_sorted_by_utf16_code_units() {
    // RFC 8785, 3.2.3
    let text = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#;
    let order = [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ];
    let result = canonical(text);
    let places: Vec<_> = order
        .iter()
        .map(|name| result.find(name).unwrap())
        .collect();
    assert!(places.is_sorted(), "{result}");
}

#[test]
fn ways_to_write_one_value_have_one_fingerprint() {
    let of = |text: &str| Fingerprint::json(text).unwrap();
    assert_eq!(of(r#"{"a":1,"b":2}"#), of("{ \"b\" : 2.0 ,\n\"a\":1e0}"));
    assert_eq!(of(r#""\u0041\/""#), of(r#""A/""#));
    assert_eq!(of(r#""\u20ac""#), of(r#""€""#));
    assert_ne!(of(r#""é""#), of("\"e\u{301}\""), "text is not normalised");
    assert_ne!(of("9007199254740993"), of("9007199254740992"));
    assert_ne!(of("[1,2]"), of("[2,1]"));
}

#[test]
fn amounts_have_one_fingerprint_exactly_where_they_are_equal() {
    let of = |text: &&str| Fingerprint::json(text).unwrap();
    for same in [
        &["1", "1.0", "1.00", "1e0", "10E-1"][..],
        &["1.10", "1.1", "11e-1"],
        &["0", "-0", "0.0", "-0e-400"],
        &["1.0000000000000000010", "1000000000000000001e-18"],
    ] {
        assert!(same.iter().all(|text| of(text) == of(&same[0])), "{same:?}");
    }
    let different = [
        "1",
        "1.0000000000000001",
        "1.000000000000000001",
        "1.000000000000000002",
        "-1.000000000000000001",
        "0.1",
        "0.1000000000000000055511151231257827021181583404541015625",
        "9007199254740992",
        "9007199254740992.5",
        "0",
        "1e-400",
        "2e-400",
    ];
    let all: HashSet<_> = different.iter().map(of).collect();
    assert_eq!(all.len(), different.len());
}

#[test]
fn a_document_without_canonical_form_is_refused_with_its_position() {
    for (text, place) in [
        (r#"{"a":1,"b":{"c":1,"c":1}}"#, "byte 11"),
        (r#"{"a":1,"\u0061":2}"#, "byte 0"),
        (r#"["x","\ud800"]"#, "byte 5"),
        (r#"["\udc00\ud800"]"#, "byte 1"),
        (r#"{"\ud800":1}"#, "byte 0"),
        ("[1,]", "line 1, column 4"),
        ("{\"secret-name\":01}", "line 1"),
        ("", "line 1"),
        ("1 2", "line 1"),
        ("[1e99999999999999999999]", "byte 1"),
    ] {
        let error = canonical_json(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(place), "{text}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
    assert!(
        canonical_json(b"\"\xff\"")
            .unwrap_err()
            .to_string()
            .contains("byte 1")
    );
}

#[test]
fn nesting_is_limited_and_never_overflows_the_stack() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    assert_eq!(canonical(&nested(MAX_JSON_DEPTH)), nested(MAX_JSON_DEPTH));
    let error = canonical_json(nested(MAX_JSON_DEPTH + 1).as_bytes()).unwrap_err();
    assert!(
        error.to_string().contains("64 levels at byte 64"),
        "{error}"
    );
    assert!(canonical_json(nested(1_000_000).as_bytes()).is_err());
    let objects = ["{\"a\":".repeat(65), "1".into(), "}".repeat(65)].concat();
    assert!(canonical_json(objects.as_bytes()).is_err());
}

#[test]
fn the_time_does_not_grow_with_the_depth() {
    let numbers = ["1", &",1".repeat(10_000)].concat();
    let time = |depth: usize| {
        let text = ["[".repeat(depth), numbers.clone(), "]".repeat(depth)].concat();
        let once = || {
            let began = Instant::now();
            assert_eq!(canonical(&text), text);
            began.elapsed()
        };
        (0..5).map(|_| once()).min().unwrap()
    };
    let (flat, deep) = (time(1), time(MAX_JSON_DEPTH));
    assert!(deep < flat * 4, "{flat:?} {deep:?}");
}

#[test]
fn the_time_does_not_grow_with_the_length_of_another_name() {
    let mut names: Vec<_> = (0..100_000).map(|number| format!("{number:06}")).collect();
    // Not sorted, and with the long name where the sort of sorted names finds its first pivot.
    names.swap(99_998, 99_999);
    let (mut pivot, mut step) = (0, names.len());
    while step >= 8 {
        step /= 8;
        pivot += 4 * step;
    }
    let long = "x".repeat(1 << 20);
    let time = |in_name: &str, in_value: &str| {
        let member = |(at, name): (usize, &String)| match at == pivot {
            true => format!("\"{name}{in_name}\":\"{in_value}\""),
            false => format!("\"{name}\":0"),
        };
        let members: Vec<_> = names.iter().enumerate().map(member).collect();
        let text = format!("{{{}}}", members.join(","));
        let once = || {
            let began = Instant::now();
            assert_eq!(canonical(&text).len(), text.len());
            began.elapsed()
        };
        (0..3).map(|_| once()).min().unwrap()
    };
    let (short, long) = (time("", &long), time(&long, ""));
    assert!(long < short * 4, "{short:?} {long:?}");
}

/// A name of characters at the borders of the encodings.
fn name() -> impl Strategy<Value = String> {
    let borders = "aé\u{7ff}\u{800}\u{d7ff}\u{e000}\u{f000}\u{ffff}\u{10000}\u{10ffff}";
    let border = prop::sample::select(borders.chars().collect::<Vec<_>>());
    prop_oneof![
        prop::collection::vec(border, 0..5).prop_map(String::from_iter),
        any::<String>(),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_007_199_254_740_992_i64..=9_007_199_254_740_992).prop_map(Value::from),
        any::<f64>()
            .prop_filter("integers above 2^53 differ by design", |number| {
                number.is_finite() && number.abs() < 9e15
            })
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn names_are_in_the_order_of_utf16(names in prop::collection::hash_set(name(), 0..12)) {
        let object = |names: &[String]| {
            let quoted = names.iter().map(|name| serde_json::to_string(name).unwrap());
            let members: Vec<_> = quoted.map(|name| name + ":0").collect();
            format!("{{{}}}", members.join(","))
        };
        let mut names = Vec::from_iter(names);
        let text = object(&names);
        names.sort_by(|one, other| one.encode_utf16().cmp(other.encode_utf16()));
        prop_assert_eq!(canonical(&text), object(&names));
    }

    #[test]
    fn numbers_are_equal_exactly_where_their_values_are(
        digits in prop_oneof![1..1000_u128, 1..1_u128 << 64, 1..1_u128 << 120],
        exponent in prop_oneof![-30..30, -400..400],
        zeros in 0..4_usize,
    ) {
        let text = canonical(&format!("{digits}e{exponent}"));
        let (padding, moved) = ("0".repeat(zeros), exponent - zeros as i32);
        let places = digits.to_string().len() as i32 + exponent + zeros as i32;
        prop_assert_eq!(&canonical(&format!("{digits}{padding}e{moved}")), &text);
        prop_assert_eq!(&canonical(&format!("0.{padding}{digits}0E{places:+}")), &text);
        prop_assert_eq!(&canonical(&text), &text);
        prop_assert_ne!(canonical(&format!("{}e{exponent}", digits + 1)), text);
    }

    #[test]
    fn agrees_with_another_implementation(value in json()) {
        let text = serde_json::to_string(&value).unwrap();
        let theirs = serde_json_canonicalizer::to_string(&value).unwrap();
        prop_assert_eq!(canonical(&text), theirs);
    }

    #[test]
    fn canonical_text_is_a_fixed_point(value in json()) {
        let once = canonical(&serde_json::to_string_pretty(&value).unwrap());
        prop_assert_eq!(canonical(&once), once);
    }

    #[test]
    fn any_bytes_give_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = canonical_json(&bytes);
    }
}
