//! Prints where the memory of a guest's cells is, and where it belongs.

use super::{cells::process as named, table::list};
use crate::{clean::clean, output::View, units::size};
use numaloc_api::v1;
use std::fmt::Write;

/// Cells that are shown without `-o wide`.
const CELLS: usize = 20;

/// A line for each cell of a guest.
pub fn guest_cells(processes: &[v1::ProcessLocality], view: View) -> String {
    let most = if view.wide { usize::MAX } else { CELLS };
    let all = || {
        processes
            .iter()
            .flat_map(|process| process.guest_cells.iter().map(move |cell| (process, cell)))
    };
    let mut text: String = all().take(most).map(|(process, cell)| line(process, cell)).collect();
    let more = all().count().saturating_sub(most);
    if more > 0 {
        let _ = writeln!(text, "... and {more} more cells (-o wide shows all)");
    }
    text
}

fn line(process: &v1::ProcessLocality, cell: &v1::GuestCell) -> String {
    let (number, who) = (cell.cell, named(process.process, &process.comm));
    let home = match &cell.home_node_ids[..] {
        [] => "the home of the process".to_owned(),
        [node] => format!("node {node}"),
        nodes => format!("nodes {}", list(nodes)),
    };
    let on = cell.nodes.iter().map(|on| format!("{} on node {}", size(on.bytes), on.node_id));
    let on = match on.collect::<Vec<_>>() {
        none if none.is_empty() => "none of its memory found".to_owned(),
        on => on.join(", "),
    };
    let names = match clean(&cell.memory_names.join(", ")) {
        none if none.is_empty() => String::new(),
        names => format!(" ({names})"),
    };
    format!("cell: {number} of the guest of process {who}: home is {home}; {on}{names}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cell_has_a_line_with_its_home_and_where_it_is() {
        let on = |node_id, mib: i64| v1::NodeBytes { node_id, bytes: mib << 20 };
        let cell = |cell, home: &[i32], nodes: &[v1::NodeBytes]| v1::GuestCell {
            cell,
            memory_names: vec![format!("ram-node{cell}")],
            home_node_ids: home.into(),
            nodes: nodes.into(),
        };
        let guest_cells = vec![
            cell(0, &[0], &[on(0, 8), on(1, 24)]),
            cell(1, &[1, 2], &[]),
            v1::GuestCell { memory_names: Vec::new(), ..cell(2, &[], &[on(1, 1)]) },
        ];
        let process = Some(v1::ProcessId { pid: 7, start_time_ticks: 1 });
        let comm = "qemu-system-x86".to_owned();
        let guest = v1::ProcessLocality { process, comm, guest_cells, ..Default::default() };
        let view = View::TABLE;
        insta::assert_snapshot!(super::guest_cells(&vec![guest; 8], view));
    }
}
