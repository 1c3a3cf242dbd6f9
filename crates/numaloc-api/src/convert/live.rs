//! The message of a live view.

mod working;

pub use working::{WorkingJob, moved_of};

use super::{
    locality::{flows, node_bytes},
    names::{duration, index, int, int32, timestamp},
    placement::node_ids,
};
use crate::v1;
use numaloc_core::{
    Identity, NodeId, NodeSet, NodeTraffic, Traffic,
    live::{
        Detail, GroupNow, LiveShares, MappingNow, NodeNow, ProcessNow, Seen, Snapshot, ThreadNow,
        WorkloadNow,
    },
    page_size,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};
use working::Work;

/// Most bytes of the processes and cgroups of an answer, approximately. Many clients take no answer above 4 MiB.
const MOST_BYTES: usize = 3 << 20;
/// The same for the threads and for the mappings of one process, and most of each.
const MOST_DETAIL_BYTES: usize = 256 << 10;
const MOST_DETAILS: usize = 4096;
/// Upper bound of the encoded size of a number of bytes on a node, in bytes.
const NODE_BYTES: usize = 16;

/// The view of a host, and the data that it is made of.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotView<'a> {
    /// The nodes and processes as of the last look.
    pub snapshot: &'a Snapshot,
    /// The jobs whose work is shown: moving jobs first, then by number, and behind them the ones that have ended.
    pub jobs: &'a [WorkingJob],
    /// The process whose details are wanted, and whether its mappings may be told.
    pub detail: Option<(Identity, bool)>,
    /// Time since looking began.
    pub up: Duration,
    /// When the snapshot was made, by the host's wall clock.
    pub time: SystemTime,
    /// Bytes that have been moved, by the nodes from and to which they were.
    pub flows: &'a BTreeMap<(NodeId, NodeId), u64>,
    /// Whether it has the bounds of an answer to a client; else it has everything.
    pub is_bounded: bool,
}

impl From<SnapshotView<'_>> for v1::LiveView {
    fn from(view: SnapshotView<'_>) -> Self {
        let SnapshotView { snapshot, jobs, detail, up, time, flows: moved, is_bounded } = view;
        let bound = |bytes: usize| if is_bounded { bytes } else { usize::MAX };
        let (shown, work) = (shown(snapshot, bound(MOST_BYTES)), Work::of(snapshot, jobs));
        let paths: BTreeSet<&str> =
            shown.iter().filter_map(|process| process.cgroup.as_deref()).collect();
        let numbers: BTreeMap<&str, i32> = paths.iter().copied().zip(0..).collect();
        let (workloads, lower) = (snapshot.workloads(), snapshot.lower_tiers());
        let groups = workloads.iter().filter(|workload| paths.contains(workload.cgroup));
        let detail = detail.and_then(|(identity, may_see)| {
            let found = snapshot.details.iter().find(|detail| detail.identity == identity)?;
            let bounds = (bound(MOST_DETAIL_BYTES), bound(MOST_DETAILS));
            Some(self::detail(found, may_see, bounds))
        });
        Self {
            nodes: snapshot.nodes.iter().map(node).collect(),
            groups: groups
                .map(|each| group(each, snapshot.groups.get(each.cgroup), &lower, &work))
                .collect(),
            processes: shown.iter().map(|each| process(each, &numbers, &lower, &work)).collect(),
            jobs: work.jobs(),
            detail,
            unseen_count: int32(snapshot.unseen),
            hidden_count: int32(snapshot.hidden),
            left_out_count: int32(snapshot.processes.len() - shown.len()),
            used_time: Some(duration(snapshot.used)),
            up_time: Some(duration(up)),
            read_time: Some(timestamp(time)),
            flows: flows(moved),
            traffic: snapshot.traffic.map(Into::into),
            page_bytes: int(page_size()),
        }
    }
}

impl From<Traffic> for v1::MemoryTraffic {
    fn from(traffic: Traffic) -> Self {
        Self {
            local_bytes_per_second: int(traffic.local_bytes_per_second),
            remote_bytes_per_second: int(traffic.remote_bytes_per_second),
        }
    }
}

impl From<NodeTraffic> for v1::NodeTraffic {
    fn from(traffic: NodeTraffic) -> Self {
        let NodeTraffic { bytes_per_second, is_whole } = traffic;
        Self { bytes_per_second: int(bytes_per_second), is_lower_bound: !is_whole }
    }
}

/// The processes that have room in an answer of `most_bytes`, in order of their pid.
fn shown(snapshot: &Snapshot, most_bytes: usize) -> Vec<&ProcessNow> {
    let mut told = BTreeSet::new();
    let bytes = |process: &ProcessNow| process.resident_bytes;
    let mut shown = fitting(&snapshot.processes, most_bytes, bytes, |process| {
        let nodes = match &process.seen {
            Seen::Pages { nodes, .. } => nodes.len(),
            Seen::Never | Seen::Hidden => 0,
        };
        let group = process.cgroup.as_deref().filter(|path| told.insert(*path));
        let group = group.map_or(0, |path| {
            let group = snapshot.groups.get(path);
            let memory = group.and_then(|group| group.memory.as_ref());
            let nodes = memory.map_or(0, |memory| 2 * memory.nodes.len() + memory.cache.len());
            let name = group.and_then(|group| group.name.as_ref()).map_or(0, String::len);
            128 + working::ROW_BYTES + path.len() + name + nodes * NODE_BYTES
        });
        // The workload may have all of them, too.
        let ids = 2 * (process.home.len() + process.near.len());
        128 + working::ROW_BYTES + process.comm.len() + 2 * ids + nodes * NODE_BYTES + group
    });
    shown.sort_by_key(|process| process.identity);
    shown
}

/// The values that have room, the ones with most memory first.
fn fitting<'a, T>(
    all: &'a [T],
    most_bytes: usize,
    memory: impl Fn(&T) -> u64,
    mut size: impl FnMut(&'a T) -> usize,
) -> Vec<&'a T> {
    let mut sorted: Vec<&'a T> = all.iter().collect();
    sorted.sort_by_key(|each| Reverse(memory(each)));
    let (mut used, mut count) = (0, 0);
    for &each in &sorted {
        used += size(each);
        if used > most_bytes {
            break;
        }
        count += 1;
    }
    sorted.truncate(count);
    sorted
}

fn ids(nodes: &NodeSet) -> Vec<i32> {
    node_ids(nodes).collect()
}

fn node(node: &NodeNow) -> v1::LiveNode {
    v1::LiveNode {
        node_id: index(node.id.0),
        total_bytes: int(node.memory.total_bytes),
        free_bytes: int(node.memory.free_bytes),
        cache_bytes: int(node.memory.cache_bytes),
        protected_bytes: int(node.memory.protected_bytes),
        cpu_percent: node.cpu_percent,
        foreign_per_second: node.foreign_per_second,
        memory_tier: node.tier.map(index),
        kind: node.kind.map_or(0, |kind| v1::NodeKind::from(kind).into()),
        is_lower_tier: node.is_lower_tier,
        traffic: node.traffic.map(Into::into),
    }
}

fn group(
    workload: &WorkloadNow<'_>,
    group: Option<&GroupNow>,
    lower: &NodeSet,
    work: &Work<'_>,
) -> v1::LiveGroup {
    let WorkloadNow { cgroup, process_count, home, near, cpu_percent, own } = workload;
    let (job_indexes, moved_bytes) = work.on_group(cgroup);
    let memory = group.and_then(|group| group.memory.as_ref());
    let kernel = group.map(|group| group.kernel).unwrap_or_default();
    let own = own.as_ref();
    v1::LiveGroup {
        cgroup: (*cgroup).to_owned(),
        nodes: memory.map_or(Vec::new(), |memory| node_bytes(&memory.nodes)),
        cache_nodes: memory.map_or(Vec::new(), |memory| node_bytes(&memory.cache)),
        is_counted: memory.is_some(),
        kernel_migrated_pages: kernel.migrated_pages.map(int),
        age: group.and_then(|group| group.age).map(duration),
        job_indexes,
        moved_bytes,
        process_count: int32(*process_count),
        home_node_ids: ids(home),
        near_node_ids: ids(near),
        cpu_percent: *cpu_percent,
        own_nodes: own.map_or(Vec::new(), |own| node_bytes(&own.nodes)),
        own_cache_bytes: own.map_or(0, |own| int(own.cache.values().sum())),
        own_shares: own.and_then(|own| shares(&own.nodes, home, near, lower)),
        kernel_demoted_pages: kernel.demoted_pages.map(int),
        kernel_promoted_pages: kernel.promoted_pages.map(int),
        kernel_hint_faults: kernel.hint_faults.map(int),
        traffic: group.and_then(|group| group.traffic).map(Into::into),
        name: group.and_then(|group| group.name.clone()).unwrap_or_default(),
    }
}

fn shares(
    nodes: &BTreeMap<NodeId, u64>,
    home: &NodeSet,
    near: &NodeSet,
    lower: &NodeSet,
) -> Option<v1::LiveShares> {
    let LiveShares { local_bytes, remote_bytes, near_bytes, demoted_bytes } =
        LiveShares::of(nodes, home, near, lower)?;
    Some(v1::LiveShares {
        local_bytes: int(local_bytes),
        remote_bytes: int(remote_bytes),
        near_bytes: int(near_bytes),
        demoted_bytes: int(demoted_bytes),
    })
}

fn process(
    process: &ProcessNow,
    groups: &BTreeMap<&str, i32>,
    lower: &NodeSet,
    work: &Work<'_>,
) -> v1::LiveProcess {
    let (job_indexes, moved_bytes) = work.on_process(process.identity);
    let pages = match &process.seen {
        Seen::Never | Seen::Hidden => None,
        Seen::Pages { nodes, unplaced_bytes, kernel_migrated_pages, age } => Some(v1::LivePages {
            nodes: node_bytes(nodes),
            unplaced_bytes: int(*unplaced_bytes),
            kernel_migrated_pages: kernel_migrated_pages.map(int),
            age: Some(duration(*age)),
            shares: shares(nodes, &process.home, &process.near, lower),
        }),
    };
    v1::LiveProcess {
        process: Some(process.identity.into()),
        comm: process.comm.clone(),
        group_index: process.cgroup.as_deref().and_then(|path| groups.get(path).copied()),
        home_node_ids: ids(&process.home),
        near_node_ids: ids(&process.near),
        resident_bytes: int(process.resident_bytes),
        cpu_percent: process.cpu_percent,
        thread_count: int(process.threads),
        is_hidden: process.seen == Seen::Hidden,
        pages,
        job_indexes,
        moved_bytes,
    }
}

/// `bounds`: the most bytes of its threads and of its mappings, and the most of each.
fn detail(detail: &Detail, may_see: bool, bounds: (usize, usize)) -> v1::LiveDetail {
    let (most_bytes, most) = bounds;
    // No thread is larger than this: the first ones are shown.
    let size = |thread: &ThreadNow| 48 + thread.comm.len() + 2 * thread.home.len();
    let mut threads = fitting(&detail.threads, most_bytes, |_| 0, size);
    threads.truncate(most);
    let mappings: &[MappingNow] = if may_see { &detail.mappings } else { &[] };
    let memory = |mapping: &MappingNow| mapping.nodes.values().sum::<u64>();
    let size = |mapping: &MappingNow| 48 + mapping.name.len() + mapping.nodes.len() * NODE_BYTES;
    let mut mappings = fitting(mappings, most_bytes, memory, size);
    mappings.truncate(most);
    mappings.sort_by_key(|mapping| mapping.start);
    v1::LiveDetail {
        process: Some(detail.identity.into()),
        threads: threads.into_iter().map(thread).collect(),
        mappings: mappings.into_iter().map(mapping).collect(),
        is_hidden: !may_see,
    }
}

fn thread(thread: &ThreadNow) -> v1::LiveThread {
    v1::LiveThread {
        tid: thread.tid,
        comm: thread.comm.clone(),
        home_node_ids: ids(&thread.home),
        node_id: thread.node.map(|node| index(node.0)),
        cpu_percent: thread.cpu_percent,
    }
}

fn mapping(mapping: &MappingNow) -> v1::LiveMapping {
    v1::LiveMapping {
        start_address: mapping.start,
        length_bytes: int(mapping.bytes),
        kind: v1::MemoryKind::from(mapping.kind).into(),
        name: mapping.name.to_string(),
        is_shared: mapping.shared,
        nodes: node_bytes(&mapping.nodes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::{Kind, NodeId};
    use prost::Message;

    fn process(pid: i32, bytes: u64, cgroup: &str) -> ProcessNow {
        ProcessNow {
            identity: Identity { pid, start_time: 7 },
            comm: "\u{7}redis".to_owned(),
            cgroup: Some(cgroup.to_owned()),
            home: "0,8".parse().unwrap(),
            near: Default::default(),
            resident_bytes: bytes,
            cpu_percent: Some(1.5),
            threads: 4,
            seen: Seen::Pages {
                nodes: [(NodeId(0), bytes)].into(),
                unplaced_bytes: 0,
                kernel_migrated_pages: Some(3),
                age: Duration::from_secs(2),
            },
        }
    }

    fn view(snapshot: &Snapshot, detail: Option<(Identity, bool)>) -> v1::LiveView {
        let (up, time, flows) = (Duration::from_secs(9), SystemTime::UNIX_EPOCH, &BTreeMap::new());
        SnapshotView { snapshot, jobs: &[], detail, up, time, flows, is_bounded: true }.into()
    }

    #[test]
    fn processes_name_their_cgroups_by_number() {
        let group = GroupNow {
            memory: Some(numaloc_core::live::CountedMemory {
                nodes: [(NodeId(8), 5)].into(),
                ..Default::default()
            }),
            name: Some("prod/web-0/nginx".to_owned()),
            ..GroupNow::default()
        };
        let snapshot = Snapshot {
            processes: vec![
                ProcessNow { cgroup: None, seen: Seen::Hidden, ..process(1, 10, "") },
                process(2, 20, "/b"),
                process(3, 30, "/a"),
                ProcessNow { seen: Seen::Never, ..process(4, 5, "/b") },
            ],
            groups: [("/a".to_owned(), group)].into(),
            ..Snapshot::default()
        };
        let view = view(&snapshot, None);
        let groups: Vec<_> = view.groups.iter().map(|group| group.cgroup.as_str()).collect();
        assert_eq!(groups, ["/a", "/b"]);
        assert_eq!((view.groups[0].is_counted, view.groups[0].nodes[0].bytes), (true, 5));
        assert_eq!((view.groups[1].is_counted, view.groups[1].nodes.len()), (false, 0));
        let names = view.groups.iter().map(|group| group.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["prod/web-0/nginx", ""]);
        let named: Vec<_> = view.processes.iter().map(|process| process.group_index).collect();
        assert_eq!(named, [None, Some(1), Some(0), Some(1)]);
        let seen: Vec<_> =
            view.processes.iter().map(|each| (each.is_hidden, each.pages.is_some())).collect();
        assert_eq!(seen, [(true, false), (false, true), (false, true), (false, false)]);
        assert_eq!((view.left_out_count, view.detail), (0, None));
    }

    #[test]
    fn an_answer_is_bounded_and_those_with_most_memory_are_in_it() {
        let cgroup = |pid: i32| format!("/kubepods.slice/{}/{pid}", "x".repeat(200));
        let snapshot = Snapshot {
            processes: (1..=40_000).map(|pid| process(pid, pid as u64, &cgroup(pid))).collect(),
            ..Snapshot::default()
        };
        let view = view(&snapshot, None);
        let length = view.encoded_len();
        assert!((1 << 20..4 << 20).contains(&length), "{length}");
        let pids: Vec<i32> =
            view.processes.iter().filter_map(|each| Some(each.process.as_ref()?.pid)).collect();
        assert!(pids.is_sorted() && pids.last() == Some(&40_000), "{:?}", pids.last());
        assert_eq!(view.left_out_count as usize, 40_000 - pids.len());
        assert_eq!(view.groups.len(), pids.len());
    }

    #[test]
    fn traffic_is_there_where_it_is_counted() {
        let traffic = Traffic { local_bytes_per_second: 5, remote_bytes_per_second: 7 };
        let node = |traffic| NodeNow {
            id: NodeId(8),
            memory: Default::default(),
            cpu_percent: None,
            foreign_per_second: None,
            traffic,
            tier: None,
            kind: None,
            is_lower_tier: false,
        };
        let bound = NodeTraffic { bytes_per_second: 9, is_whole: false };
        let group = GroupNow { traffic: Some(traffic), ..GroupNow::default() };
        let snapshot = Snapshot {
            nodes: vec![node(Some(bound)), node(None)],
            traffic: Some(traffic),
            processes: vec![process(3, 30, "/a")],
            groups: [("/a".to_owned(), group)].into(),
            ..Snapshot::default()
        };
        let told = view(&snapshot, None);
        let expected = v1::MemoryTraffic { local_bytes_per_second: 5, remote_bytes_per_second: 7 };
        assert_eq!((told.traffic, told.groups[0].traffic), (Some(expected), Some(expected)));
        let of_nodes: Vec<_> = told.nodes.iter().map(|node| node.traffic).collect();
        let bound = v1::NodeTraffic { bytes_per_second: 9, is_lower_bound: true };
        assert_eq!(of_nodes, [Some(bound), None]);
        assert_eq!(view(&Snapshot::default(), None).traffic, None);
    }

    #[test]
    fn mappings_are_for_callers_that_may_see_them() {
        let identity = Identity { pid: 2, start_time: 7 };
        let mapping = |start| MappingNow {
            start,
            bytes: 4096,
            kind: Kind::Heap,
            name: "[heap]".into(),
            shared: false,
            nodes: [(NodeId(0), 4096)].into(),
        };
        let thread = ThreadNow {
            tid: 2,
            comm: "a".to_owned(),
            home: "8".parse().unwrap(),
            node: Some(NodeId(8)),
            cpu_percent: None,
        };
        let detail = Detail {
            identity,
            threads: vec![thread],
            mappings: (1..=5000).map(|number| mapping(number << 12)).collect(),
        };
        let snapshot = Snapshot { details: vec![detail], ..Snapshot::default() };
        let told = |may_see| view(&snapshot, Some((identity, may_see))).detail.unwrap();
        let (all, hidden) = (told(true), told(false));
        assert_eq!((all.is_hidden, all.threads.len()), (false, 1));
        assert!((1000..=4096).contains(&all.mappings.len()), "{}", all.mappings.len());
        assert!(all.mappings.is_sorted_by_key(|mapping| mapping.start_address));
        assert_eq!(all.mappings[0].kind(), v1::MemoryKind::Heap);
        assert_eq!((hidden.is_hidden, hidden.mappings.len()), (true, 0));
        assert_eq!(hidden.threads[0].node_id, Some(8));
        let other = Identity { pid: 3, start_time: 7 };
        assert_eq!(view(&snapshot, Some((other, true))).detail, None);
    }
}
