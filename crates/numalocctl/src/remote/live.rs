//! The daemon's state of its host, for a live view.

use super::{Daemon, ask, client};
use crate::{
    doc::{RowJob, RowJobs},
    exit::Failure,
    fields::{amount, node, span},
    job::progressed,
};
use numaloc_api::v1;
use numaloc_core::{
    Identity, Kind, NodeId, NodeMemory, NodeSet,
    live::{
        CountedMemory, Detail, GroupNow, MappingNow, NodeNow, ProcessNow, Seen, Snapshot, ThreadNow,
    },
};
use std::{collections::BTreeMap, time::Duration};

/// A host as its daemon knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostView {
    pub snapshot: Snapshot,
    /// Its jobs on processes and cgroups.
    pub jobs: RowJobs,
    /// Processes that did not fit into the answer.
    pub left_out: usize,
    /// For how long the daemon has been looking.
    pub up: Duration,
}

impl Daemon {
    /// The daemon's latest state of its host. It watches `process` closely from now on.
    pub fn live_view(&self, process: Option<Identity>) -> Result<HostView, Failure> {
        let message = v1::GetLiveViewRequest { process: process.map(Into::into) };
        let answer =
            ask!(self, locality_service_client::LocalityServiceClient.get_live_view, message)?;
        Ok(view(&answer.view.unwrap_or_default()))
    }
}

/// A host from a message.
pub fn view(message: &v1::LiveView) -> HostView {
    let count = |number: i32| usize::try_from(number).unwrap_or(0);
    let group = |group: &v1::LiveGroup| (group.cgroup.clone(), self::group(group));
    let snapshot = Snapshot {
        nodes: message.nodes.iter().map(one).collect(),
        processes: message.processes.iter().map(|each| process(each, &message.groups)).collect(),
        groups: message.groups.iter().map(group).collect(),
        details: message.detail.iter().map(detail).collect(),
        unseen: count(message.unseen_count),
        hidden: count(message.hidden_count),
        used: span(message.used_time),
    };
    HostView {
        snapshot,
        jobs: jobs(message),
        left_out: count(message.left_out_count),
        up: span(message.up_time),
    }
}

/// The jobs on each row that has some, as the daemon has matched them.
fn jobs(message: &v1::LiveView) -> RowJobs {
    let row = |indexes: &[i32], moved_bytes: i64| {
        let mut jobs =
            indexes.iter().filter_map(|&index| message.jobs.get(usize::try_from(index).ok()?));
        // The first one moves, if any does.
        let first = jobs.next();
        let row = RowJob {
            job: first.map(|job| {
                format!("{} {}", job.job, progressed(job.state(), job.progress.as_ref()))
            }),
            held_back: first.and_then(why),
            moved_bytes: amount(moved_bytes),
        };
        (row != RowJob::default()).then_some(row)
    };
    let process = |process: &v1::LiveProcess| {
        let row = row(&process.job_indexes, process.moved_bytes)?;
        Some((identity(process.process.as_ref()), row))
    };
    let group = |group: &v1::LiveGroup| {
        Some((group.cgroup.clone(), row(&group.job_indexes, group.moved_bytes)?))
    };
    RowJobs {
        processes: message.processes.iter().filter_map(process).collect(),
        groups: message.groups.iter().filter_map(group).collect(),
    }
}

/// The reason why a job is throttled or cannot move.
fn why(job: &v1::LiveJob) -> Option<String> {
    let held_back = job.progress.iter().map(|progress| &progress.held_back);
    held_back.chain([&job.state_message]).find(|why| !why.is_empty()).cloned()
}

fn identity(message: Option<&v1::ProcessId>) -> Identity {
    let (pid, start_time) =
        message.map_or((0, 0), |process| (process.pid, amount(process.start_time_ticks)));
    Identity { pid, start_time }
}

fn set(indexes: &[i32]) -> NodeSet {
    indexes.iter().map(|&index| NodeId(node(index))).collect()
}

fn by_node(nodes: &[v1::NodeBytes]) -> BTreeMap<NodeId, u64> {
    nodes.iter().map(|each| (NodeId(node(each.node_id)), amount(each.bytes))).collect()
}

fn one(message: &v1::LiveNode) -> NodeNow {
    NodeNow {
        id: NodeId(node(message.node_id)),
        memory: NodeMemory {
            total_bytes: amount(message.total_bytes),
            free_bytes: amount(message.free_bytes),
            cache_bytes: amount(message.cache_bytes),
            protected_bytes: amount(message.protected_bytes),
            // The view does not show the rest.
            ..NodeMemory::default()
        },
        cpu_percent: message.cpu_percent,
        foreign_per_second: message.foreign_per_second,
        tier: message.memory_tier.map(node),
    }
}

fn group(message: &v1::LiveGroup) -> GroupNow {
    GroupNow {
        memory: message.is_counted.then(|| CountedMemory {
            nodes: by_node(&message.nodes),
            cache: by_node(&message.cache_nodes),
            ..CountedMemory::default()
        }),
        kernel_migrated_pages: message.kernel_migrated_pages.map(amount),
        age: message.age.map(|age| span(Some(age))),
    }
}

fn process(message: &v1::LiveProcess, groups: &[v1::LiveGroup]) -> ProcessNow {
    let group = message.group_index.and_then(|index| groups.get(usize::try_from(index).ok()?));
    ProcessNow {
        identity: identity(message.process.as_ref()),
        comm: message.comm.clone(),
        cgroup: group.map(|group| group.cgroup.clone()),
        home: set(&message.home_node_ids),
        near: set(&message.near_node_ids),
        resident_bytes: amount(message.resident_bytes),
        cpu_percent: message.cpu_percent,
        threads: amount(message.thread_count),
        seen: match &message.pages {
            Some(pages) => Seen::Pages {
                nodes: by_node(&pages.nodes),
                unplaced_bytes: amount(pages.unplaced_bytes),
                kernel_migrated_pages: pages.kernel_migrated_pages.map(amount),
                age: span(pages.age),
            },
            None if message.is_hidden => Seen::Hidden,
            None => Seen::Never,
        },
    }
}

fn detail(message: &v1::LiveDetail) -> Detail {
    Detail {
        identity: identity(message.process.as_ref()),
        threads: message.threads.iter().map(thread).collect(),
        mappings: message.mappings.iter().map(mapping).collect(),
    }
}

fn thread(message: &v1::LiveThread) -> ThreadNow {
    ThreadNow {
        tid: message.tid,
        comm: message.comm.clone(),
        home: set(&message.home_node_ids),
        node: message.node_id.map(|index| NodeId(node(index))),
        cpu_percent: message.cpu_percent,
    }
}

fn mapping(message: &v1::LiveMapping) -> MappingNow {
    MappingNow {
        start: message.start_address,
        bytes: amount(message.length_bytes),
        kind: match message.kind() {
            v1::MemoryKind::Heap => Kind::Heap,
            v1::MemoryKind::Stack => Kind::Stack,
            v1::MemoryKind::File => Kind::File,
            v1::MemoryKind::NetworkFile => Kind::NetworkFile,
            v1::MemoryKind::Shmem => Kind::Shmem,
            // Also what only a newer daemon knows.
            v1::MemoryKind::Anonymous | v1::MemoryKind::Unspecified => Kind::Anonymous,
        },
        name: message.name.as_str().into(),
        shared: message.is_shared,
        nodes: by_node(&message.nodes),
    }
}
