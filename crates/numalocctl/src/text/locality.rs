//! Prints the answers of `numalocctl locality` as text.

use super::{
    attached::attached,
    cells::{fixed, page_tables, skip, source},
    csv,
    files::files_of,
    held::held,
    homes::homes,
    kinds::kinds,
    left_out::{found_members, left_out},
    node_columns::NodeColumns,
    one_sided::one_sided,
    plan::{near, near_percent},
    table::{Table, list},
};
use crate::{
    clean::clean,
    fields::{amount, bytes_on},
    output::View,
    units::{mb, percent, size},
};
use numaloc_api::v1;
use numaloc_core::page_size;
use std::fmt::Write;

/// A row per process and a column per node, as in `numastat -p`. `topology` has the nodes with memory.
pub fn locality(answer: &v1::GetLocalityResponse, topology: &v1::Topology, view: View) -> String {
    let none = v1::Locality::default();
    let locality = answer.locality.as_ref().unwrap_or(&none);
    if let Some(cached) = &locality.files {
        return files_of(cached, &answer.missing, view);
    }
    let (shared, total) = (memory(&locality.shared), memory(&locality.total));
    let columns = NodeColumns::of(topology, &total, view);
    if view.csv {
        return csv::localities(locality, &columns.named, view);
    }
    let mut table = columns.head(Table::new().numbers("PID").words("COMM"));
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
    let kinds = if view.wide { kinds(&answer.kinds, &columns, view) } else { String::new() };
    table.render(view) + &kinds + &footer + &homes(&locality.processes, view)
}

fn memory(memory: &Option<v1::ResidentMemory>) -> v1::ResidentMemory {
    memory.clone().unwrap_or_default()
}

fn placed(
    columns: &NodeColumns,
    memory: &v1::ResidentMemory,
    (has_near, has_demoted): (bool, bool),
    view: View,
) -> Vec<String> {
    let mut cells: Vec<_> = columns.cells(&memory.nodes).collect();
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
    text += &page_tables(&locality.processes);
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

    fn node(node_id: i32) -> v1::Node {
        v1::Node { node_id, total_bytes: 1 << 30, ..v1::Node::default() }
    }

    fn of_nodes(count: i32) -> v1::Topology {
        v1::Topology { nodes: (0..count).map(node).collect(), ..v1::Topology::default() }
    }

    fn on(nodes: &[(i32, i64)]) -> v1::ResidentMemory {
        let on = |&(node_id, mib): &(i32, i64)| v1::NodeBytes { node_id, bytes: mib << 20 };
        v1::ResidentMemory { nodes: nodes.iter().map(on).collect(), ..Default::default() }
    }

    #[test]
    fn a_target_on_sixteen_nodes_fits_80_columns() {
        let everywhere: Vec<(i32, i64)> =
            (0..16).map(|node| (node, 1000 + i64::from(node))).collect();
        let memory = Some(on(&everywhere));
        let process = v1::ProcessLocality {
            process: Some(v1::ProcessId { pid: 4_194_303, start_time_ticks: 1 }),
            comm: "fifteen_letters".into(),
            memory: memory.clone(),
            ..v1::ProcessLocality::default()
        };
        let locality =
            v1::Locality { processes: vec![process], total: memory, ..v1::Locality::default() };
        let answer = v1::GetLocalityResponse { locality: Some(locality), ..Default::default() };
        let text = super::locality(&answer, &of_nodes(16), View::TABLE);
        let table: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
        assert!(table.iter().all(|line| line.len() <= 80), "{text}");
        let sum = everywhere.iter().take(15).map(|(_, mib)| mib).sum::<i64>();
        assert!(table[0].contains("  NODE15  15 OTHERS  TOTAL MiB"), "{text}");
        assert!(table[1].contains(&format!("  1015.0    {sum}.0    16120.0")), "{text}");
    }
}
