//! Tables in the form of kubectl: no borders, upper-case headers, numbers to the right.

pub use crate::units::list;

use crate::{clean::clean, output::View};
use comfy_table::{CellAlignment, ContentArrangement, presets};

/// A table whose columns are as wide as their longest cell.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, CellAlignment)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new() -> Self {
        Self { columns: Vec::new(), rows: Vec::new() }
    }
    /// Adds a column of words.
    pub fn words(mut self, header: impl Into<String>) -> Self {
        self.columns.push((header.into(), CellAlignment::Left));
        self
    }
    /// Adds a column of numbers.
    pub fn numbers(mut self, header: impl Into<String>) -> Self {
        self.columns.push((header.into(), CellAlignment::Right));
        self
    }
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
    /// The rows as lines with columns of fixed width, for rows that come one by one: later rows are not known yet.
    pub fn lines(self, view: View) -> String {
        let headers = self.columns.into_iter().map(|(header, _)| header).collect();
        let headers: Option<Vec<String>> = view.headers.then_some(headers);
        headers.into_iter().chain(self.rows).map(|cells| line(&cells)).collect()
    }
    /// As [`Self::render`], no wider than the terminal: cells that do not fit have several lines.
    pub fn fitted(self, view: View) -> String {
        match view.width {
            Some(width) if !view.wide => self.rendered(view, Some(width)),
            _ => self.render(view),
        }
    }
    /// The table as text, each line ended by a newline; empty if it has no rows.
    pub fn render(self, view: View) -> String {
        self.rendered(view, None)
    }
    fn rendered(self, view: View, width: Option<u16>) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        if let Some(width) = width {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        }
        let (headers, alignments): (Vec<_>, Vec<_>) = self.columns.into_iter().unzip();
        if view.headers {
            table.set_header(headers);
        }
        for row in self.rows {
            table.add_row(row.iter().map(|cell| clean(cell)).collect::<Vec<_>>());
        }
        for (column, alignment) in table.column_iter_mut().zip(alignments) {
            column.set_padding((0, 2)).set_cell_alignment(alignment);
        }
        table.trim_fmt() + "\n"
    }
}

fn line(cells: &[String]) -> String {
    let cells: Vec<_> = cells.iter().map(|cell| format!("{:<12}", clean(cell))).collect();
    format!("{}\n", cells.join("  ").trim_end())
}
