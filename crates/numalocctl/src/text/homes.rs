//! Explains why a process has several home nodes.

use super::{cells::process as named, guest_cells::guest_cells, table::list};
use crate::{clean::clean, output::View, units::percent};
use numaloc_api::v1;
use std::fmt::Write;

/// Processes, and threads of each, that are shown without `-o wide`.
const PROCESSES: usize = 20;
const THREADS: usize = 3;

/// A line for each process that has threads on other nodes than its busiest ones.
pub fn homes(processes: &[v1::ProcessLocality], view: View) -> String {
    let (most, threads) = if view.wide { (usize::MAX, usize::MAX) } else { (PROCESSES, THREADS) };
    let wide: Vec<_> = processes.iter().filter(|each| each.wide_thread_count > 0).collect();
    let mut text = String::new();
    for process in wide.iter().take(most) {
        let (who, nodes) = (named(process.process, &process.comm), list(&process.home_node_ids));
        let others = others(process, threads);
        let _ = writeln!(text, "home: nodes {nodes} for process {who}; {others}");
    }
    if wide.len() > most {
        let _ = writeln!(text, "... and {} more homes (-o wide shows all)", wide.len() - most);
    }
    let is_wide = |process: &&&v1::ProcessLocality| {
        process.home_node_ids.len() > 1 && process.guest_cells.is_empty()
    };
    if wide.iter().any(|process| is_wide(&process)) {
        text += "--home busy takes the nodes of the threads that work\n";
    }
    text + &guest_cells(processes, view)
}

/// `its busiest threads have fewer nodes than thread 7 (helper) on CPUs 0-3 with 0.1 % of the CPU time`.
fn others(process: &v1::ProcessLocality, most: usize) -> String {
    let one = |thread: &v1::WideThread| {
        let (tid, comm, cpus) = (thread.tid, clean(&thread.comm), &thread.cpus);
        format!(
            "{tid} ({comm}) on CPUs {cpus} with {} % of the CPU time",
            percent(thread.cpu_percent)
        )
    };
    let named: Vec<_> = process.wide_threads.iter().take(most).map(one).collect();
    let more = process.wide_thread_count.saturating_sub(named.len() as i32);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("beyond the nodes of the busiest threads: {}{more}", named.join(", "))
}
