//! What the programs print at the end, and their exit status.

use std::fmt::{self, Display};
use std::process::ExitCode;
use std::time::Duration;

use idem_core::BoxError;
use indicatif::HumanCount;

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

/// A heading, counts, and the errors that were found.
#[derive(Debug)]
pub struct Report {
    head: String,
    table: Table,
    wrong: Vec<String>,
}

impl Report {
    /// Creates a report with this heading.
    pub fn new(head: impl Into<String>) -> Self {
        Self {
            head: head.into(),
            table: Table::default(),
            wrong: Vec::new(),
        }
    }

    /// Adds a count, with a remark.
    pub fn count(&mut self, label: &str, number: u64, remark: &str) {
        self.table.row(label, HumanCount(number), remark);
    }

    /// Adds the time of the run.
    pub fn elapsed(&mut self, elapsed: Duration) {
        self.table.row("elapsed", time(elapsed), "");
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

    /// Returns the errors.
    #[must_use]
    pub fn errors(&self) -> &[String] {
        &self.wrong
    }

    /// Prints everything, then one of two conclusions. Returns whether there was no error.
    #[must_use]
    pub fn print(&self, yes: &str, no: &str) -> bool {
        println!("{}\n\n{}", self.head, self.table);
        for error in &self.wrong {
            println!("WRONG: {error}");
        }
        println!("{}", if self.wrong.is_empty() { yes } else { no });
        self.wrong.is_empty()
    }
}

/// Rows of label, number and remark; the numbers are aligned to the right.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<[String; 3]>);

impl Table {
    /// Creates a table of lines with two tabs each.
    pub(crate) fn of(lines: &str) -> Self {
        let mut table = Self::default();
        for line in lines.lines() {
            let mut cells = line.splitn(3, '\t').map(str::to_owned);
            table
                .0
                .push([(); 3].map(|()| cells.next().unwrap_or_default()));
        }
        table
    }

    fn row(&mut self, label: &str, number: impl Display, remark: &str) {
        let row = [label.to_owned(), number.to_string(), remark.to_owned()];
        self.0.push(row);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| self.0.iter().map(|row| row[column].len()).max();
        let (labels, numbers) = (width(0).unwrap_or(0), width(1).unwrap_or(0));
        for [label, number, remark] in &self.0 {
            let line = format!("  {label:<labels$}  {number:>numbers$}  {remark}");
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// `3.21 ms`, `431 ms`, `2.45 s`.
pub(crate) fn time(time: Duration) -> String {
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
        let number = HumanCount(1_234_567);
        let table = Table::of(&format!("requests\t{number}\t\np50\t3 ms\té"));
        assert_eq!(
            table.to_string(),
            "  requests  1,234,567\n  p50            3 ms  é\n"
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
