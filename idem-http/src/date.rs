//! Instants in HTTP's format.

use idem_core::Timestamp;

const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Formats the instant as an IMF-fixdate (RFC 9110, 5.6.7), such as `Sun, 06 Nov 1994 08:49:37
/// GMT`.
pub(crate) fn http_date(instant: Timestamp) -> String {
    let seconds = instant.as_micros().div_euclid(1_000_000);
    let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    // 1970-01-01 was a Thursday.
    let weekday = index((days + 3).rem_euclid(7));
    // Each replay writes one, and `format!` takes ten times as long.
    let mut text = String::with_capacity("Sun, 06 Nov 1994 08:49:37 GMT".len());
    text.push_str(DAYS[weekday]);
    text.push_str(", ");
    push_two(&mut text, day);
    text.push(' ');
    text.push_str(MONTHS[index(month - 1)]);
    text.push(' ');
    push_two(&mut text, year / 100);
    push_two(&mut text, year % 100);
    for (before, number) in [(' ', time / 3600), (':', time / 60 % 60), (':', time % 60)] {
        text.push(before);
        push_two(&mut text, number);
    }
    text.push_str(" GMT");
    text
}

/// Writes at least two digits.
fn push_two(text: &mut String, number: i64) {
    if number >= 100 {
        text.push_str(&number.to_string());
        return;
    }
    for digit in [number / 10, number % 10] {
        text.push(char::from(b'0' + u8::try_from(digit).unwrap_or_default()));
    }
}

fn index(number: i64) -> usize {
    usize::try_from(number).unwrap_or_default()
}

/// Returns year, month and day in the Gregorian calendar. It counts in years that begin in March,
/// so that the leap day is the last.
fn civil(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_http_dates() {
        for (seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        ] {
            let instant = Timestamp::from_micros(seconds * 1_000_000);
            assert_eq!(http_date(instant), expected);
        }
    }
}
