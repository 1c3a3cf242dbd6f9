//! Memory of a target by kind and node, as `numastat -p` has it.

use super::{node_columns::NodeColumns, table::Table};
use crate::{
    fields::{amount, bytes_on},
    output::View,
    units::mb,
};
use numaloc_api::v1;

/// A row for each kind, with a column for each node as in the table above it; empty if `all` is, as in answers of older daemons.
pub fn kinds(all: &[v1::MemoryOfKind], columns: &NodeColumns, view: View) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut table = columns.head(Table::new().words("KIND"));
    table = table.numbers("TOTAL MiB").numbers("HUGE MiB");
    for of in all {
        let mut row = vec![name(of)];
        row.extend(columns.cells(&of.nodes));
        row.extend([bytes_on(&of.nodes, |_| true), amount(of.huge_bytes)].map(mb));
        table.row(row);
    }
    format!("\n{}", table.render(view))
}

/// `heap`, `anonymous`, `anonymous, hugetlb`.
fn name(of: &v1::MemoryOfKind) -> String {
    let kind = super::cells::kind(of.kind());
    if of.hugetlb { format!("{kind}, hugetlb") } else { kind }
}
