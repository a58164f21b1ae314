//! [`Table`]: label, number, remark, in aligned columns.

use std::fmt;

/// Rows of three columns: the second is aligned to the right.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<[String; 3]>);

impl Table {
    pub(crate) fn row(
        &mut self,
        label: &str,
        number: impl Into<String>,
        remark: impl Into<String>,
    ) {
        self.0
            .push([label.to_owned(), number.into(), remark.into()]);
    }

    fn width(&self, column: usize) -> usize {
        let width = |row: &[String; 3]| row[column].chars().count();
        self.0.iter().map(width).max().unwrap_or_default()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (labels, numbers) = (self.width(0), self.width(1));
        for [label, number, remark] in &self.0 {
            let line = format!("  {label:<labels$}  {number:>numbers$}  {remark}");
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::default();
        table.row("requests", "4,000", "");
        table.row("p50", "3 ms", "é");
        assert_eq!(
            table.to_string(),
            "  requests  4,000\n  p50        3 ms  é\n"
        );
    }
}
