//! Tables in the form of kubectl.

use comfy_table::{CellAlignment, presets};

/// A table. Columns whose header begins with `>` are numbers.
pub fn table(headers: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(headers.iter().map(|header| header.trim_start_matches('>')));
    for row in rows {
        table.add_row(row);
    }
    for (column, header) in table.column_iter_mut().zip(headers) {
        column.set_padding((0, 3));
        if header.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned() + "\n");
    lines.collect()
}
