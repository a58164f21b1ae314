//! Tables for a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Aligns cells in columns, numbers to the right.
pub(crate) fn aligned(columns: &[(&str, bool)], lines: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|(name, _)| *name));
    table.add_rows(lines);
    for ((_, is_number), column) in columns.iter().zip(table.column_iter_mut()) {
        column.set_padding((0, 2));
        if *is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}
