/// Cells in lines, all as long as the head.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    head: Vec<&'static str>,
    /// Whether a column is of numbers, and so begins at the right.
    right: Vec<bool>,
    lines: Vec<Vec<String>>,
}

impl Grid {
    /// Columns by name; those that end in `#` are of numbers.
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        Self {
            head: columns
                .iter()
                .map(|name| name.trim_end_matches('#'))
                .collect(),
            right: columns.iter().map(|name| name.ends_with('#')).collect(),
            lines: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, line: Vec<String>) {
        self.lines.push(line);
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.lines.iter().map(|line| line[column].chars().count());
            cells.chain([self.head[column].len()]).max().unwrap_or(0)
        };
        (0..self.head.len()).map(width).collect()
    }

    fn line(&self, widths: &[usize], cells: &[&str], between: &str) -> String {
        let mut text = Vec::new();
        for ((cell, width), right) in cells.iter().zip(widths).zip(&self.right) {
            text.push(if *right {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            });
        }
        text.join(between)
    }

    /// For a terminal.
    pub(crate) fn plain(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        for cells in self.all() {
            text.push_str(self.line(&widths, &cells, "  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// For a page.
    pub(crate) fn markdown(&self) -> String {
        let widths: Vec<_> = self.widths().iter().map(|width| *width.max(&3)).collect();
        let mut text = String::new();
        for (number, cells) in self.all().enumerate() {
            text.push_str(&format!("| {} |\n", self.line(&widths, &cells, " | ")));
            if number == 0 {
                let rule = |(width, right): (&usize, &bool)| {
                    let end = if *right { ":" } else { "-" };
                    format!("{}{end}", "-".repeat(width - 1))
                };
                let rules: Vec<_> = widths.iter().zip(&self.right).map(rule).collect();
                text.push_str(&format!("| {} |\n", rules.join(" | ")));
            }
        }
        text
    }

    fn all(&self) -> impl Iterator<Item = Vec<&str>> {
        let lines = self.lines.iter();
        let lines = lines.map(|line| line.iter().map(String::as_str).collect());
        std::iter::once(self.head.clone()).chain(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new(&["path", "ratio#"]);
        grid.push(vec!["replay".into(), "0.93".into()]);
        grid.push(vec!["claim_fresh".into(), "12.5".into()]);
        grid
    }

    #[test]
    fn columns_of_a_terminal_are_aligned() {
        let expected = "\
path         ratio
replay        0.93
claim_fresh   12.5
";
        assert_eq!(grid().plain(), expected);
    }

    #[test]
    fn a_page_is_readable_as_text_too() {
        let expected = "\
| path        | ratio |
| ----------- | ----: |
| replay      |  0.93 |
| claim_fresh |  12.5 |
";
        assert_eq!(grid().markdown(), expected);
    }
}
