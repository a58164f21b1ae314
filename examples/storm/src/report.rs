//! What the programs print at the end, and their exit status.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use idem_core::BoxError;

/// Returns the exit status: 0 if everything was as expected, 1 if not; 2, with the reason on
/// standard error, if the run could not be made.
#[must_use]
pub fn exit(program: &str, ran: Result<bool, BoxError>) -> ExitCode {
    match ran {
        Ok(as_expected) => ExitCode::from(u8::from(!as_expected)),
        Err(reason) => {
            eprintln!("{program}: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Prints one of two conclusions, and returns which.
pub fn conclude(as_expected: bool, yes: &str, no: &str) -> bool {
    println!("\n{}", if as_expected { yes } else { no });
    as_expected
}

/// A number with its thousands apart: `1,234`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub(crate) u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (position, digit) in digits.chars().enumerate() {
            if position > 0 && (digits.len() - position).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// A heading, a table, and the errors that were found.
#[derive(Debug)]
pub struct Report {
    head: String,
    /// Label, number and remark.
    rows: Vec<[String; 3]>,
    wrong: Vec<String>,
}

impl Report {
    /// Creates a report with this heading.
    pub fn new(head: impl Into<String>) -> Self {
        Self {
            head: head.into(),
            rows: Vec::new(),
            wrong: Vec::new(),
        }
    }

    /// Adds a count, with a remark.
    pub fn count(&mut self, label: &str, number: u64, remark: &str) {
        self.row(label, Count(number).to_string(), remark);
    }

    /// Adds a duration, with a remark.
    pub fn time(&mut self, label: &str, duration: Duration, remark: &str) {
        self.row(label, time(duration), remark);
    }

    fn row(&mut self, label: &str, number: String, remark: &str) {
        let row = [label.to_owned(), number, remark.to_owned()];
        self.rows.push(row);
    }

    /// Adds an error.
    pub fn wrong(&mut self, error: impl Into<String>) {
        self.wrong.push(error.into());
    }

    /// Adds the error if the condition does not hold.
    pub fn check(&mut self, holds: bool, error: &str) {
        if !holds {
            self.wrong(error);
        }
    }

    /// Prints everything, then one of two conclusions. Returns whether there was no error.
    #[must_use]
    pub fn print(&self, yes: &str, no: &str) -> bool {
        println!("{self}");
        println!("{}", if self.wrong.is_empty() { yes } else { no });
        self.wrong.is_empty()
    }
}

/// Shows everything; the numbers of the table are aligned to the right.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.head)?;
        let width = |column: usize| self.rows.iter().map(|row| row[column].len()).max();
        let (labels, numbers) = (width(0).unwrap_or(0), width(1).unwrap_or(0));
        for [label, number, remark] in &self.rows {
            let line = format!("  {label:<labels$}  {number:>numbers$}  {remark}");
            writeln!(f, "{}", line.trim_end())?;
        }
        for error in &self.wrong {
            writeln!(f, "WRONG: {error}")?;
        }
        Ok(())
    }
}

/// `3.21 ms`, `431 ms`, `2.45 s`.
fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        0.0..0.01 => format!("{:.2} ms", seconds * 1e3),
        0.01..0.1 => format!("{:.1} ms", seconds * 1e3),
        0.1..1.0 => format!("{:.0} ms", seconds * 1e3),
        1.0..10.0 => format!("{seconds:.2} s"),
        _ => format!("{seconds:.1} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut report = Report::new("Head");
        report.count("requests", 1_234_567, "");
        report.time("p50", Duration::from_millis(3), "é");
        assert_eq!(
            report.to_string(),
            "Head\n\n  requests  1,234,567\n  p50         3.00 ms  é\n"
        );
    }

    #[test]
    fn thousands_are_apart() {
        let shown = [0, 999, 1_000, 23_456, 123_456, 1_234_567].map(|n| Count(n).to_string());
        assert_eq!(
            shown,
            ["0", "999", "1,000", "23,456", "123,456", "1,234,567"]
        );
    }

    #[test]
    fn times_have_three_digits() {
        let shown = [3_210, 43_100, 431_000, 2_450_000, 12_345_678];
        assert_eq!(
            shown.map(|micros| time(Duration::from_micros(micros))),
            ["3.21 ms", "43.1 ms", "431 ms", "2.45 s", "12.3 s"]
        );
    }
}
