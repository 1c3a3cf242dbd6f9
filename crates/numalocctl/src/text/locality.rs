//! Prints the answers of `numalocctl locality` as text.

use super::{
    attached::attached,
    cells::{fixed, skip, source},
    csv,
    files::files_of,
    held::held,
    homes::homes,
    left_out::{found_members, left_out},
    one_sided::one_sided,
    plan::{near, near_percent},
    table::{Table, list},
};
use crate::{
    clean::clean,
    fields::{amount, bytes_on, node},
    output::View,
    units::{mb, percent, size},
};
use numaloc_api::v1;
use numaloc_core::page_size;
use std::{collections::BTreeSet, fmt::Write};

/// Hosts with more nodes than this have no columns of zeros.
const COLUMNS: usize = 8;

/// A row per process and a column per node, as in `numastat -p`. `topology` has the nodes with memory.
pub fn locality(answer: &v1::GetLocalityResponse, topology: &v1::Topology, view: View) -> String {
    let none = v1::Locality::default();
    let locality = answer.locality.as_ref().unwrap_or(&none);
    if let Some(cached) = &locality.files {
        return files_of(cached, &answer.missing, view);
    }
    let (shared, total) = (memory(&locality.shared), memory(&locality.total));
    let columns = columns(topology, &total, view);
    if view.csv {
        return csv::localities(locality, &columns, view);
    }
    let mut table = Table::new().numbers("PID").words("COMM");
    for node in &columns {
        table = table.numbers(format!("NODE{node} MiB"));
    }
    table = table.numbers("TOTAL MiB").numbers("LOCAL %");
    // Hosts without such nodes have no column for them.
    let has_near = total.overall.is_some_and(|share| share.near_bytes > 0);
    if has_near {
        table = table.numbers("NEAR %");
    }
    let has_demoted = total.overall.is_some_and(|share| share.demoted_bytes > 0);
    if has_demoted {
        table = table.numbers("DEMOTED MiB");
    }
    table = table.numbers("REMOTE PAGES");
    if view.wide {
        table = table.numbers("MOVABLE LOCAL %").numbers("MOVABLE REMOTE PAGES");
        table = table.words("HOME").words("CPUS").words("NOTE");
    }
    for process in &locality.processes {
        let pid = process.process.unwrap_or_default().pid;
        let mut row = vec![pid.to_string(), process.comm.clone()];
        row.extend(placed(&columns, &memory(&process.memory), (has_near, has_demoted), view));
        if view.wide {
            row.extend(wide(process));
        }
        table.row(row);
    }
    let is_shared = !shared.nodes.is_empty();
    let sums = [
        ("(shared)", &shared, is_shared),
        ("(total)", &total, locality.processes.len() != 1 || is_shared),
    ];
    for (name, sum, _) in sums.into_iter().filter(|(.., is_shown)| *is_shown) {
        let mut row = vec![String::new(), name.to_owned()];
        row.extend(placed(&columns, sum, (has_near, has_demoted), view));
        table.row(row);
    }
    if view.rows_alone() {
        return table.render(view);
    }
    let footer = footer(
        locality,
        &(found_members(&answer.found) + &left_out(&answer.missing)),
        total.movable.unwrap_or_default(),
    );
    table.render(view) + &footer + &homes(&locality.processes, view)
}

/// The nodes that have a column: those with memory. If there are more than [`COLUMNS`], only nodes where the target has
/// some, unless all are shown.
fn columns(topology: &v1::Topology, total: &v1::ResidentMemory, view: View) -> BTreeSet<u32> {
    let used = total.nodes.iter().filter(|on| on.bytes > 0).map(|on| node(on.node_id));
    let with_memory = topology.nodes.iter().filter(|node| node.total_bytes > 0);
    let all: BTreeSet<u32> =
        with_memory.map(|with| node(with.node_id)).chain(used.clone()).collect();
    let are_few = all.len() <= COLUMNS || view.wide || view.rows_alone();
    if are_few { all } else { used.collect() }
}

fn memory(memory: &Option<v1::ResidentMemory>) -> v1::ResidentMemory {
    memory.clone().unwrap_or_default()
}

fn placed(
    columns: &BTreeSet<u32>,
    memory: &v1::ResidentMemory,
    (has_near, has_demoted): (bool, bool),
    view: View,
) -> Vec<String> {
    let on = |index: u32| bytes_on(&memory.nodes, |node| node == index);
    let mut cells: Vec<_> = columns.iter().map(|&node| mb(on(node))).collect();
    cells.push(mb(bytes_on(&memory.nodes, |_| true)));
    let shares = [memory.overall, memory.movable];
    for (number, share) in shares.into_iter().take(if view.wide { 2 } else { 1 }).enumerate() {
        let share = share.unwrap_or_default();
        let pages = amount(share.remote_bytes) / page_size();
        cells.push(percent(share.local_percent));
        if number == 0 {
            cells.extend(has_near.then(|| percent(near_percent(share))));
            cells.extend(has_demoted.then(|| mb(amount(share.demoted_bytes))));
        }
        cells.push(pages.to_string());
    }
    cells
}

fn wide(process: &v1::ProcessLocality) -> [String; 3] {
    let note = skip(process).map_or("-".to_owned(), |reason| format!("skipped: {reason}"));
    [list(&process.home_node_ids), process.cpus.clone(), note]
}

fn footer(locality: &v1::Locality, left_out: &str, movable: v1::Share) -> String {
    let mut text = format!("\n{left_out}");
    let _ = writeln!(
        text,
        "movable: {} % local, {}{} to bring home",
        percent(movable.local_percent),
        near(movable),
        size(movable.remote_bytes)
    );
    for cgroup in &locality.cgroups {
        let nodes = cgroup.nodes.iter().map(|on| format!("node {} {}", on.node_id, size(on.bytes)));
        let cache: i64 = cgroup.cache_nodes.iter().map(|on| on.bytes).sum();
        let _ = writeln!(
            text,
            "cgroup {}: {}{} by memory.numa_stat, without hugetlb{}",
            clean(&cgroup.cgroup),
            cgroup.local_percent.map_or(String::new(), |p| format!("{} % local, ", percent(p))),
            nodes.collect::<Vec<_>>().join(", "),
            if cache > 0 {
                format!("; {} of page cache besides", size(cache))
            } else {
                String::new()
            },
        );
    }
    fixed(&mut text, &locality.fixed);
    let own = locality.processes.iter().map(|process| amount(process.swap_bytes)).sum::<u64>();
    let swapped = own + amount(locality.swapped_shared_bytes);
    if swapped > 0 {
        let swapped = size(swapped);
        let _ = writeln!(
            text,
            "swapped: {swapped}, on no node; each page comes in on the node of the thread that touches it"
        );
    }
    if locality.unplaced_bytes > 0 {
        let _ = writeln!(text, "unplaced: {} on no known node", size(locality.unplaced_bytes));
    }
    text += &attached(&locality.unmapped, locality.unseen_bytes);
    text += &held(&locality.held_files);
    text += &one_sided(&locality.one_sided);
    if let Some(source) = source(locality.source()) {
        let _ = writeln!(text, "source: {source}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_nodes_have_columns_where_there_is_something() {
        let node = |node_id| v1::Node { node_id, total_bytes: 1 << 30, ..v1::Node::default() };
        let columns = |nodes: i32, view| {
            let nodes = (0..nodes).map(node).collect();
            let topology = v1::Topology { nodes, ..v1::Topology::default() };
            let on = |node_id, bytes| v1::NodeBytes { node_id, bytes };
            let nodes = vec![on(0, 4096), on(1, 0), on(3, 4096)];
            columns(&topology, &v1::ResidentMemory { nodes, ..Default::default() }, view)
        };
        assert_eq!(columns(8, View::TABLE).len(), 8);
        assert_eq!(columns(16, View::TABLE), [0, 3].into());
        assert_eq!(columns(16, View { wide: true, ..View::TABLE }).len(), 16);
    }
}
