//! The canonical form of JSON numbers.

use std::cmp::Ordering;

/// The magnitude from which a double no longer holds every integer: 2⁵³.
const EXACT: Decimal<'static> = Decimal {
    digits: Digits::Whole("9007199254740992"),
    exponent: 0,
};

/// Integers longer than this are written with an exponent instead of trailing zeros.
const MAX_TRAILING_ZEROS: i64 = 32;

/// Writes the number as RFC 8785, 3.2.2.3 requires (ECMAScript's shortest form of the double). The
/// exception is an integer above 2⁵³ in magnitude whose value a double cannot hold: that keeps its
/// digits.
///
/// Returns `None` for a number that is neither such an integer nor in the range of a double.
pub(super) fn write(text: &str, out: &mut String) -> Option<()> {
    if is_short_integer(text) {
        out.push_str(text);
        return Some(());
    }
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let exact = Decimal::parse(magnitude)?;
    let double: f64 = text.parse().ok()?;
    let mut buffer = ryu_js::Buffer::new();
    if double.is_finite() {
        let shortest = buffer.format_finite(double);
        let keep = exact.is_integer() && exact.cmp_value(&EXACT) == Ordering::Greater && {
            let held = Decimal::parse(shortest.trim_start_matches('-'))?;
            exact.cmp_value(&held) != Ordering::Equal
        };
        if !keep {
            out.push_str(shortest);
            return Some(());
        }
    } else if !exact.is_integer() {
        return None;
    }
    if negative {
        out.push('-');
    }
    exact.write(out);
    Some(())
}

/// Returns whether the number is its own canonical form: an integer of at most 15 digits, which a
/// double always holds, and not `-0`.
fn is_short_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() <= 15 && digits.bytes().all(|byte| byte.is_ascii_digit()) && text != "-0"
}

/// A decimal magnitude without leading or trailing zeros: `digits × 10^exponent`.
struct Decimal<'a> {
    digits: Digits<'a>,
    exponent: i64,
}

/// The significant digits of a literal, which a decimal point may cut in two.
enum Digits<'a> {
    Whole(&'a str),
    Joined(String),
}

impl Digits<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Whole(digits) => digits,
            Self::Joined(digits) => digits,
        }
    }
}

impl<'a> Decimal<'a> {
    /// Reads a number's text without its sign; `None` where the exponent is beyond all reason.
    fn parse(text: &'a str) -> Option<Self> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (digits, fraction) = match mantissa.split_once('.') {
            Some((whole, fraction)) => (
                Digits::Joined([whole, fraction].concat()),
                i64::try_from(fraction.len()).ok()?,
            ),
            None => (Digits::Whole(mantissa), 0),
        };
        let exponent = exponent.checked_sub(fraction)?;
        Self { digits, exponent }.stripped()
    }

    fn stripped(self) -> Option<Self> {
        let zeros = {
            let digits = self.digits.as_str();
            digits.len() - digits.trim_end_matches('0').len()
        };
        let digits = match self.digits {
            Digits::Whole(text) => {
                Digits::Whole(text[..text.len() - zeros].trim_start_matches('0'))
            }
            Digits::Joined(text) => Digits::Joined(
                text[..text.len() - zeros]
                    .trim_start_matches('0')
                    .to_owned(),
            ),
        };
        let exponent = self.exponent.checked_add(i64::try_from(zeros).ok()?)?;
        Some(Self { digits, exponent })
    }

    fn is_integer(&self) -> bool {
        self.exponent >= 0 || self.digits.as_str().is_empty()
    }

    /// Compares the values; the number of integer digits decides first, then the digits.
    fn cmp_value(&self, other: &Self) -> Ordering {
        let (mine, theirs) = (self.digits.as_str(), other.digits.as_str());
        match (mine.is_empty(), theirs.is_empty()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let size = |digits: &str, exponent: i64| (digits.len() as i64).saturating_add(exponent);
        size(mine, self.exponent)
            .cmp(&size(theirs, other.exponent))
            .then_with(|| mine.cmp(theirs))
    }

    fn write(&self, out: &mut String) {
        out.push_str(self.digits.as_str());
        if self.exponent <= MAX_TRAILING_ZEROS {
            out.extend(std::iter::repeat_n('0', self.exponent.max(0) as usize));
        } else {
            out.push_str(&format!("e+{}", self.exponent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Option<String> {
        let mut out = String::new();
        write(text, &mut out).map(|()| out)
    }

    #[test]
    fn doubles_are_written_as_ecmascript_does() {
        // RFC 8785, appendix B and 3.2.4
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("1.0", "1"),
            ("1", "1"),
            ("1e0", "1"),
            ("10E-1", "1"),
            ("333333333.33333329", "333333333.3333333"),
            ("1E30", "1e+30"),
            ("4.50", "4.5"),
            ("2e-3", "0.002"),
            ("0.000000000000000000000000001", "1e-27"),
            ("5e-324", "5e-324"),
            ("1e-400", "0"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("9007199254740992", "9007199254740992"),
            ("-9007199254740992", "-9007199254740992"),
            ("295147905179352830000", "295147905179352830000"),
            ("999999999999999700000", "999999999999999700000"),
            ("1e21", "1e+21"),
            ("1000000000000000000000", "1e+21"),
            ("1424953923781206.2", "1424953923781206.2"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn integers_that_a_double_cannot_hold_keep_their_digits() {
        for (text, expected) in [
            ("9007199254740993", "9007199254740993"),
            ("-9007199254740993", "-9007199254740993"),
            ("9007199254740993.0", "9007199254740993"),
            ("9007199254740993e0", "9007199254740993"),
            ("900719925474099300e-2", "9007199254740993"),
            ("18446744073709551615", "18446744073709551615"),
            ("90071992547409930000", "90071992547409930000"),
            (
                "340282366920938463463374607431768211455",
                "340282366920938463463374607431768211455",
            ),
            ("1e400", "1e+400"),
            ("10e399", "1e+400"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn neighbours_above_the_exact_range_never_fold() {
        let all: std::collections::BTreeSet<_> = (0..64u64)
            .map(|step| canonical(&(9_007_199_254_740_990 + step).to_string()))
            .collect();
        assert_eq!(all.len(), 64);
    }

    #[test]
    fn an_exponent_beyond_reason_is_refused() {
        assert_eq!(canonical("1e99999999999999999999"), None);
        assert_eq!(canonical("1e-9223372036854775808"), Some("0".into()));
    }
}
