//! Where the memory of a target is.

use super::MissingDoc;
use super::parts::{
    LocalityPair, NodeBytes, ShareDoc, ids, node_bytes, source_name, source_reason,
};
use crate::inspect::Inspection;
use numaloc_core::{Locality, NodeId, NodeSet, Plan, PlannedProcess, Share, Skip, WideThread};
use serde::Serialize;
use std::collections::BTreeMap;

/// What `locality` shows.
#[derive(Clone, Debug, Serialize)]
pub struct LocalityDoc {
    /// How page locations were found: `pagemap` or `move_pages`; null if the daemon found them.
    pub source: Option<&'static str>,
    /// Why this source is used, as text for people.
    #[serde(skip)]
    pub source_reason: Option<&'static str>,
    /// Nodes with memory, the columns of the table.
    #[serde(skip)]
    pub columns: Vec<u32>,
    /// The processes, each with the memory that no other process of the target maps.
    pub processes: Vec<ProcessDoc>,
    /// Memory that several processes of the target map, counted once.
    pub shared: PlacedDoc,
    /// All of the above.
    pub total: PlacedDoc,
    /// Resident bytes whose node could not be found out.
    pub unplaced_bytes: u64,
    /// What memory.numa_stat of the cgroups says, if cgroups were named.
    pub cgroups: Vec<CgroupDoc>,
    /// What of the target is left out: none of the numbers include it.
    pub missing: Vec<MissingDoc>,
}

/// A process.
#[derive(Clone, Debug, Serialize)]
pub struct ProcessDoc {
    /// Its pid.
    pub pid: i32,
    /// Its start, in clock ticks after boot.
    pub start_time_ticks: u64,
    /// Its name.
    pub comm: String,
    /// The CPUs that it may use, as the kernel lists them.
    pub cpus: String,
    /// Nodes where its memory belongs.
    pub home_nodes: Vec<u32>,
    /// Threads that may run on other nodes than the busiest threads, the busiest of them first, at most 16.
    pub wide_threads: Vec<WideThreadDoc>,
    /// Number of such threads.
    pub wide_thread_count: u64,
    /// Why none of its memory is moved: `no_target_node` or `no_local_memory`; null if it takes part.
    pub skip: Option<&'static str>,
    /// The reason as a value, for text.
    #[serde(skip)]
    pub skip_reason: Option<&'static str>,
    /// Its memory.
    #[serde(flatten)]
    pub placed: PlacedDoc,
}

/// A thread that may run on other nodes than the busiest threads of its process.
#[derive(Clone, Debug, Serialize)]
pub struct WideThreadDoc {
    /// Its id.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// The CPUs that it may use, as the kernel lists them.
    pub cpus: String,
    /// CPU time that it has used since it started.
    pub cpu_seconds: f64,
    /// Its share of the CPU time that all threads have used since they started.
    pub cpu_percent: f64,
}

impl WideThreadDoc {
    /// A thread. The share is in percent and keeps two decimals.
    pub fn new(tid: i32, comm: String, cpus: String, cpu_seconds: f64, cpu_percent: f64) -> Self {
        let cpu_percent = (cpu_percent * 100.0).round() / 100.0;
        Self { tid, comm, cpus, cpu_seconds, cpu_percent }
    }
}

impl From<WideThread<'_>> for WideThreadDoc {
    fn from(wide: WideThread<'_>) -> Self {
        let (thread, cpus) = (wide.thread, wide.cpus.to_string());
        let seconds = thread.cpu_time.as_secs_f64();
        Self::new(thread.tid, thread.comm.clone(), cpus, seconds, wide.cpu_percent)
    }
}

/// Memory by node, with its locality.
#[derive(Clone, Debug, Serialize)]
pub struct PlacedDoc {
    /// Resident bytes by node.
    pub nodes: Vec<NodeBytes>,
    /// Resident bytes on all of them.
    pub resident_bytes: u64,
    /// How much of it is local.
    pub locality: LocalityPair,
}

/// The kernel's own count for a cgroup.
#[derive(Clone, Debug, Serialize)]
pub struct CgroupDoc {
    /// Its path.
    pub path: String,
    /// Bytes by node, including page cache, without hugetlb memory.
    pub nodes: Vec<NodeBytes>,
    /// Share on the home nodes of the target's processes; null if these have different home nodes.
    pub local_percent: Option<f64>,
}

impl PlacedDoc {
    fn new(resident: &BTreeMap<NodeId, u64>, locality: Locality) -> Self {
        Self {
            nodes: node_bytes(resident),
            resident_bytes: resident.values().sum(),
            locality: locality.into(),
        }
    }

    /// Bytes on one node.
    pub fn on(&self, node: u32) -> u64 {
        self.nodes.iter().find(|entry| entry.node == node).map_or(0, |entry| entry.bytes)
    }
}

impl From<&PlannedProcess> for ProcessDoc {
    fn from(planned: &PlannedProcess) -> Self {
        let process = &planned.process;
        Self {
            pid: process.identity.pid,
            start_time_ticks: process.identity.start_time,
            comm: process.comm.clone(),
            cpus: process.cpus.to_string(),
            home_nodes: ids(&planned.home),
            wide_threads: planned.wide_threads_by_name().into_iter().map(Into::into).collect(),
            wide_thread_count: planned.wide_thread_count() as u64,
            skip: planned.skip.map(skip_name),
            skip_reason: planned.skip.map(Skip::message),
            placed: PlacedDoc::new(&planned.resident, planned.locality),
        }
    }
}

/// The stable name of the reason for which a process is skipped.
pub fn skip_name(skip: Skip) -> &'static str {
    match skip {
        Skip::NoTargetNode => "no_target_node",
        Skip::NoLocalMemory => "no_local_memory",
    }
}

impl LocalityDoc {
    /// A document from a look at a target and the kernel's counts for the named cgroups.
    pub fn new(inspected: &Inspection, cgroups: &[(String, BTreeMap<NodeId, u64>)]) -> Self {
        let Inspection { topology, plan, source, missing } = inspected;
        let mut total = plan.family_resident.clone();
        for (&node, bytes) in plan.processes.iter().flat_map(|process| &process.resident) {
            *total.entry(node).or_default() += bytes;
        }
        let home = common_home(plan);
        let columns = topology.with_memory().or(&total.keys().copied().collect());
        Self {
            source: Some(source_name(*source)),
            source_reason: Some(source_reason(*source)),
            columns: ids(&columns),
            processes: plan.processes.iter().map(ProcessDoc::from).collect(),
            shared: PlacedDoc::new(&plan.family_resident, plan.family_locality),
            total: PlacedDoc::new(&total, plan.locality),
            unplaced_bytes: plan.unplaced_bytes,
            cgroups: cgroups.iter().map(|(path, nodes)| cgroup(path, nodes, home)).collect(),
            missing: missing.iter().map(Into::into).collect(),
        }
    }
}

/// The home of all processes if they have the same one. A cgroup's count does not say which process has its memory where.
fn common_home(plan: &Plan) -> Option<&NodeSet> {
    let mut homes = plan.processes.iter().map(|process| &process.home);
    let first = homes.next()?;
    homes.all(|home| home == first).then_some(first)
}

fn cgroup(path: &str, nodes: &BTreeMap<NodeId, u64>, home: Option<&NodeSet>) -> CgroupDoc {
    let percent = |home: &NodeSet| {
        let mut share = Share::default();
        for (&node, &bytes) in nodes {
            match home.contains(node) {
                true => share.local_bytes += bytes,
                false => share.remote_bytes += bytes,
            }
        }
        ShareDoc::from(share).local_percent
    };
    CgroupDoc { path: path.to_owned(), nodes: node_bytes(nodes), local_percent: home.map(percent) }
}
