//! The canonical form of JSON numbers.

/// Integers longer than this are written with an exponent instead of trailing zeros.
const MAX_TRAILING_ZEROS: i64 = 32;

/// Writes the number as RFC 8785, 3.2.2.3 requires (ECMAScript's shortest form of the double). The
/// exception is a number for which that form is another value: it keeps its digits. So two numbers
/// have one text exactly where they are equal.
///
/// Returns `None` for an exponent beyond 64 bits.
pub(super) fn write(text: &str, out: &mut String) -> Option<()> {
    if is_short_integer(text) {
        out.push_str(text);
        return Some(());
    }
    let magnitude = text.strip_prefix('-').unwrap_or(text);
    let exact = Decimal::parse(magnitude)?;
    let double: f64 = text.parse().ok()?;
    if double.is_finite() {
        let mut buffer = ryu_js::Buffer::new();
        let shortest = buffer.format_finite(double);
        if Decimal::parse(shortest.trim_start_matches('-'))?.is(&exact) {
            out.push_str(shortest);
            return Some(());
        }
    }
    if magnitude.len() < text.len() {
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

/// A decimal magnitude without leading or trailing zeros: the digits of both texts, which a decimal
/// point may have parted, times `10^exponent`.
struct Decimal<'a> {
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Reads a number's text without its sign; `None` where the exponent is beyond all reason.
    fn parse(text: &'a str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut whole = whole.trim_start_matches('0');
        let mut fraction = fraction.trim_end_matches('0');
        let mut shift = -i64::try_from(fraction.len()).ok()?;
        if fraction.is_empty() {
            let digits = whole.trim_end_matches('0');
            shift = i64::try_from(whole.len() - digits.len()).ok()?;
            whole = digits;
        } else if whole.is_empty() {
            fraction = fraction.trim_start_matches('0');
        }
        let exponent = exponent.parse::<i64>().ok()?.checked_add(shift)?;
        Some(Self {
            whole,
            fraction,
            exponent,
        })
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        self.whole.bytes().chain(self.fraction.bytes())
    }

    /// Returns whether the values are equal; a zero has no digits.
    fn is(&self, other: &Self) -> bool {
        self.digits().eq(other.digits())
            && (self.exponent == other.exponent || self.digits().next().is_none())
    }

    fn write(&self, out: &mut String) {
        out.push_str(self.whole);
        out.push_str(self.fraction);
        match self.exponent {
            zeros @ 0..=MAX_TRAILING_ZEROS => {
                out.extend(std::iter::repeat_n('0', zeros as usize));
            }
            exponent => out.push_str(&format!("e{exponent:+}")),
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
            ("333333333.3333333", "333333333.3333333"),
            ("1E30", "1e+30"),
            ("4.50", "4.5"),
            ("2e-3", "0.002"),
            ("0.000000000000000000000000001", "1e-27"),
            ("5e-324", "5e-324"),
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
    fn fractions_that_a_double_cannot_hold_keep_their_digits() {
        for (text, expected) in [
            ("1.000000000000000001", "1000000000000000001e-18"),
            ("1.00000000000000000100", "1000000000000000001e-18"),
            ("0.1000000000000000001E+1", "1000000000000000001e-18"),
            ("1.000000000000000002", "1000000000000000002e-18"),
            ("-0.10000000000000001", "-10000000000000001e-17"),
            ("9007199254740992.5", "90071992547409925e-1"),
            // The sample of RFC 8785, 3.2.2, which rounds it.
            ("333333333.33333329", "33333333333333329e-8"),
            ("1e-400", "1e-400"),
            ("0.01e-398", "1e-400"),
            ("1e-1000000", "1e-1000000"),
        ] {
            assert_eq!(canonical(text).as_deref(), Some(expected), "{text}");
        }
        let long = canonical(&format!("1{}.5", "0".repeat(400)));
        assert_eq!(long, Some(format!("1{}5e-1", "0".repeat(400))));
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
        assert_eq!(canonical("0.1e-9223372036854775808"), None);
        assert_eq!(canonical("10e9223372036854775807"), None);
        for text in ["1e-9223372036854775808", "1e+9223372036854775807"] {
            assert_eq!(canonical(text).as_deref(), Some(text));
        }
    }
}
