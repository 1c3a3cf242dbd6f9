//! The document of `top`: rows of nodes, workloads and processes.

use super::parts::{NodeBytes, ids, node_bytes};
use numaloc_api::timestamp;
use numaloc_core::{
    Identity, NodeId, NodeSet, covers_cgroup,
    live::{CountedMemory, GroupNow, NodeNow, ProcessNow, Seen, Snapshot},
    rotation::FIRST,
};
use prost_types::Timestamp;
use serde::{Serialize, Serializer};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, SystemTime},
};

/// The host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopDoc {
    #[serde(serialize_with = "as_text")]
    pub time: Option<Timestamp>,
    /// Whether the daemon or this program has scanned.
    pub source: TopSource,
    pub nodes: Vec<TopNodeDoc>,
    /// Workloads: cgroups that have processes.
    pub workloads: Vec<TopRowDoc>,
    /// Processes that have memory, in the order of the sort column.
    pub processes: Vec<TopRowDoc>,
    /// Processes that have not been looked at yet.
    pub unseen_count: usize,
    /// Processes whose page map may not be read.
    pub hidden_count: usize,
    /// Processes that the daemon left out, because there are too many for an answer.
    pub left_out_count: usize,
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

#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// Number of its processes; 1 for a process.
    pub process_count: usize,
    /// The nodes of its CPUs.
    pub home_nodes: Vec<u32>,
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
    /// Local bytes in percent of local and remote ones.
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
    /// The migration that works on it.
    pub job: Option<String>,
    /// The reason why the job is throttled at the moment.
    pub held_back: Option<String>,
}

impl TopRowDoc {
    /// The name of a process, or the path of a cgroup.
    pub fn name(&self) -> &str {
        self.comm.as_deref().or(self.cgroup.as_deref()).unwrap_or_default()
    }
}

/// The daemon's jobs on a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowJob {
    /// The first open one as it is shown: `jobs/42 37 %`.
    pub job: Option<String>,
    /// The reason why that one is throttled at the moment.
    pub held_back: Option<String>,
    /// Bytes that all of them have moved.
    pub moved_bytes: u64,
}

/// The daemon's jobs on its host, as the daemon reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowJobs {
    pub processes: BTreeMap<Identity, RowJob>,
    pub groups: BTreeMap<String, RowJob>,
}

impl RowJobs {
    /// Open jobs are not known any more. Counts of moved bytes stay.
    pub fn end(&mut self) {
        for row in self.processes.values_mut().chain(self.groups.values_mut()) {
            (row.job, row.held_back) = (None, None);
        }
    }

    fn on(&self, row: &TopRowDoc) -> Option<&RowJob> {
        match row.pid.zip(row.start_time_ticks) {
            Some((pid, start_time)) => self.processes.get(&Identity { pid, start_time }),
            None => self.groups.get(row.cgroup.as_deref()?),
        }
    }
}

/// A migration that this program carries out itself, as far as rows show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moving {
    /// As it is shown: `here 37 %`.
    pub job: String,
    /// Whether it is at work or waits to be.
    pub is_open: bool,
    /// The row on which it was requested: the process, or the cgroup with all below it.
    pub pids: BTreeSet<i32>,
    pub cgroups: BTreeSet<String>,
    /// Bytes that it has moved.
    pub moved_bytes: u64,
    /// The reason why it is throttled at the moment.
    pub held_back: Option<String>,
}

impl Moving {
    /// Whether it works on a row.
    fn is_on(&self, row: &TopRowDoc) -> bool {
        let by_pid = row.pid.is_some_and(|pid| self.pids.contains(&pid));
        let has = |cgroup: &str| self.cgroups.iter().any(|named| covers_cgroup(named, cgroup));
        by_pid || row.cgroup.as_deref().is_some_and(has)
    }
}

/// Bytes that were moved, by the nodes from and to which they were.
pub type MovedFlows = BTreeMap<(u32, u32), u64>;

impl TopDoc {
    /// The document of this program's state at a moment, `up` after the beginning.
    pub fn new(
        snapshot: &Snapshot,
        jobs: &RowJobs,
        own: &[Moving],
        flows: &MovedFlows,
        now: SystemTime,
        up: Duration,
    ) -> Self {
        let mut processes: Vec<TopRowDoc> = snapshot.processes.iter().map(process).collect();
        let mut workloads = workloads(snapshot);
        for row in processes.iter_mut().chain(&mut workloads) {
            mark(row, jobs, own);
        }
        let Timestamp { seconds, nanos } = timestamp(now);
        Self {
            // To the millisecond.
            time: Some(Timestamp { seconds, nanos: nanos - nanos % 1_000_000 }),
            source: TopSource::Standalone,
            nodes: snapshot.nodes.iter().map(|each| node(each, flows)).collect(),
            workloads,
            processes,
            unseen_count: snapshot.unseen,
            hidden_count: snapshot.hidden,
            left_out_count: 0,
            cpu_used_percent: rounded(
                snapshot.used.saturating_sub(FIRST).as_secs_f64() * 100.0
                    / up.as_secs_f64().max(1e-3),
            ),
        }
    }
}

fn node(node: &NodeNow, flows: &MovedFlows) -> TopNodeDoc {
    let id = node.id.0;
    let sum = |end: fn(&(u32, u32)) -> u32| {
        flows.iter().filter(|(nodes, _)| end(nodes) == id).map(|(_, bytes)| bytes).sum()
    };
    TopNodeDoc {
        node: id,
        total_bytes: node.memory.total_bytes,
        free_bytes: node.memory.free_bytes,
        reclaimable_bytes: node.memory.droppable_bytes(),
        cpu_percent: node.cpu_percent.map(rounded),
        foreign_per_second: node.foreign_per_second.map(rounded),
        moved_in_bytes: sum(|nodes| nodes.1),
        moved_out_bytes: sum(|nodes| nodes.0),
        tier: node.tier,
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// Fills in what follows from where the memory is.
fn place(row: &mut TopRowDoc, nodes: &BTreeMap<NodeId, u64>, (home, near): (&NodeSet, &NodeSet)) {
    let on = |some: &NodeSet| -> u64 {
        nodes.iter().filter(|(node, _)| some.contains(**node)).map(|(_, bytes)| bytes).sum()
    };
    let (local, all) = (on(home), nodes.values().sum::<u64>());
    row.by_node = node_bytes(nodes);
    // Without CPUs that are online there is no home, and so no share.
    if !home.is_empty() {
        (row.local_bytes, row.remote_bytes) = (Some(local), Some(all - local));
        row.near_bytes = Some(on(near));
        // Rounded down: 100 means all.
        let percent = |all: u64| (local as f64 * 10_000.0 / all as f64).floor() / 100.0;
        row.local_percent = (all > 0).then(|| percent(all));
    }
}

fn process(process: &ProcessNow) -> TopRowDoc {
    let mut row = TopRowDoc {
        pid: Some(process.identity.pid),
        start_time_ticks: Some(process.identity.start_time),
        comm: Some(process.comm.clone()),
        cgroup: process.cgroup.clone(),
        process_count: 1,
        home_nodes: ids(&process.home),
        near_nodes: ids(&process.near),
        resident_bytes: Some(process.resident_bytes),
        cpu_percent: process.cpu_percent.map(rounded),
        is_hidden: process.seen == Seen::Hidden,
        ..TopRowDoc::default()
    };
    if let Seen::Pages { nodes, unplaced_bytes, kernel_migrated_pages, age } = &process.seen {
        place(&mut row, nodes, (&process.home, &process.near));
        // From the same scan as its parts: RSS of another moment, which counts otherwise, would not be their sum.
        row.resident_bytes = Some(nodes.values().sum::<u64>() + unplaced_bytes);
        row.age_seconds = Some(age.as_secs_f64());
        row.kernel_migrated_pages = *kernel_migrated_pages;
    }
    row
}

/// A row for each cgroup that has processes of its own. The kernel's count of its memory includes the cgroups below it.
/// Cgroups with rows of their own are subtracted, so that each byte is in one row, and the rows add up.
fn workloads(snapshot: &Snapshot) -> Vec<TopRowDoc> {
    let mut members: BTreeMap<&str, Vec<&ProcessNow>> = BTreeMap::new();
    for process in &snapshot.processes {
        if let Some(cgroup) = &process.cgroup {
            members.entry(cgroup).or_default().push(process);
        }
    }
    let mut below: BTreeMap<&str, CountedMemory> = BTreeMap::new();
    let counted = |path: &str| snapshot.groups.get(path).and_then(|group| group.memory.as_ref());
    for &path in members.keys() {
        let above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
        // The nearest one: those above it have taken it out with that one.
        let nearest = above
            .filter(|above| members.contains_key(above))
            .find(|above| counted(above).is_some());
        if let (Some(nearest), Some(memory)) = (nearest, counted(path)) {
            below.entry(nearest).or_default().add(memory);
        }
    }
    let (unknown, nothing) = (GroupNow::default(), CountedMemory::default());
    let row = |(path, within): (&str, Vec<&ProcessNow>)| {
        let group = snapshot.groups.get(path).unwrap_or(&unknown);
        let home = within.iter().fold(NodeSet::new(), |home, each| home.or(&each.home));
        let near = within.iter().fold(NodeSet::new(), |near, each| near.or(&each.near));
        let near = near.minus(&home);
        let used: Vec<f64> = within.iter().filter_map(|each| each.cpu_percent).collect();
        let mut row = TopRowDoc {
            cgroup: Some(path.to_owned()),
            process_count: within.len(),
            home_nodes: ids(&home),
            near_nodes: ids(&near),
            cpu_percent: (!used.is_empty()).then(|| rounded(used.iter().sum())),
            kernel_migrated_pages: group.kernel_migrated_pages,
            ..TopRowDoc::default()
        };
        if let Some(memory) = &group.memory {
            let own = memory.without(below.get(path).unwrap_or(&nothing));
            place(&mut row, &own.nodes, (&home, &near));
            row.resident_bytes = Some(own.nodes.values().sum());
            row.cache_bytes = Some(own.cache.values().sum());
            row.age_seconds = group.age.map(|age| age.as_secs_f64());
        }
        row
    };
    members.into_iter().map(row).collect()
}

fn mark(row: &mut TopRowDoc, jobs: &RowJobs, own: &[Moving]) {
    if let Some(RowJob { job, held_back, moved_bytes }) = jobs.on(row).cloned() {
        (row.job, row.held_back, row.moved_bytes) = (job, held_back, moved_bytes);
    }
    for each in own {
        if !each.is_on(row) {
            continue;
        }
        row.moved_bytes += each.moved_bytes;
        if each.is_open {
            row.job = Some(each.job.clone());
            row.held_back = each.held_back.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As on hosts with cgroup v1, where `/` has processes of its own.
    #[test]
    fn each_byte_and_each_process_is_in_one_workload() {
        let process = |pid, cgroup: &str, home: &str| ProcessNow {
            identity: Identity { pid, start_time: 1 },
            comm: "x".into(),
            cgroup: Some(cgroup.into()),
            home: home.parse().unwrap(),
            near: Default::default(),
            resident_bytes: 0,
            cpu_percent: Some(10.0),
            threads: 1,
            seen: Seen::Never,
        };
        let processes = vec![
            process(1, "/", "0"),
            process(2, "/a", "0"),
            process(3, "/a/none/b", "1"),
            process(4, "/ab", "1"),
        ];
        let counted = |path: &str, nodes: &[(u32, u64)]| {
            let nodes = nodes.iter().map(|&(node, pages)| (NodeId(node), pages * 4096)).collect();
            (
                path.to_owned(),
                GroupNow {
                    memory: Some(CountedMemory { nodes, ..CountedMemory::default() }),
                    ..GroupNow::default()
                },
            )
        };
        let groups = [
            counted("/", &[(0, 100), (1, 50)]),
            counted("/a", &[(0, 30), (1, 20)]),
            counted("/a/none/b", &[(1, 15)]),
            // It has grown since `/` was counted.
            counted("/ab", &[(0, 5), (1, 40)]),
        ];
        let groups = groups.into();
        let rows = workloads(&Snapshot { processes, groups, ..Snapshot::default() });
        let pages = |bytes: Option<u64>| bytes.unwrap() / 4096;
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                let (all, remote) = (pages(row.resident_bytes), pages(row.remote_bytes));
                (row.cgroup.as_deref().unwrap(), all, remote, row.process_count, row.cpu_percent)
            })
            .collect();
        let one = Some(10.0);
        let expected = [
            ("/", 65, 0, 1, one),
            ("/a", 35, 5, 1, one),
            ("/a/none/b", 15, 0, 1, one),
            ("/ab", 45, 5, 1, one),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_memory_of_a_process_is_the_sum_of_its_parts() {
        let seen = Seen::Pages {
            nodes: [(NodeId(0), 8192), (NodeId(1), 4096)].into(),
            unplaced_bytes: 4096,
            kernel_migrated_pages: None,
            age: Duration::from_secs(1),
        };
        let now = ProcessNow {
            identity: Identity { pid: 1, start_time: 1 },
            comm: "x".into(),
            cgroup: None,
            home: "0".parse().unwrap(),
            near: Default::default(),
            resident_bytes: 8192,
            cpu_percent: None,
            threads: 1,
            seen,
        };
        let row = process(&now);
        let parts = (row.resident_bytes, row.local_bytes, row.remote_bytes);
        assert_eq!(parts, (Some(16384), Some(8192), Some(4096)));
        let unseen = process(&ProcessNow { seen: Seen::Never, ..now });
        assert_eq!(unseen.resident_bytes, Some(8192), "what the kernel counts");
    }

    #[test]
    fn jobs_are_on_the_rows_that_the_daemon_names() {
        let job =
            |job: &str, moved_bytes| RowJob { job: Some(job.into()), held_back: None, moved_bytes };
        let jobs = RowJobs {
            processes: [(Identity { pid: 7, start_time: 3 }, job("jobs/1", 5))].into(),
            groups: [("/a".into(), job("jobs/2", 6))].into(),
        };
        let shown = |pid: Option<i32>, start_time_ticks, cgroup: &str| {
            let cgroup = Some(cgroup.into());
            let mut row = TopRowDoc { pid, start_time_ticks, cgroup, ..TopRowDoc::default() };
            mark(&mut row, &jobs, &[]);
            (row.job, row.moved_bytes)
        };
        assert_eq!(shown(Some(7), Some(3), "/a"), (Some("jobs/1".into()), 5));
        assert_eq!(shown(Some(7), Some(4), "/a"), (None, 0), "another process");
        assert_eq!(shown(None, None, "/a"), (Some("jobs/2".into()), 6));
        assert_eq!(shown(None, None, "/a/b"), (None, 0));
    }

    #[test]
    fn a_migration_is_on_what_it_names_and_what_lies_below() {
        let moving = Moving {
            job: "here".into(),
            is_open: true,
            pids: [7].into(),
            cgroups: ["/a/b".into()].into(),
            moved_bytes: 5,
            held_back: Some("node 0 is busy".into()),
        };
        let row = |pid, cgroup: &str| {
            let mut row = TopRowDoc { pid, cgroup: Some(cgroup.into()), ..TopRowDoc::default() };
            mark(&mut row, &RowJobs::default(), std::slice::from_ref(&moving));
            row
        };
        for (pid, cgroup) in [(Some(7), "/"), (None, "/a/b"), (Some(8), "/a/b/c")] {
            let row = row(pid, cgroup);
            assert_eq!((row.job.as_deref(), row.moved_bytes), (Some("here"), 5), "{cgroup}");
        }
        for (pid, cgroup) in [(Some(8), "/"), (None, "/a/bc"), (None, "/a"), (None, "/redis2")] {
            assert_eq!(row(pid, cgroup).job, None, "{cgroup}");
        }
        let ended = [Moving { is_open: false, ..moving.clone() }, moving.clone()];
        let mut row = TopRowDoc { pid: Some(7), ..TopRowDoc::default() };
        mark(&mut row, &RowJobs::default(), &ended);
        assert_eq!((row.moved_bytes, row.held_back.as_deref()), (10, Some("node 0 is busy")));
    }
}
