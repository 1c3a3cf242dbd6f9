//! Where the memory of a target is, by process and node.

use super::{
    names::{duration, index, int, int32, timestamp},
    placement::node_ids,
};
use crate::v1;
use numaloc_core::{
    Fixed, FixedKind, Flows, HeldFile, Identity, Locality, MemoryOfKind, NodeId, NodeSet, OneSided,
    Plan, PlannedCell, PlannedProcess, Share, WideThread, live::CountedMemory,
};
use std::{collections::BTreeMap, time::SystemTime};

/// The source of the nodes of a plan's pages.
pub fn source(plan: &Plan) -> v1::PageSource {
    match plan.frames_hidden {
        true => v1::PageSource::MovePages,
        false => v1::PageSource::Pagemap,
    }
}

/// The nodes of a target's memory. A plan has all data for it.
#[derive(Clone, Copy, Debug)]
pub struct LocalityView<'a> {
    /// The plan that was made from the survey.
    pub plan: &'a Plan,
    /// When the survey was made.
    pub time: SystemTime,
}

impl From<LocalityView<'_>> for v1::Locality {
    fn from(LocalityView { plan, time }: LocalityView<'_>) -> Self {
        let mut total = plan.family_resident.clone();
        for (&node, bytes) in plan.processes.iter().flat_map(|process| &process.resident) {
            *total.entry(node).or_default() += bytes;
        }
        Self {
            processes: plan.processes.iter().map(Into::into).collect(),
            shared: Some(resident(&plan.family_resident, &plan.family_locality)),
            total: Some(resident(&total, &plan.locality)),
            unplaced_bytes: int(plan.unplaced_bytes),
            source: source(plan).into(),
            unmapped: node_bytes(&plan.unmapped),
            unseen_bytes: int(plan.unseen_bytes),
            fixed: fixed(plan),
            one_sided: one_sided(plan),
            held_files: held_files(plan),
            swapped_shared_bytes: int(plan.swapped_shared_bytes),
            read_time: Some(timestamp(time)),
            ..Self::default()
        }
    }
}

impl From<&PlannedProcess> for v1::ProcessLocality {
    fn from(planned: &PlannedProcess) -> Self {
        let skip = planned.skip.map_or(v1::SkipReason::Unspecified, Into::into);
        Self {
            process: Some(planned.process.identity.into()),
            comm: planned.process.comm.clone(),
            cpus: planned.process.cpus.to_string(),
            home_node_ids: node_ids(&planned.home).collect(),
            away_node_ids: node_ids(&planned.away).collect(),
            skip: skip.into(),
            memory: Some(resident(&planned.resident, &planned.locality)),
            wide_threads: planned.wide_threads_by_name().into_iter().map(Into::into).collect(),
            wide_thread_count: int32(planned.wide_thread_count()),
            swap_bytes: int(planned.process.swap_bytes),
            page_table_bytes: int(planned.process.page_table_bytes),
            guest_cells: planned.cells.iter().map(Into::into).collect(),
        }
    }
}

impl From<&MemoryOfKind> for v1::MemoryOfKind {
    fn from(of: &MemoryOfKind) -> Self {
        Self {
            kind: v1::MemoryKind::from(of.kind).into(),
            hugetlb: of.is_hugetlb,
            nodes: node_bytes(&of.resident),
            huge_bytes: int(of.huge_bytes),
        }
    }
}

impl From<&PlannedCell> for v1::GuestCell {
    fn from(planned: &PlannedCell) -> Self {
        Self {
            cell: index(planned.id),
            memory_names: planned.memory.clone(),
            home_node_ids: node_ids(&planned.home).collect(),
            nodes: node_bytes(&planned.resident),
        }
    }
}

impl From<WideThread<'_>> for v1::WideThread {
    fn from(wide: WideThread<'_>) -> Self {
        Self {
            tid: wide.thread.tid,
            comm: wide.thread.comm.clone(),
            cpus: wide.cpus.to_string(),
            cpu_time: Some(duration(wide.thread.cpu_time)),
            cpu_percent: wide.cpu_percent,
        }
    }
}

impl From<Identity> for v1::ProcessId {
    fn from(identity: Identity) -> Self {
        Self { pid: identity.pid, start_time_ticks: int(identity.start_time) }
    }
}

impl From<Share> for v1::Share {
    fn from(share: Share) -> Self {
        // Rounded down to two decimals, so that 100 means all.
        let local_percent = (share.percent() * 100.0).floor() / 100.0;
        Self {
            local_bytes: int(share.local_bytes),
            remote_bytes: int(share.remote_bytes),
            near_bytes: int(share.near_bytes),
            demoted_bytes: int(share.demoted_bytes),
            local_percent,
        }
    }
}

impl v1::CgroupMemory {
    /// The counts of a cgroup in memory.numa_stat. `home` is the home of all processes of the target, if they have
    /// the same one: the count does not say which process has its memory where.
    pub fn new(cgroup: &str, memory: &CountedMemory, home: Option<&NodeSet>) -> Self {
        let percent = |home: &NodeSet| {
            let mut share = Share::default();
            for (&node, &bytes) in &memory.nodes {
                match home.contains(node) {
                    true => share.local_bytes += bytes,
                    false => share.remote_bytes += bytes,
                }
            }
            v1::Share::from(share).local_percent
        };
        let (nodes, cache_nodes) = (node_bytes(&memory.nodes), node_bytes(&memory.cache));
        Self { cgroup: cgroup.to_owned(), nodes, local_percent: home.map(percent), cache_nodes }
    }
}

/// Resident bytes by node, with their locality.
pub fn resident(nodes: &BTreeMap<NodeId, u64>, locality: &Locality) -> v1::ResidentMemory {
    v1::ResidentMemory {
        nodes: node_bytes(nodes),
        movable: Some(locality.movable.into()),
        overall: Some(locality.overall.into()),
    }
}

/// Mapped memory that can never move, by kind.
pub fn fixed(plan: &Plan) -> Vec<v1::FixedMemory> {
    let memory = |(&kind, fixed): (&FixedKind, &Fixed)| v1::FixedMemory {
        kind: v1::FixedKind::from(kind).into(),
        mapped_bytes: int(fixed.mapped_bytes),
        nodes: node_bytes(&fixed.nodes),
    };
    plan.fixed.iter().map(memory).collect()
}

/// The files in memory that processes have open and none has mapped.
pub fn held_files(plan: &Plan) -> Vec<v1::HeldFile> {
    let file = |file: &HeldFile| {
        let identity = plan.processes[file.process].process.identity;
        v1::HeldFile {
            process: Some(identity.into()),
            path: format!("/proc/{}/fd/{}", identity.pid, file.fd),
            name: file.name.clone(),
            bytes: int(file.bytes),
        }
    };
    plan.held.iter().map(file).collect()
}

/// Shared memory on one of several homes.
pub fn one_sided(plan: &Plan) -> Vec<v1::OneSidedMemory> {
    let memory = |one: &OneSided| v1::OneSidedMemory {
        name: one.name.to_string(),
        home_node_ids: node_ids(&one.home).collect(),
        node_id: index(one.node.0),
        bytes: int(one.bytes),
        total_bytes: int(one.total_bytes),
        process_count: int32(one.processes),
    };
    plan.one_sided.iter().map(memory).collect()
}

/// Bytes by node, without nodes that have none.
pub fn node_bytes(nodes: &BTreeMap<NodeId, u64>) -> Vec<v1::NodeBytes> {
    let bytes = |(node, &bytes): (&NodeId, &u64)| v1::NodeBytes {
        node_id: index(node.0),
        bytes: int(bytes),
    };
    nodes.iter().map(bytes).filter(|node| node.bytes > 0).collect()
}

pub fn flows(flows: &Flows) -> Vec<v1::Flow> {
    let flow = |(&(from, to), &bytes): (&(NodeId, NodeId), &u64)| v1::Flow {
        from_node_id: index(from.0),
        to_node_id: index(to.0),
        bytes: int(bytes),
    };
    flows.iter().map(flow).collect()
}
