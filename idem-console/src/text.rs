//! Texts for people: keys that may hold anything, sizes, instants.

use std::time::Duration;

use askama::Template;
use idem_core::Timestamp;

/// A text that strangers may have chosen, shown so that it cannot pass for another: invisible
/// characters, and those that turn the direction of others, appear by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Template)]
#[template(
    ext = "html",
    source = r#"<bdi class="text">{% for part in parts %}{% if part.is_number %}<span class="char">{{ part.text }}</span>{% else %}{{ part.text }}{% endif %}{% endfor %}</bdi>"#
)]
pub(crate) struct Shown {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    text: String,
    is_number: bool,
}

impl Shown {
    pub(crate) fn new(text: &str) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        let chars: Vec<char> = text.chars().collect();
        for (at, &c) in chars.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| chars[at]);
            let after = chars.get(at + 1).copied();
            let is_number = is_hidden(c, before, after);
            let shown = match is_number {
                true => format!("U+{:04X}", u32::from(c)),
                false => c.to_string(),
            };
            match parts.last_mut() {
                Some(last) if !last.is_number && !is_number => last.text.push_str(&shown),
                _ => parts.push(Part {
                    text: shown,
                    is_number,
                }),
            }
        }
        Self { parts }
    }
}

fn is_hidden(c: char, before: Option<char>, after: Option<char>) -> bool {
    match c {
        // At an end, or beside another space, nobody would see it.
        ' ' => before.is_none_or(|c| c == ' ') || after.is_none_or(|c| c == ' '),
        // Within an emoji it joins two pictures; elsewhere it shows nothing.
        '\u{200D}' => {
            let is_picture =
                |c: Option<char>| c.is_some_and(|c| c > '\u{2000}' && !c.is_alphanumeric());
            !is_picture(before) || !is_picture(after)
        }
        '\u{00A0}'
        | '\u{00AD}'
        | '\u{034F}'
        | '\u{061C}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{17B4}'
        | '\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{2000}'..='\u{200F}'
        | '\u{2028}'..='\u{202F}'
        | '\u{205F}'..='\u{206F}'
        | '\u{3000}'
        | '\u{3164}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}'
        | '\u{E0000}'..='\u{E0FFF}' => true,
        c => c.is_control(),
    }
}

/// Returns a duration in its two largest units: `2 d 3 h`.
pub(crate) fn duration(duration: Duration) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = duration.as_secs();
    if seconds == 0 {
        return format!("{} ms", duration.as_millis());
    }
    let first = UNITS.iter().position(|(unit, _)| seconds >= *unit);
    let first = first.unwrap_or(UNITS.len() - 1);
    let mut left = seconds;
    let mut parts = Vec::new();
    for (unit, name) in UNITS.iter().skip(first).take(2) {
        if left / unit > 0 {
            parts.push(format!("{} {name}", left / unit));
        }
        left %= unit;
    }
    parts.join(" ")
}

/// Returns a number of bytes: `1.5 KiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Returns a number with commas: `12,345`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns an instant of the store's clock in UTC.
pub(crate) fn instant(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.as_micros()) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{} µs", at.as_micros()),
    }
}

/// Returns how far an instant is from the store's now: `in 5 s`, `5 s ago`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    match at > now {
        true => format!("in {}", duration(at.saturating_since(now))),
        false => format!("{} ago", duration(now.saturating_since(at))),
    }
}

/// Returns a rate per second.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 0.01 => "< 0.01".to_owned(),
        rate if rate < 10.0 => format!("{rate:.2}"),
        rate if rate < 100.0 => format!("{rate:.1}"),
        rate => count(rate.round() as u64),
    }
}

/// Returns a latency.
pub(crate) fn latency(seconds: f64) -> String {
    match seconds {
        s if s < 0.01 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s if s < 100.0 => format!("{s:.1} s"),
        // A page of metrics may say anything.
        s => Duration::try_from_secs_f64(s).map_or_else(|_| "?".to_owned(), duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_texts_are_harmless_and_visible() {
        let html = |text: &str| Shown::new(text).render().unwrap();
        let script = html("<script>alert(1)</script>");
        assert!(!script.contains("<script>"), "{script}");
        assert!(html("a\"b'c").find(['"']).is_some_and(|at| at < 12));
        let turned = html("gpj\u{202E}exe");
        assert!(
            turned.contains(r#"<span class="char">U+202E</span>"#),
            "{turned}"
        );
        assert!(!turned.contains('\u{202E}'));
        assert!(html("a ").contains("U+0020"));
        assert!(!html("a b").contains("U+0020"));
        assert!(html("a\u{200D}b").contains("U+200D"));
        assert!(!html("👩\u{200D}🚀").contains("U+200D"));
        assert!(html("a\nb").contains("U+000A"));
    }

    #[test]
    fn numbers_are_for_people() {
        let of = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!(of(183_600), "2 d 3 h");
        assert_eq!(of(60), "1 min");
        assert_eq!(of(59), "59 s");
        assert_eq!(of(86_460), "1 d");
        assert_eq!(duration(Duration::from_millis(5)), "5 ms");
        assert_eq!(
            (bytes(1023), bytes(1536)),
            ("1023 B".into(), "1.5 KiB".into())
        );
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
        assert_eq!(
            (count(0), count(999), count(12_345)),
            ("0".into(), "999".into(), "12,345".into())
        );
        assert_eq!(
            instant(Timestamp::from_micros(0)),
            "1970-01-01 00:00:00 UTC"
        );
        let (early, late) = (Timestamp::from_micros(0), Timestamp::from_micros(5_000_000));
        assert_eq!(relative(late, early), "in 5 s");
        assert_eq!(relative(early, late), "5 s ago");
        assert_eq!(
            (latency(0.0015), latency(2.5)),
            ("1.5 ms".into(), "2.5 s".into())
        );
        for absurd in [1e20, f64::INFINITY, f64::NAN, f64::MAX] {
            assert_eq!(latency(absurd), "?");
        }
    }
}
