//! [`Output`]: what a command prints, for people or for machines.

use std::io::{self, IsTerminal, Write};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

use crate::failure::Result;

/// Standard output, in one of two forms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    is_json: bool,
}

impl Output {
    pub(crate) fn new(is_json: bool) -> Self {
        Self { is_json }
    }

    /// Returns whether machines read it: one JSON value a line.
    pub(crate) fn is_json(self) -> bool {
        self.is_json
    }

    /// Prints a value as a line of JSON, if machines read it.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<()> {
        if !self.is_json {
            return Ok(());
        }
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        write(&line)
    }

    /// Prints a line, if people read it.
    pub(crate) fn line(self, text: impl AsRef<str>) -> Result<()> {
        if self.is_json {
            return Ok(());
        }
        write(format!("{}\n", text.as_ref()).as_bytes())
    }

    /// Prints a table, if people read it.
    pub(crate) fn table(self, columns: &[&str], rows: &[Vec<String>]) -> Result<()> {
        if self.is_json {
            return Ok(());
        }
        write(table(columns, rows).as_bytes())
    }

    /// Prints names and values, one a line, if people read it.
    pub(crate) fn fields(self, fields: &[(&str, String)]) -> Result<()> {
        let width = fields.iter().map(|(name, _)| name.len()).max();
        let width = width.unwrap_or_default() + 2;
        for (name, value) in fields {
            self.line(format!("{name:width$}{value}"))?;
        }
        Ok(())
    }
}

/// Returns a table without lines; columns whose title begins with `#` are numbers.
pub(crate) fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|title| title.trim_start_matches('#')));
    table.add_rows(rows);
    for (title, column) in columns.iter().zip(table.column_iter_mut()) {
        column.set_padding((0, 2));
        if title.starts_with('#') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}

/// Writes to standard output. A reader that has seen enough (`idem ls | head`) is no error.
pub(crate) fn write(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        done => Ok(done?),
    }
}

/// Writes one line to standard error.
pub(crate) fn complain(message: &str) -> io::Result<()> {
    writeln!(io::stderr().lock(), "idem: {message}")
}

/// Returns whether a person reads standard output.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each_row() {
        let rows = vec![vec!["a".to_owned(), "7".to_owned()]];
        let shown = table(&["NAME", "#COUNT"], &rows);
        assert_eq!(shown, "NAME  COUNT\na         7\n");
    }
}
