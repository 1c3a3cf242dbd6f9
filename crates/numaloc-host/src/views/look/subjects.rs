//! The subjects of a look: cgroups whose processes have the same CPUs, and single processes.

use super::{groups, pages::ByNode, storage::StorageReader};
use crate::{
    Roots, cpusets,
    files::{
        maps::{self, Vma},
        read,
    },
    processes::{
        cgroup,
        devices::device_nodes,
        group_names::GroupNames,
        process::{self, Miss},
    },
    views::attached::AttachedObjects,
};
use numaloc_core::{
    CpuSet, Mempolicy, NodeId, NodeSet, Process, Topology,
    advise::{CpuControl, Subject, Who},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    time::Duration,
};

/// A cgroup or process whose memory reaches the minimum of the request.
#[derive(Debug)]
pub struct FoundSubject {
    pub who: Who,
    /// Its memory, as far as that was found out for little.
    pub bytes: u64,
    /// Its hugetlb memory, of a process; that of a cgroup is counted by node.
    pub hugetlb_bytes: u64,
    /// Storage that it maps without page cache, in bytes by node.
    pub storage: BTreeMap<NodeId, u64>,
    /// CPUs that it may run on.
    pub cpus: CpuSet,
    pub member: SubjectMembers,
}

/// The facts known about its members.
#[derive(Debug)]
pub enum SubjectMembers {
    Group { directory: PathBuf, processes: Vec<Process>, resident: BTreeMap<NodeId, u64> },
    Process(Process),
}

/// All subjects whose memory reaches the minimum of the request.
#[derive(Debug, Default)]
pub struct All {
    pub subjects: Vec<FoundSubject>,
    pub unreadable: BTreeSet<i32>,
    pub ended: usize,
}

/// Number of processes of a cgroup that are read, evenly among all, if it has more.
const MEMBERS: usize = 1024;

/// Finds them among these cgroups and processes. Ends early if `stop` returns true.
pub fn find(
    stop: &dyn Fn() -> bool,
    roots: &Roots,
    topology: &Topology,
    paths: Vec<String>,
    mut pids: BTreeSet<i32>,
    min_bytes: u64,
) -> All {
    let mut all = All::default();
    let mut mapped = StorageReader::new(roots, topology);
    let sum = |storage: &BTreeMap<NodeId, u64>| storage.values().sum::<u64>();
    for path in paths {
        if stop() {
            return all;
        }
        let Some(directory) = groups::directory(roots, &path) else { continue };
        let members = groups::members(&directory);
        let resident = groups::resident(&directory, || attached_bytes(roots, &members));
        let bytes: u64 = resident.values().sum();
        // hugetlb memory is not among what memory.numa_stat counts.
        let huge: u64 = groups::hugetlb(&directory).values().flat_map(BTreeMap::values).sum();
        let storage = mapped.of(&members);
        let seen = bytes.saturating_add(huge).saturating_add(sum(&storage));
        if members.is_empty() || seen < min_bytes {
            // Small together, so each is small.
            leave_out(&mut pids, &members);
            continue;
        }
        // If one is not readable, the cgroup is unknown as a whole: the readable ones are looked at one by one.
        let Some(processes) = read_all(roots, topology, &members, &mut all) else { continue };
        let same = processes.iter().all(|process| process.cpus == processes[0].cpus);
        let plain = processes.iter().all(|process| process.threads.is_empty());
        // One process is looked at on its own if its threads matter. So are processes with different pins.
        if let (Some(first), true, true) = (processes.first(), same, plain) {
            leave_out(&mut pids, &members);
            let cpus = first.cpus.clone();
            let member = SubjectMembers::Group { directory, processes, resident };
            let who = Who::Cgroup(path);
            all.subjects.push(FoundSubject { who, bytes, hugetlb_bytes: 0, storage, cpus, member });
        }
    }
    let own = process::own_pid(roots);
    for pid in pids.into_iter().filter(|&pid| Some(pid) != own) {
        if stop() {
            return all;
        }
        let Some((bytes, hugetlb_bytes)) = resident_bytes(roots, pid) else { continue };
        let storage = mapped.of(&[pid]);
        if bytes.saturating_add(hugetlb_bytes).saturating_add(sum(&storage)) < min_bytes {
            continue;
        }
        if let Some(process) = read_one(roots, topology, pid, &mut all) {
            let (who, cpus) = (Who::Process(process.identity), process.cpus.clone());
            let member = SubjectMembers::Process(process);
            all.subjects.push(FoundSubject { who, bytes, hugetlb_bytes, storage, cpus, member });
        }
    }
    all
}

/// Gives cgroups of containers, pods and machines the names of these, in place of their paths.
pub fn name_containers(roots: &Roots, subjects: &mut [Subject]) {
    let cgroups = subjects.iter().filter_map(|subject| match &subject.who {
        Who::Cgroup(path) => Some(path.as_str()),
        Who::Process(_) => None,
    });
    let mut names = GroupNames::default();
    names.keep(roots, &cgroups.collect(), Duration::ZERO);
    for subject in subjects {
        if let Who::Cgroup(path) = &subject.who
            && let Some(name) = names.of(path)
        {
            subject.name = name;
        }
    }
}

/// Shared memory that these processes have attached, in bytes.
fn attached_bytes(roots: &Roots, pids: &[i32]) -> u64 {
    let mut all = AttachedObjects::default();
    for pid in pids.iter().step_by(pids.len().div_ceil(MEMBERS).max(1)) {
        let text = read::text(&roots.proc.join(format!("{pid}/maps"))).unwrap_or_default();
        let vmas: Vec<Vma> = text.lines().filter_map(maps::parse_line).collect();
        all.add(&AttachedObjects::of(&vmas));
    }
    all.bytes()
}

fn leave_out(pids: &mut BTreeSet<i32>, members: &[i32]) {
    for pid in members {
        pids.remove(pid);
    }
}

/// The processes of a cgroup; `None` if one of them may not be read.
fn read_all(
    roots: &Roots,
    topology: &Topology,
    pids: &[i32],
    all: &mut All,
) -> Option<Vec<Process>> {
    let before = all.unreadable.len();
    let pids = pids.iter().step_by(pids.len().div_ceil(MEMBERS).max(1));
    let read: Vec<Process> = pids.filter_map(|&pid| read_one(roots, topology, pid, all)).collect();
    (all.unreadable.len() == before).then_some(read)
}

fn read_one(roots: &Roots, topology: &Topology, pid: i32, all: &mut All) -> Option<Process> {
    match process::read(roots, pid, topology) {
        Ok(process) => Some(process),
        Err(Miss::KernelThread { .. }) => None,
        Err(Miss::Gone | Miss::Ended { .. }) => {
            all.ended += 1;
            None
        }
        Err(Miss::NoRights { .. } | Miss::Failed(_)) => {
            all.unreadable.insert(pid);
            None
        }
    }
}

/// Anonymous and shared memory of a process, and its hugetlb memory, which is in neither. Any user may read them
/// (proc_pid_status(5), RssAnon, RssShmem and HugetlbPages).
fn resident_bytes(roots: &Roots, pid: i32) -> Option<(u64, u64)> {
    let status = read::text(&roots.proc.join(format!("{pid}/status"))).ok()?;
    let [shmem, huge] = ["RssShmem", "HugetlbPages"].map(|name| read::kib(&status, name));
    let bytes = read::kib(&status, "RssAnon")?.saturating_add(shmem.unwrap_or(0));
    Some((bytes, huge.unwrap_or(0)))
}

impl FoundSubject {
    /// The pids of its processes, of which there is at least one.
    pub fn pids(&self) -> impl Iterator<Item = i32> + '_ {
        self.processes().iter().map(|process| process.identity.pid)
    }

    fn processes(&self) -> &[Process] {
        match &self.member {
            SubjectMembers::Group { processes, .. } => processes,
            SubjectMembers::Process(process) => std::slice::from_ref(process),
        }
    }

    /// Nodes of the devices that its processes have open. A subject that is pinned to one node is left there whatever
    /// they are, so its files are not read.
    fn device_nodes(&self, roots: &Roots, topology: &Topology) -> NodeSet {
        if topology.local_nodes(&self.cpus).len() < 2 {
            return NodeSet::new();
        }
        self.pids().fold(NodeSet::new(), |all, pid| all.or(&device_nodes(roots, pid)))
    }

    /// Joins what was found here with where its memory is and what CPU time it uses.
    pub fn subject(
        self,
        roots: &Roots,
        topology: &Topology,
        (resident, exactness): ByNode,
        cpu_use: BTreeMap<NodeId, f64>,
    ) -> Subject {
        let first = &self.processes()[0];
        let (pid, mems) = (first.identity.pid, first.mems_allowed.and(&topology.ids()));
        let own = match &self.who {
            Who::Cgroup(path) => Some(path.clone()),
            Who::Process(_) => cgroup::of(roots, pid),
        };
        // A cgroup is bounded by those above it. So are the nodes of a process, because those of its cgroup can be written; its CPUs
        // are bounded by its cgroup.
        let is_group = matches!(self.who, Who::Cgroup(_));
        let unbounded = || (online(topology), topology.ids());
        let above = own.as_deref().and_then(|path| bounds(roots, &parent(path)));
        let (mut cpus_above, mems_above) = above.unwrap_or_else(unbounded);
        if !is_group {
            let within = own.as_deref().and_then(|path| bounds(roots, path));
            cpus_above = within.unwrap_or_else(unbounded).0;
        }
        let directory = own.as_deref().and_then(|path| groups::directory(roots, path));
        let foreign = own.as_deref().is_some_and(|path| path.contains("/kubepods"));
        let text = |path: &Path| path.to_str().map(str::to_owned);
        let writable = directory.as_deref().filter(|path| path.join("cpuset.mems").exists());
        Subject {
            name: match &self.who {
                Who::Cgroup(path) => path.clone(),
                Who::Process(_) => first.comm.clone(),
            },
            handle: match (&self.who, foreign) {
                (_, true) => CpuControl::Foreign,
                (Who::Process(_), _) => CpuControl::Threads,
                (Who::Cgroup(path), _) => {
                    group_handle(roots, path, directory.as_deref().unwrap_or(Path::new("")))
                }
            },
            mems_directory: writable.filter(|_| !foreign).and_then(text),
            cpus_above: cpus_above.and(&online(topology)).or(&self.cpus),
            mems_above: mems_above.and(&topology.ids()).or(&mems),
            mems,
            hugetlb: match &self.member {
                SubjectMembers::Group { directory, .. } => groups::hugetlb(directory),
                SubjectMembers::Process(_) => BTreeMap::new(),
            },
            policy: policy(roots, pid),
            threads: if is_group { Vec::new() } else { first.threads.clone() },
            cpus: self.cpus.clone(),
            device_nodes: self.device_nodes(roots, topology),
            storage: self.storage,
            who: self.who,
            age: Duration::ZERO,
            cpu_use,
            resident,
            exactness,
        }
    }
}

fn online(topology: &Topology) -> CpuSet {
    topology.nodes().fold(CpuSet::new(), |cpus, node| cpus.or(&node.cpus))
}

fn parent(path: &str) -> String {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    if parent.is_empty() { "/".into() } else { parent.into() }
}

/// The CPUs and nodes that a cgroup may use.
fn bounds(roots: &Roots, path: &str) -> Option<(CpuSet, NodeSet)> {
    let text = cpusets(roots, [path]).pop()??;
    let (cpus, mems) = text.split_once(' ')?;
    Some((cpus.parse().ok()?, mems.parse().ok()?))
}

/// By what the CPUs of a cgroup are set. Units of users and of containers have a manager of their own, which is not asked: a unit of the
/// host's manager has slices alone above it (systemd.slice(5)), and one of the same name may be inside of a container.
fn group_handle(roots: &Roots, path: &str, directory: &Path) -> CpuControl {
    let (above, name) = path.rsplit_once('/').unwrap_or_default();
    let is_unit = name.ends_with(".service") || name.ends_with(".scope");
    let is_hosts = above.split('/').skip(1).all(|part| part.ends_with(".slice"));
    let text = directory.display().to_string();
    if is_unit && is_hosts && roots.run.join("systemd/system").is_dir() {
        CpuControl::Unit(name.to_owned())
    } else if directory.join("cpuset.cpus").exists() {
        CpuControl::Cpuset(text)
    } else {
        CpuControl::Members(text)
    }
}

/// The memory policy of a process's first thread, which numa_maps shows for memory that has none of its own. Only the first line
/// is asked for: for each VMA that it shows, the kernel walks all of its pages, and the first one is the program
/// (fs/proc/task_mmu.c, `show_numa_map`; fs/seq_file.c stops when the buffer is full).
fn policy(roots: &Roots, pid: i32) -> Mempolicy {
    let mut line = [0; 64];
    let file = File::open(roots.proc.join(format!("{pid}/numa_maps")));
    let read = file.and_then(|mut file| file.read(&mut line)).unwrap_or(0);
    let text = String::from_utf8_lossy(&line[..read]).into_owned();
    match text.split_whitespace().nth(1) {
        // A list of nodes that is cut off would mean other nodes.
        Some(word) if text.split_whitespace().count() > 2 || text.contains('\n') => {
            word.parse().unwrap_or(Mempolicy::Unasked)
        }
        _ => Mempolicy::Unasked,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    /// numad reads lines of numa_maps into 1,024 bytes and continues in the middle of longer ones.
    #[test]
    fn a_policy_is_read_however_long_the_line_is() {
        let fake = Fake::new();
        let of = |line: &str| {
            fake.write("proc/7/numa_maps", line);
            policy(&fake.roots(), 7)
        };
        let nodes: String = (0..64).map(|node| format!(" N{node}=1")).collect();
        let long = format!("55d0c0000000 bind:1,3 file=/{}{nodes}\n", "x".repeat(2000));
        assert_eq!(of(&long), Mempolicy::Bind("1,3".parse().unwrap()));
        assert_eq!(of("55d0c0000000 default\n"), Mempolicy::Default);
        // A list that is cut off is not used.
        let odd: Vec<String> = (0..64).map(|node| (2 * node).to_string()).collect();
        assert_eq!(of(&format!("55d0c0000000 bind:{} x\n", odd.join(","))), Mempolicy::Unasked);
        assert_eq!(of(""), Mempolicy::Unasked);
        assert_eq!(policy(&fake.roots(), 8), Mempolicy::Unasked);
    }

    #[test]
    fn the_cgroup_above_is_known_by_its_path() {
        assert_eq!(["/a/b", "/a", "/"].map(parent), ["/a", "/", "/"]);
    }
}
