//! Law 10: keys are equal only if their bytes are equal.

use idem_core::{ClaimOutcome, ClaimRequest, Fingerprint, Key, Response};

use crate::case::cases;
use crate::context::LONG;
use crate::expect::{self, named};
use crate::failure::{ensure, ensure_eq};
use crate::{CaseResult, Context};

cases! { law 10:
    case_counts,
    accents_count,
    composed_and_decomposed_forms_differ,
    spaces_at_the_end_count,
    spaces_at_the_start_and_inside_count,
    emoji_and_their_modifiers_count,
    direction_and_zero_width_characters_count,
    letters_that_only_look_or_sort_alike_differ: expensive,
    numbers_are_text,
    wildcards_quotes_and_backslashes_are_text: expensive,
    the_parts_of_a_key_are_not_joined,
    the_longest_keys_differ_in_their_last_byte,
}

fn fingerprint(key: &Key) -> Fingerprint {
    Fingerprint::raw(key.hashed())
}

/// Checks that each key is claimed, completed and read back independently of the others.
async fn are_strangers(cx: &Context, keys: &[Key]) -> CaseResult {
    let mut claims = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let record = cx.store().get(key).await?;
        ensure_eq!(record, None, "get of {} before its claim", named(at, key));
        let request = ClaimRequest::new(key.clone(), fingerprint(key)).with_lease(LONG);
        let outcome = cx.store().claim(&request).await?;
        let is_acquired = matches!(outcome, ClaimOutcome::Acquired(_));
        ensure!(is_acquired, "{}: {}", named(at, key), outcome.name());
        claims.extend(outcome.acquired());
    }
    for (at, claim) in claims.iter().enumerate().step_by(2) {
        cx.store()
            .complete(claim, &Response::new(200, at.to_string()), LONG)
            .await?;
    }
    let other = cx.open().await?;
    for (at, claim) in claims.iter().enumerate() {
        let key = claim.key();
        let record = expect::record(other.get(key).await?)?;
        let info = record.info();
        ensure_eq!(info.token, claim.token(), "token of {}", named(at, key));
        let written = fingerprint(key);
        ensure_eq!(
            info.fingerprint,
            written,
            "fingerprint of {}",
            named(at, key)
        );
        let body = record.response().map(|response| response.body().clone());
        let sealed = (at % 2 == 0).then(|| at.to_string().into());
        ensure_eq!(body, sealed, "response of {}", named(at, key));
    }
    for (at, claim) in claims.iter().enumerate().skip(1).step_by(2) {
        cx.store().release(claim).await?;
        let record = cx.store().get(claim.key()).await?;
        ensure_eq!(record, None, "{} after release", named(at, claim.key()));
    }
    for (at, claim) in claims.iter().enumerate().step_by(2) {
        let record = cx.store().get(claim.key()).await?;
        let name = || named(at, claim.key());
        ensure!(record.is_some(), "{} went with its neighbour", name());
    }
    Ok(())
}

/// Checks the texts as id, as scope and as operation.
async fn differ(cx: &Context, texts: &[&str]) -> CaseResult {
    let mut keys = Vec::new();
    for text in texts {
        keys.push(Key::new("scope", "operation", text)?);
    }
    for text in texts {
        keys.push(Key::new(text, "operation", "id")?);
    }
    for text in texts {
        keys.push(Key::new("scope", text, "id")?);
    }
    are_strangers(cx, &keys).await
}

async fn case_counts(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "Payment-a",
            "payment-a",
            "PAYMENT-A",
            "payment-A",
            "ÉTÉ",
            "été",
            "Ꭰ",
            "ꭰ",
        ],
    )
    .await
}

async fn accents_count(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "resume", "résume", "resumé", "résumé", "rèsumè", "ñ", "n", "ö", "o", "oe",
        ],
    )
    .await
}

async fn composed_and_decomposed_forms_differ(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "caf\u{e9}",
            "cafe\u{301}",
            "\u{c5}",
            "A\u{30a}",
            "\u{212b}",
            "\u{ac00}",
            "\u{1100}\u{1161}",
            "\u{fb01}",
            "fi",
            "\u{1e9b}\u{323}",
            "\u{1e69}",
        ],
    )
    .await
}

async fn spaces_at_the_end_count(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "id",
            "id ",
            "id  ",
            "id\u{a0}",
            "id\u{2003}",
            "id\u{3000}",
            " ",
            "  ",
        ],
    )
    .await
}

async fn spaces_at_the_start_and_inside_count(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "a b",
            " a b",
            "a  b",
            "ab",
            "a\u{a0}b",
            "a\u{2028}b",
            "a_b",
            "a-b",
        ],
    )
    .await
}

async fn emoji_and_their_modifiers_count(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "🦀",
            "🦞",
            "👍",
            "👍🏽",
            "👍🏿",
            "👩\u{200d}👩",
            "👩👩",
            "☺",
            "☺\u{fe0f}",
            "🇩🇪",
            "🇪🇩",
            "\u{1f600}",
            "\u{1f601}",
            "\u{10ffff}",
            "\u{fffd}",
        ],
    )
    .await
}

async fn direction_and_zero_width_characters_count(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "abc",
            "ab\u{200b}c",
            "abc\u{200d}",
            "\u{feff}abc",
            "\u{202e}abc",
            "\u{200f}abc",
            "a\u{ad}bc",
            "מזהה",
            "מזהה\u{200f}",
            "معرف",
            "مُعَرِّف",
        ],
    )
    .await
}

async fn letters_that_only_look_or_sort_alike_differ(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "strasse",
            "straße",
            "straſse",
            "I",
            "i",
            "ı",
            "İ",
            "a",
            "а",
            "ａ",
            "ª",
            "kelvin K",
            "kelvin \u{212a}",
            "か",
            "カ",
            "ｶ",
            "が",
            "か\u{3099}",
            "½",
            "1/2",
        ],
    )
    .await
}

async fn numbers_are_text(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "1", "01", "1.0", "1e0", "+1", "１", "0x1", "true", "null", "NULL", "NaN",
        ],
    )
    .await
}

async fn wildcards_quotes_and_backslashes_are_text(cx: &Context) -> CaseResult {
    differ(
        cx,
        &[
            "%",
            "_",
            "a%",
            "a_",
            "ab",
            "a\\",
            "a\\\\",
            "a\\_",
            "'",
            "''",
            "\"",
            "`",
            "a'b",
            "a''b",
            "*",
            "?",
            "[a]",
            "{a}",
            "$1",
            ":a",
            "@a",
            "a:b",
            "a/b",
            "a\u{fffe}",
        ],
    )
    .await
}

async fn the_parts_of_a_key_are_not_joined(cx: &Context) -> CaseResult {
    let parts = [
        ("ab", "c", "d"),
        ("a", "bc", "d"),
        ("a", "b", "cd"),
        ("abc", "d", "e"),
        ("a", "bcd", "e"),
        ("a:b", "c", "d"),
        ("a", "b:c", "d"),
        ("a", "b", "c:d"),
        ("a/b", "c", "d"),
        ("a", "b/c", "d"),
        ("a|b", "c", "d"),
        ("a", "b|c", "d"),
        ("a b", "c", "d"),
        ("a", "b c", "d"),
        ("1", "11", "1"),
        ("11", "1", "1"),
        ("1", "1", "11"),
        ("x", "y", "z"),
        ("y", "x", "z"),
        ("z", "y", "x"),
        ("x", "z", "y"),
    ];
    let keys = parts
        .iter()
        .map(|(scope, operation, id)| Key::new(scope, operation, id));
    are_strangers(cx, &keys.collect::<Result<Vec<_>, _>>()?).await
}

async fn the_longest_keys_differ_in_their_last_byte(cx: &Context) -> CaseResult {
    let long = |bytes: usize, last: &str| format!("{}{last}", "k".repeat(bytes - last.len()));
    let [scope, operation, id] = [
        Key::MAX_SCOPE_BYTES,
        Key::MAX_OPERATION_BYTES,
        Key::MAX_ID_BYTES,
    ];
    let mut keys = Vec::new();
    for (a, b, c) in [
        ("a", "a", "a"),
        ("a", "a", "b"),
        ("a", "b", "a"),
        ("b", "a", "a"),
        ("é", "é", "é"),
    ] {
        keys.push(Key::new(long(scope, a), long(operation, b), long(id, c))?);
    }
    // Four bytes each: more bytes than characters.
    keys.push(Key::new("🦀".repeat(63), "🦀".repeat(32), "🦀".repeat(63))?);
    keys.push(Key::new(
        long(scope, "a"),
        long(operation, "a"),
        long(id - 1, "a"),
    )?);
    are_strangers(cx, &keys).await
}
