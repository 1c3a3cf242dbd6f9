//! Settings that work against a placement, and ways to make it last.

use super::{cells::process, table::list};
use crate::{clean::clean, fields::amount, units::size};
use numaloc_api::v1;
use numaloc_core::{NodeId, NodeSet, Options, Placement};
use std::fmt::Write;

/// Warnings of a plan: CPUs elsewhere, devices, and the kernel's own balancing.
pub fn warnings(plan: &v1::Plan) -> String {
    let mut text = away(plan);
    for open in &plan.devices {
        let (who, paths) = (process(open.process, &open.comm), clean(&open.paths.join(", ")));
        let _ = writeln!(
            text,
            "warning: process {who} has {paths} open: memory that a device uses is slower from other nodes, or stays because it is pinned"
        );
    }
    let exposed = amount(plan.exposed_bytes);
    if exposed > 0 {
        let _ = writeln!(
            text,
            "exposed: {} to kernel.numa_balancing, which moves what no policy binds to the CPUs that use it",
            size(exposed)
        );
    }
    text
}

/// Processes for whose memory the request names nodes that are local to none of their CPUs: the first one by name.
fn away(plan: &v1::Plan) -> String {
    let mut away = plan.processes.iter().filter(|one| !one.away_node_ids.is_empty());
    let Some(first) = away.next() else { return String::new() };
    let (nodes, cpus) = (&first.away_node_ids, &first.cpus);
    let are = if nodes.len() > 1 { "nodes" } else { "node" };
    let nodes = list(nodes);
    let others = match away.count() {
        0 => String::new(),
        others => format!(", and {others} more"),
    };
    let who = process(first.process, &first.comm);
    format!(
        "warning: {are} {nodes} named as target, but not local to the CPUs ({cpus}) of process {who}{others}: its accesses cross the interconnect\n"
    )
}

/// The way to give new pages the same placement; empty if the kernel has no policy for it. The nodes are the named
/// ones, else the homes of the plan's processes.
pub fn lasts(options: &Options, plan: Option<&v1::Plan>) -> String {
    let homes =
        plan.into_iter().flat_map(|plan| &plan.processes).flat_map(|one| &one.home_node_ids);
    let homes = || homes.filter_map(|&id| u32::try_from(id).ok()).map(NodeId).collect::<NodeSet>();
    let nodes = options.placement.nodes().unwrap_or_else(homes);
    let (option, mode) = match &options.placement {
        Placement::Interleave(_) => ("interleave", "MPOL_INTERLEAVE"),
        Placement::Weighted(_) | Placement::Bandwidth(_) => {
            ("weighted-interleave", "MPOL_WEIGHTED_INTERLEAVE")
        }
        _ => return String::new(),
    };
    let unit = match &options.placement {
        Placement::Interleave(_) => {
            format!(", in a systemd unit NUMAPolicy=interleave and NUMAMask={nodes}")
        }
        // systemd.exec(5) knows no weights.
        _ => String::new(),
    };
    format!(
        "new pages: as the application's own policy has it; to have them spread, too: numactl --{option}={nodes} COMMAND{unit}, in \
         a container linux.memoryPolicy {{\"mode\": \"{mode}\", \"nodes\": \"{nodes}\"}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_against_a_placement_is_named() {
        assert_eq!(warnings(&v1::Plan::default()), "");
        let open = v1::OpenDevices {
            process: Some(v1::ProcessId { pid: 7, start_time_ticks: 1 }),
            comm: "llm".into(),
            paths: vec!["/dev/nvidia0".into(), "/dev/nvidia\u{1b}ctl".into()],
        };
        let away = |pid, away_node_ids| v1::ProcessLocality {
            process: Some(v1::ProcessId { pid, start_time_ticks: 1 }),
            comm: "redis".into(),
            cpus: "2-3".into(),
            home_node_ids: vec![0, 1],
            away_node_ids,
            ..Default::default()
        };
        let plan = v1::Plan {
            processes: vec![away(1, vec![]), away(2, vec![0]), away(3, vec![0])],
            devices: vec![open],
            exposed_bytes: 512 << 20,
            ..v1::Plan::default()
        };
        insta::assert_snapshot!(warnings(&plan));
    }

    #[test]
    fn what_lasts_is_said_for_placements_that_the_kernel_has() {
        let lasts = |placement| {
            let home = v1::ProcessLocality { home_node_ids: vec![0, 2], ..Default::default() };
            let plan = v1::Plan { processes: vec![home], ..v1::Plan::default() };
            lasts(&Options { placement, ..Options::default() }, Some(&plan))
        };
        assert_eq!(lasts(Placement::Home), "");
        let by_cpus = lasts(Placement::Interleave(None));
        let named = lasts(Placement::Interleave("0,8".parse().ok()));
        let weighted = lasts(Placement::Weighted("0=3,8=1".parse().expect("weights")));
        let bandwidth = lasts(Placement::Bandwidth(Default::default()));
        insta::assert_snapshot!([by_cpus, named, weighted, bandwidth].concat());
    }
}
