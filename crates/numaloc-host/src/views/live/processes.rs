//! The processes of the host, by their stat files: read in rotation, too, because ten thousand of them cost more than a live view
//! may use.

use super::{
    groups,
    stat::{Use, parse},
};
use crate::{Roots, files::read, views::attached::AttachedObjects};
use numaloc_core::{
    CpuSet, Identity, NEAR, NodeId, NodeSet, Topology,
    live::{MappingNow, ProcessNow, Seen},
    rotation::Candidate,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

/// A kernel thread is looked at again after this time: its pid may be another process's by then.
const KERNEL_THREAD: Duration = Duration::from_secs(60);

/// The result of the last look at its pages.
#[derive(Clone, Debug)]
pub(super) struct LastLook {
    pub(super) at: Duration,
    /// `None` if its page map may not be read.
    pub(super) nodes: Option<BTreeMap<NodeId, u64>>,
    pub(super) unplaced_bytes: u64,
    pub(super) kernel_migrated_pages: Option<u64>,
    /// The shared objects that it has attached.
    pub(super) attached: AttachedObjects,
    /// Kept for the process that is watched closely alone.
    pub(super) mappings: Vec<MappingNow>,
}

/// A process that was listed at the last reading of /proc.
#[derive(Clone, Debug)]
pub(super) struct KnownProcess {
    pub(super) identity: Identity,
    comm: String,
    is_kernel_thread: bool,
    resident_bytes: u64,
    used: Use,
    pub(super) threads: u64,
    at: Duration,
    pub(super) home: NodeSet,
    pub(super) near: NodeSet,
    cgroup: Option<String>,
    pub(super) pages: Option<LastLook>,
}

impl KnownProcess {
    fn has_memory(&self) -> bool {
        !self.is_kernel_thread && self.resident_bytes > 0
    }
}

/// All processes, by pid; `None` for one that has not been read yet.
#[derive(Debug, Default)]
pub(super) struct Processes(BTreeMap<i32, Option<KnownProcess>>);

impl Processes {
    /// Takes over which are there now.
    pub(super) fn list(&mut self, roots: &Roots) {
        let entries = fs::read_dir(&roots.proc).into_iter().flatten().filter_map(Result::ok);
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let pids: BTreeSet<i32> = pids.collect();
        self.0.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            self.0.entry(pid).or_default();
        }
    }

    /// The processes whose stat may be read.
    pub(super) fn to_read(&self, now: Duration) -> impl Iterator<Item = Candidate<i32>> {
        self.0.iter().filter_map(move |(&pid, known)| {
            let Some(known) = known else {
                return Some(Candidate { key: pid, bytes: 0, cpu_percent: 0.0, age: None });
            };
            let age = now.saturating_sub(known.at);
            (!known.is_kernel_thread || age >= KERNEL_THREAD).then_some(Candidate {
                key: pid,
                bytes: known.resident_bytes,
                cpu_percent: known.used.percent.unwrap_or(0.0),
                age: Some(age),
            })
        })
    }

    /// The processes whose pages may be looked at.
    pub(super) fn to_look_at(&self, now: Duration) -> impl Iterator<Item = Candidate<Identity>> {
        let known = self.0.values().flatten().filter(|known| known.has_memory());
        known.map(move |known| Candidate {
            key: known.identity,
            bytes: known.resident_bytes,
            cpu_percent: known.used.percent.unwrap_or(0.0),
            age: known.pages.as_ref().map(|pages| now.saturating_sub(pages.at)),
        })
    }

    /// Reads the stat of a process; at first page_access also its cgroup and the CPUs of its first thread.
    pub(super) fn read(&mut self, roots: &Roots, topology: &Topology, pid: i32, now: Duration) {
        let Some(slot) = self.0.get_mut(&pid) else { return };
        let directory = roots.proc.join(pid.to_string());
        let stat = read::text(&directory.join("stat")).ok().and_then(|text| parse(&text));
        let Some(stat) = stat else {
            self.0.remove(&pid);
            return;
        };
        let identity = Identity { pid, start_time: stat.start_time };
        let before = slot.take().filter(|known| known.identity == identity);
        let used = Use::next(before.as_ref().map(|known| known.used), stat.cpu_ticks, now);
        let fresh = KnownProcess {
            identity,
            comm: stat.comm,
            is_kernel_thread: stat.is_kernel_thread,
            resident_bytes: stat.resident_bytes,
            used,
            threads: stat.threads,
            at: now,
            home: NodeSet::new(),
            near: NodeSet::new(),
            cgroup: None,
            pages: None,
        };
        let known = match before {
            Some(before) => KnownProcess {
                home: before.home,
                near: before.near,
                cgroup: before.cgroup,
                pages: before.pages,
                ..fresh
            },
            None if fresh.has_memory() => {
                let status = read::text(&directory.join("status")).unwrap_or_default();
                let list = read::field(&status, "Cpus_allowed_list").unwrap_or_default();
                let home = topology.local_nodes(&list.parse::<CpuSet>().unwrap_or_default());
                let near = topology.near(&home, NEAR);
                KnownProcess { home, near, cgroup: cgroup(roots, pid), ..fresh }
            }
            None => fresh,
        };
        *slot = Some(known);
    }

    /// Reads again which cgroup a process is in.
    pub(super) fn find_cgroup(&mut self, roots: &Roots, pid: i32) {
        if let Some(Some(known)) = self.0.get_mut(&pid) {
            known.cgroup = cgroup(roots, pid);
        }
    }

    /// The process, if it is still the same.
    pub(super) fn get_mut(&mut self, identity: Identity) -> Option<&mut KnownProcess> {
        let known = self.0.get_mut(&identity.pid)?.as_mut();
        known.filter(|known| known.identity == identity)
    }

    pub(super) fn get(&self, identity: Identity) -> Option<&KnownProcess> {
        self.0.get(&identity.pid)?.as_ref().filter(|known| known.identity == identity)
    }

    /// The cgroups that have any of them.
    pub(super) fn cgroups(&self) -> BTreeSet<&str> {
        let known = self.0.values().flatten().filter(|known| known.has_memory());
        known.filter_map(|known| known.cgroup.as_deref()).collect()
    }

    /// Shared memory that the processes of these cgroups, and of the cgroups below each, have attached; only for
    /// cgroups whose processes have all been looked at.
    pub(super) fn attached(&self) -> BTreeMap<&str, u64> {
        let mut all: BTreeMap<&str, Option<AttachedObjects>> = BTreeMap::new();
        for known in self.0.values().flatten().filter(|known| known.has_memory()) {
            let Some(cgroup) = known.cgroup.as_deref() else { continue };
            let looked = known.pages.as_ref().filter(|pages| pages.nodes.is_some());
            let above =
                cgroup.match_indices('/').map(|(at, _)| &cgroup[..at]).filter(|up| !up.is_empty());
            for path in above.chain([cgroup]) {
                let sum = all.entry(path).or_insert_with(|| Some(AttachedObjects::default()));
                match (sum.as_mut(), looked) {
                    (Some(sum), Some(pages)) => sum.add(&pages.attached),
                    _ => *sum = None,
                }
            }
        }
        all.into_iter().filter_map(|(path, sum)| Some((path, sum?.bytes()))).collect()
    }

    /// The cgroup of a process, as far as both are known.
    pub(super) fn cgroup_of(&self, pid: i32) -> Option<&str> {
        self.0.get(&pid)?.as_ref()?.cgroup.as_deref()
    }

    /// The processes of a cgroup.
    pub(super) fn within(&self, cgroup: &str) -> Vec<i32> {
        let known = self.0.values().flatten();
        let within = known.filter(|known| known.cgroup.as_deref() == Some(cgroup));
        within.map(|known| known.identity.pid).collect()
    }

    /// The processes that the snapshot shows: the ones with memory.
    pub(super) fn now(&self, now: Duration) -> Vec<ProcessNow> {
        let known = self.0.values().flatten().filter(|known| known.has_memory());
        known
            .map(|known| ProcessNow {
                identity: known.identity,
                comm: known.comm.clone(),
                cgroup: known.cgroup.clone(),
                home: known.home.clone(),
                near: known.near.clone(),
                resident_bytes: known.resident_bytes,
                cpu_percent: known.used.percent,
                threads: known.threads,
                seen: seen(known.pages.as_ref(), now),
            })
            .collect()
    }

    /// Number of processes that have not been read at all.
    pub(super) fn unread(&self) -> usize {
        self.0.values().filter(|known| known.is_none()).count()
    }
}

fn seen(pages: Option<&LastLook>, now: Duration) -> Seen {
    match pages {
        None => Seen::Never,
        Some(LastLook { nodes: None, .. }) => Seen::Hidden,
        Some(LastLook {
            nodes: Some(nodes), unplaced_bytes, kernel_migrated_pages, at, ..
        }) => Seen::Pages {
            nodes: nodes.clone(),
            unplaced_bytes: *unplaced_bytes,
            kernel_migrated_pages: *kernel_migrated_pages,
            age: now.saturating_sub(*at),
        },
    }
}

fn cgroup(roots: &Roots, pid: i32) -> Option<String> {
    let text = read::text(&roots.proc.join(pid.to_string()).join("cgroup")).ok()?;
    groups::of_memory(&text).map(str::to_owned)
}
