//! The document of `top`: rows of nodes, workloads and processes.

mod detail;

pub use detail::{DetailDoc, MappingDoc, ThreadDoc};

use super::parts::NodeBytes;
use crate::{
    fields::{amount, node, seconds, span},
    job::progressed,
};
use numaloc_api::{Known, v1};
use numaloc_core::{NodeKind, NodeMemory, SMALLEST_PAGE, rotation::FIRST};
use prost_types::Timestamp;
use serde::{Serialize, Serializer};

/// The host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopDoc {
    #[serde(serialize_with = "as_text")]
    pub time: Option<Timestamp>,
    /// Whether the daemon or this program has scanned.
    pub source: TopSource,
    /// Size of a base page of the host, which the kernel's counts of pages are in.
    pub page_bytes: u64,
    pub nodes: Vec<TopNodeDoc>,
    /// Memory traffic of the CPUs of the host; null where nothing counts it.
    pub traffic: Option<TrafficDoc>,
    /// Workloads: cgroups that have processes.
    pub workloads: Vec<TopRowDoc>,
    /// Processes that have memory, in the order of the sort column.
    pub processes: Vec<TopRowDoc>,
    /// Processes that have not been looked at yet.
    pub unseen_count: u64,
    /// Processes whose page map may not be read.
    pub hidden_count: u64,
    /// Processes that the daemon left out, because there are too many for an answer.
    pub left_out_count: u64,
    /// CPU time that was used for looking, in percent of one CPU, since the beginning and without the first look's
    /// allowance, which is beyond the budget.
    pub cpu_used_percent: f64,
}

fn as_text<S: Serializer>(time: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.to_string()).serialize(serializer)
}

/// The program that has scanned the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TopSource {
    #[default]
    Standalone,
    Daemon,
}

impl TopSource {
    /// As the screen shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standalone => "standalone",
            Self::Daemon => "daemon",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopNodeDoc {
    pub node: u32,
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Page cache in bytes that the kernel drops before all else.
    pub reclaimable_bytes: u64,
    /// Load of its CPUs; null where it has none, and at the first scan.
    pub cpu_percent: Option<f64>,
    /// Pages a second that were meant for it and went elsewhere.
    pub foreign_per_second: Option<f64>,
    /// Bytes that numaloc has moved there since the beginning.
    pub moved_in_bytes: u64,
    /// Bytes that numaloc has moved away since the beginning.
    pub moved_out_bytes: u64,
    /// The node's memory tier; null where the kernel has none.
    pub tier: Option<u32>,
    /// What its memory is, such as `dram` or `persistent`; null if an older daemon does not say it.
    pub kind: Option<&'static str>,
    /// Whether memory of others there counts as demoted.
    pub is_lower_tier: bool,
    /// Bytes a second that CPUs read from and write to its memory; null where nothing says it.
    pub traffic_bytes_per_second: Option<u64>,
    /// Whether that is a lower bound.
    pub traffic_is_lower_bound: bool,
}

/// Memory traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TrafficDoc {
    /// With memory that is local to the caches that cause it.
    pub local_bytes_per_second: u64,
    /// With all other memory.
    pub remote_bytes_per_second: u64,
}

impl TrafficDoc {
    fn new(message: v1::MemoryTraffic) -> Self {
        Self {
            local_bytes_per_second: amount(message.local_bytes_per_second),
            remote_bytes_per_second: amount(message.remote_bytes_per_second),
        }
    }

    /// Local and remote traffic.
    pub fn bytes_per_second(self) -> u64 {
        self.local_bytes_per_second.saturating_add(self.remote_bytes_per_second)
    }
}

/// A workload or a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopRowDoc {
    /// Its pid; null for a workload.
    pub pid: Option<i32>,
    /// Start time of the process.
    pub start_time_ticks: Option<u64>,
    /// Name of the process; null for a workload.
    pub comm: Option<String>,
    pub cgroup: Option<String>,
    /// The name of the container, pod or machine that this cgroup is of, with what is below it in the path; null if none is known.
    pub container: Option<String>,
    /// Number of its processes; 1 for a process.
    pub process_count: u64,
    /// The nodes of its CPUs.
    pub home_nodes: Vec<u32>,
    /// Whether these are all nodes of more than one: its memory is local wherever it is.
    pub is_unpinned: bool,
    /// Other nodes that are near to these.
    pub near_nodes: Vec<u32>,
    /// Resident memory in bytes, of the same look as its parts; before the first look by the kernel's count, and null
    /// where the kernel does not count.
    pub resident_bytes: Option<u64>,
    /// Page cache of a workload that no process has mapped. The other amounts do not include it; null for a process.
    pub cache_bytes: Option<u64>,
    /// On home nodes; null before the first look.
    pub local_bytes: Option<u64>,
    pub remote_bytes: Option<u64>,
    /// The part of the remote bytes that is on nodes near to home.
    pub near_bytes: Option<u64>,
    /// On nodes of lower tiers: neither local nor remote.
    pub demoted_bytes: Option<u64>,
    /// Local bytes in percent of local and remote ones; null if it is unpinned.
    pub local_percent: Option<f64>,
    /// By node, as of the last look.
    pub by_node: Vec<NodeBytes>,
    /// Age of the scan.
    pub age_seconds: Option<f64>,
    /// Whether its page map may not be read.
    pub is_hidden: bool,
    /// In percent of one CPU; null at the first look.
    pub cpu_percent: Option<f64>,
    /// Bytes moved by migrations of numaloc since the beginning.
    pub moved_bytes: u64,
    /// Pages moved by the kernel's balancing.
    pub kernel_migrated_pages: Option<u64>,
    /// The same in bytes, for the table.
    #[serde(skip)]
    pub kernel_migrated_bytes: Option<u64>,
    /// Pages of a workload that the kernel has demoted to a lower tier.
    pub kernel_demoted_pages: Option<u64>,
    /// Pages of a workload that the kernel has promoted from a lower tier.
    pub kernel_promoted_pages: Option<u64>,
    /// Faults of a workload that the kernel's balancing has caused.
    pub kernel_hint_faults: Option<u64>,
    /// Memory traffic of a workload that has a monitoring group of its own, in bytes a second.
    pub traffic_bytes_per_second: Option<u64>,
    /// The remote part of this traffic.
    pub remote_traffic_bytes_per_second: Option<u64>,
    /// The migration that works on it.
    pub job: Option<String>,
    /// The reason why the job is throttled at the moment.
    pub held_back: Option<String>,
}

impl TopRowDoc {
    /// The name of a process, or that of a container, or the path of a cgroup.
    pub fn name(&self) -> &str {
        let of_workload = self.container.as_deref().or(self.cgroup.as_deref());
        self.comm.as_deref().or(of_workload).unwrap_or_default()
    }
}

impl TopDoc {
    /// The document of a view that `source` has made.
    pub fn new(view: &v1::LiveView, source: TopSource) -> Self {
        let looked = span(view.used_time).saturating_sub(FIRST).as_secs_f64();
        let nodes: Vec<TopNodeDoc> = view.nodes.iter().map(|each| one(each, &view.flows)).collect();
        // A daemon from before that field has pages of 4 KiB.
        let page_bytes =
            Some(amount(view.page_bytes)).filter(|&it| it > 0).unwrap_or(SMALLEST_PAGE);
        let finished = |row: TopRowDoc| {
            let bytes = row.kernel_migrated_pages.map(|pages| pages.saturating_mul(page_bytes));
            unless_unpinned(TopRowDoc { kernel_migrated_bytes: bytes, ..row }, &nodes)
        };
        let workloads = view.groups.iter().map(|group| finished(workload(group, view))).collect();
        let processes = view.processes.iter().map(|each| finished(process(each, view))).collect();
        Self {
            // To the millisecond.
            time: view
                .read_time
                .map(|time| Timestamp { nanos: time.nanos - time.nanos % 1_000_000, ..time }),
            source,
            page_bytes,
            nodes,
            traffic: view.traffic.map(TrafficDoc::new),
            workloads,
            processes,
            unseen_count: count(view.unseen_count),
            hidden_count: count(view.hidden_count),
            left_out_count: count(view.left_out_count),
            cpu_used_percent: rounded(looked * 100.0 / seconds(view.up_time).max(1e-3)),
        }
    }
}

fn count(number: i32) -> u64 {
    amount(number.into())
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

fn ids(indexes: &[i32]) -> Vec<u32> {
    indexes.iter().copied().map(node).collect()
}

fn by_node(nodes: &[v1::NodeBytes]) -> Vec<NodeBytes> {
    nodes.iter().map(|on| NodeBytes { node: node(on.node_id), bytes: amount(on.bytes) }).collect()
}

fn sum(nodes: &[v1::NodeBytes]) -> u64 {
    nodes.iter().map(|on| amount(on.bytes)).sum()
}

fn one(message: &v1::LiveNode, flows: &[v1::Flow]) -> TopNodeDoc {
    let moved = |end: fn(&v1::Flow) -> i32| {
        let flows = flows.iter().filter(|flow| end(flow) == message.node_id);
        flows.map(|flow| amount(flow.bytes)).sum()
    };
    let memory = NodeMemory {
        cache_bytes: amount(message.cache_bytes),
        protected_bytes: amount(message.protected_bytes),
        ..NodeMemory::default()
    };
    TopNodeDoc {
        node: node(message.node_id),
        total_bytes: amount(message.total_bytes),
        free_bytes: amount(message.free_bytes),
        reclaimable_bytes: memory.droppable_bytes(),
        cpu_percent: message.cpu_percent.map(rounded),
        foreign_per_second: message.foreign_per_second.map(rounded),
        moved_in_bytes: moved(|flow| flow.to_node_id),
        moved_out_bytes: moved(|flow| flow.from_node_id),
        tier: message.memory_tier.map(node),
        kind: NodeKind::known(message.kind).flatten().map(NodeKind::name),
        is_lower_tier: message.is_lower_tier,
        traffic_bytes_per_second: message.traffic.map(|it| amount(it.bytes_per_second)),
        traffic_is_lower_bound: message.traffic.is_some_and(|it| it.is_lower_bound),
    }
}

/// Fills in the shares of the memory of a row.
fn place(row: &mut TopRowDoc, nodes: &[v1::NodeBytes], shares: Option<&v1::LiveShares>) {
    row.by_node = by_node(nodes);
    // Without CPUs that are online there is no home, and so no share.
    let Some(shares) = shares else { return };
    let (local, remote) = (amount(shares.local_bytes), amount(shares.remote_bytes));
    (row.local_bytes, row.remote_bytes) = (Some(local), Some(remote));
    row.near_bytes = Some(amount(shares.near_bytes));
    row.demoted_bytes = Some(amount(shares.demoted_bytes));
    // Rounded down: 100 means all.
    let percent = |all: u64| (local as f64 * 10_000.0 / all as f64).floor() / 100.0;
    row.local_percent = Some(local + remote).filter(|&all| all > 0).map(percent);
}

/// Takes the share from a row that has one only because it may run everywhere.
fn unless_unpinned(row: TopRowDoc, nodes: &[TopNodeDoc]) -> TopRowDoc {
    let near = nodes.iter().filter(|node| node.total_bytes > 0 && !node.is_lower_tier);
    let is_unpinned =
        near.clone().count() > 1 && near.clone().all(|node| row.home_nodes.contains(&node.node));
    let local_percent = row.local_percent.filter(|_| !is_unpinned);
    TopRowDoc { is_unpinned, local_percent, ..row }
}

fn process(message: &v1::LiveProcess, view: &v1::LiveView) -> TopRowDoc {
    let identity = message.process.unwrap_or_default();
    let group = message.group_index.and_then(|index| view.groups.get(usize::try_from(index).ok()?));
    let mut row = TopRowDoc {
        pid: Some(identity.pid),
        start_time_ticks: Some(amount(identity.start_time_ticks)),
        comm: Some(message.comm.clone()),
        cgroup: group.map(|group| group.cgroup.clone()),
        container: group.and_then(container),
        process_count: 1,
        home_nodes: ids(&message.home_node_ids),
        near_nodes: ids(&message.near_node_ids),
        resident_bytes: Some(amount(message.resident_bytes)),
        cpu_percent: message.cpu_percent.map(rounded),
        is_hidden: message.is_hidden,
        moved_bytes: amount(message.moved_bytes),
        ..TopRowDoc::default()
    };
    if let Some(pages) = &message.pages {
        place(&mut row, &pages.nodes, pages.shares.as_ref());
        // From the same scan as its parts: RSS of another moment, which counts otherwise, would not be their sum.
        row.resident_bytes = Some(sum(&pages.nodes) + amount(pages.unplaced_bytes));
        row.age_seconds = Some(seconds(pages.age));
        row.kernel_migrated_pages = pages.kernel_migrated_pages.map(amount);
    }
    mark(&mut row, &message.job_indexes, &view.jobs);
    row
}

fn container(group: &v1::LiveGroup) -> Option<String> {
    Some(group.name.clone()).filter(|name| !name.is_empty())
}

fn workload(message: &v1::LiveGroup, view: &v1::LiveView) -> TopRowDoc {
    let traffic = message.traffic.map(TrafficDoc::new);
    let mut row = TopRowDoc {
        cgroup: Some(message.cgroup.clone()),
        container: container(message),
        process_count: count(message.process_count),
        home_nodes: ids(&message.home_node_ids),
        near_nodes: ids(&message.near_node_ids),
        cpu_percent: message.cpu_percent.map(rounded),
        kernel_migrated_pages: message.kernel_migrated_pages.map(amount),
        kernel_demoted_pages: message.kernel_demoted_pages.map(amount),
        kernel_promoted_pages: message.kernel_promoted_pages.map(amount),
        kernel_hint_faults: message.kernel_hint_faults.map(amount),
        traffic_bytes_per_second: traffic.map(TrafficDoc::bytes_per_second),
        remote_traffic_bytes_per_second: traffic.map(|traffic| traffic.remote_bytes_per_second),
        moved_bytes: amount(message.moved_bytes),
        ..TopRowDoc::default()
    };
    if message.is_counted {
        place(&mut row, &message.own_nodes, message.own_shares.as_ref());
        row.resident_bytes = Some(sum(&message.own_nodes));
        row.cache_bytes = Some(amount(message.own_cache_bytes));
        row.age_seconds = message.age.map(|age| seconds(Some(age)));
    }
    mark(&mut row, &message.job_indexes, &view.jobs);
    row
}

/// Shows the first job on a row: that one moves, if any does.
fn mark(row: &mut TopRowDoc, indexes: &[i32], jobs: &[v1::LiveJob]) {
    let job = |&index: &i32| jobs.get(usize::try_from(index).ok()?);
    let Some(job) = indexes.iter().find_map(job) else { return };
    // The work of this process has no record.
    let name = if job.job.is_empty() { "here" } else { &job.job };
    row.job = Some(format!("{name} {}", progressed(job.state(), job.progress.as_ref())));
    let held_back = job.progress.iter().map(|progress| &progress.held_back);
    row.held_back = held_back.chain([&job.state_message]).find(|why| !why.is_empty()).cloned();
}

#[cfg(test)]
mod tests;
