//! One look at the host for advice: the memory of each subject by node, and the CPUs that it uses. Nothing is changed.
//!
//! It takes two readings of CPU times. A subject with less memory than asked for is left out after one small file:
//! cgroups by memory.numa_stat, processes without a cgroup of their own by their status; on hosts with storage that can be mapped
//! (DAX) also by their mappings. The CPUs and
//! threads of the others are read, and some windows of the page map of processes. The work, the descriptors and the
//! time are bounded; what was left out is counted.

mod groups;
mod pages;
mod storage;
mod subjects;
mod work;

use crate::{
    CpuUse, Error, LeftOut, Roots, Target,
    files::{read::numbered, wait::wait},
    nodes::topology,
    processes::{
        found::{Found, Meant},
        lookup::{self, Whereabouts},
    },
    resolve,
    survey::page_access::PageAccess,
    views::facts,
};
use numaloc_core::{
    NodeId, Topology,
    advise::{Exactness, HostLook, Subject},
};
use pages::PageReader;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};
use subjects::{FoundSubject, SubjectMembers};
use work::{CpuTimes, Readings};

/// The most subjects that are looked at closely. Subjects with least memory are left out.
const SUBJECTS: usize = 4096;
/// Time for reading page maps. Processes with least memory come last.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request for a look.
#[derive(Clone, Debug)]
pub struct LookRequest {
    /// The subjects to look at; all of them if it is empty.
    pub targets: Vec<Target>,
    /// Subjects with less memory than this are left out.
    pub min_bytes: u64,
    /// The time between the two readings of CPU times. [`Begun`] leaves it to its caller.
    pub interval: Duration,
}

/// The result of a look, and what was left out.
#[derive(Debug, Default)]
pub struct Looked {
    /// The nodes, and all subjects with enough memory.
    pub look: HostLook,
    /// Targets that take no part.
    pub missing: Vec<LeftOut>,
    /// Processes that may not be read: of other users, without CAP_SYS_PTRACE.
    pub unreadable: usize,
    /// Subjects that were left out because there are too many, or because reading took too long.
    pub left_out: usize,
    /// Processes that ended while they were looked at.
    pub ended: usize,
}

/// Looks at the host. Ends with an error if `stop` returns true between two steps.
///
/// # Errors
/// If no target takes part: the error of the first one that exists, else of the first one. If the host itself cannot be read.
/// [`Error::Stopped`].
pub fn look(
    stop: &(dyn Fn() -> bool + Sync),
    roots: &Roots,
    wanted: &LookRequest,
) -> Result<Looked, Error> {
    look_on(stop, roots, topology::topology(roots)?, wanted)
}

/// As [`look`], on a machine that is known.
fn look_on(
    stop: &(dyn Fn() -> bool + Sync),
    roots: &Roots,
    topology: Topology,
    wanted: &LookRequest,
) -> Result<Looked, Error> {
    let begun = Begun::on(stop, roots, topology, wanted)?;
    wait(wanted.interval, stop);
    begun.end(stop, roots)
}

/// A look after its first reading of CPU times. It holds one open file, and no thread need wait for its second reading.
#[derive(Debug)]
pub struct Begun {
    looked: Looked,
    topology: Topology,
    is_whole: bool,
    subjects: Vec<FoundSubject>,
    begin: Instant,
    before: CpuTimes,
    cpu_use: CpuUse,
    busy_before: BTreeMap<NodeId, Duration>,
}

impl Begun {
    /// Finds who is to be looked at, and reads their CPU times for the first time. [`LookRequest::interval`] is for the caller to wait.
    ///
    /// # Errors
    /// As [`look`].
    pub fn new(
        stop: &(dyn Fn() -> bool + Sync),
        roots: &Roots,
        wanted: &LookRequest,
    ) -> Result<Self, Error> {
        Self::on(stop, roots, topology::topology(roots)?, wanted)
    }

    fn on(
        stop: &(dyn Fn() -> bool + Sync),
        roots: &Roots,
        topology: Topology,
        wanted: &LookRequest,
    ) -> Result<Self, Error> {
        let mut looked = Looked::default();
        let (groups, pids) = scope(stop, roots, &topology, wanted, &mut looked)?;
        let mut found = subjects::find(stop, roots, &topology, groups, pids, wanted.min_bytes);
        looked.unreadable = found.unreadable.len();
        looked.ended = found.ended;
        found.subjects.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.who.cmp(&b.who)));
        looked.left_out += found.subjects.len().saturating_sub(SUBJECTS);
        found.subjects.truncate(SUBJECTS);
        check_stop(stop)?;
        let subjects = found.subjects;
        let (begin, before) = (Instant::now(), CpuTimes::read(roots, &subjects));
        let mut cpu_use = CpuUse::open(roots, [])?;
        let busy_before = busy(&mut cpu_use, &topology);
        let is_whole = wanted.targets.is_empty();
        Ok(Self { looked, topology, is_whole, subjects, begin, before, cpu_use, busy_before })
    }

    /// Reads the CPU times again, and the nodes of each subject's memory.
    ///
    /// # Errors
    /// If the host itself cannot be read. [`Error::Stopped`].
    pub fn end(self, stop: &(dyn Fn() -> bool + Sync), roots: &Roots) -> Result<Looked, Error> {
        check_stop(stop)?;
        let Self { mut looked, topology, subjects, begin, before, mut cpu_use, .. } = self;
        let after = CpuTimes::read(roots, &subjects);
        let busy_after = busy(&mut cpu_use, &topology);
        let span = begin.elapsed().as_secs_f64().max(0.001);
        let busy = busy_after.into_iter().map(|(node, time)| {
            let before = self.busy_before.get(&node).copied().unwrap_or(time);
            (node, time.saturating_sub(before).as_secs_f64() / span)
        });
        let facts = facts::read(roots);
        looked.look = HostLook {
            busy: busy.filter(|&(_, cpus)| cpus > 0.0).collect(),
            numa_balancing: facts.numa_balancing,
            thp_enabled: facts.thp_enabled,
            is_whole: self.is_whole,
            subjects: Vec::new(),
            topology,
        };
        let readings = Readings { before: &before, after: &after, seconds: span };
        let used = |index: usize| work::used(readings, index, &looked.look.topology);
        let used: Vec<BTreeMap<NodeId, f64>> = (0..subjects.len()).map(used).collect();
        let members = subjects.into_iter().zip(used);
        memory(stop, roots, members, &mut looked)?;
        Ok(looked)
    }
}

fn check_stop(stop: &(dyn Fn() -> bool + Sync)) -> Result<(), Error> {
    if stop() { Err(Error::Stopped) } else { Ok(()) }
}

/// Time that the CPUs of each node have been busy.
fn busy(cpu_use: &mut CpuUse, topology: &Topology) -> BTreeMap<NodeId, Duration> {
    topology.nodes().map(|node| (node.id, cpu_use.busy(&node.cpus))).collect()
}

/// The cgroups and the processes that are to be looked at.
fn scope(
    stop: &(dyn Fn() -> bool + Sync),
    roots: &Roots,
    topology: &Topology,
    wanted: &LookRequest,
    looked: &mut Looked,
) -> Result<(Vec<String>, BTreeSet<i32>), Error> {
    if wanted.targets.is_empty() {
        let pids = numbered::<i32>(&roots.proc).into_keys().collect();
        return Ok((groups::below(roots, "/")?, pids));
    }
    let (mut groups, mut pids) = (Vec::new(), BTreeSet::new());
    let places = lookup::find(roots, &wanted.targets, stop).into_iter();
    for (index, (target, place)) in wanted.targets.iter().zip(places).enumerate() {
        let found = match place {
            Whereabouts::Found(Ok(Found { at: Meant::Cgroup(path), .. })) => {
                group(roots, &path, &mut groups, &mut pids)
            }
            Whereabouts::Found(Ok(Found { at: Meant::Pid(pid), .. })) => {
                pids.insert(pid);
                Ok(())
            }
            Whereabouts::Found(Err(error)) => Err(error),
            Whereabouts::Pid(_) | Whereabouts::Process { .. } => {
                let found = resolve(roots, std::slice::from_ref(target), topology);
                found.map(|found| pids.extend(found.processes.iter().map(|one| one.identity.pid)))
            }
        };
        match found {
            Err(why) if why.leaves_out() => {
                looked.missing.push(LeftOut { target: index, processes: 0, why });
            }
            found => found?,
        }
    }
    if groups.is_empty() && pids.is_empty() {
        LeftOut::first(std::mem::take(&mut looked.missing)).map_or(Ok((groups, pids)), Err)
    } else {
        Ok((groups, pids))
    }
}

fn group(
    roots: &Roots,
    path: &str,
    groups: &mut Vec<String>,
    pids: &mut BTreeSet<i32>,
) -> Result<(), Error> {
    let members = crate::processes::cgroup::processes(roots, path)?;
    if members.is_empty() {
        return Err(Error::Empty { target: Target::Cgroup(path.into()).to_string() });
    }
    pids.extend(members);
    groups.extend(groups::below(roots, path)?);
    Ok(())
}

/// Finds the nodes of each subject's memory, the largest first.
fn memory(
    stop: &(dyn Fn() -> bool + Sync),
    roots: &Roots,
    members: impl Iterator<Item = (FoundSubject, BTreeMap<NodeId, f64>)>,
    looked: &mut Looked,
) -> Result<(), Error> {
    let (begin, mut pages) = (Instant::now(), None);
    let mut seen: Vec<(Subject, Instant)> = Vec::new();
    for (found, cpu_use) in members {
        if stop() {
            return Err(Error::Stopped);
        }
        let FoundSubject { member, .. } = &found;
        let mut hugetlb = None;
        let (resident, exactness) = match member {
            SubjectMembers::Group { resident, .. } => (resident.clone(), Exactness::Counted),
            SubjectMembers::Process(process) => {
                if begin.elapsed() > PATIENCE {
                    looked.left_out += 1;
                    continue;
                }
                let pages = match &mut pages {
                    Some(pages) => pages,
                    none => none.insert(PageReader::new(roots, PageAccess::new(roots)?)),
                };
                if found.hugetlb_bytes > 0 {
                    // Findings about the rest do not depend on it.
                    hugetlb = pages.hugetlb(process, &looked.look.topology).ok();
                }
                match pages.by_node(process, found.bytes, stop) {
                    Ok(Some(read)) => read,
                    // It may have next to no memory beside storage.
                    Ok(None) if !found.storage.is_empty() => (BTreeMap::new(), Exactness::Scanned),
                    Ok(None) => {
                        looked.ended += 1;
                        continue;
                    }
                    Err(error @ Error::Stopped) => return Err(error),
                    // Another user's: what may be seen is shown, and the rest is counted.
                    Err(_) => {
                        looked.unreadable += 1;
                        continue;
                    }
                }
            }
        };
        let subject = found.subject(roots, &looked.look.topology, (resident, exactness), cpu_use);
        let subject = match hugetlb {
            Some(hugetlb) => Subject { hugetlb, ..subject },
            None => subject,
        };
        seen.push((subject, Instant::now()));
    }
    let now = Instant::now();
    let aged = seen.into_iter().map(|(subject, at)| Subject { age: now - at, ..subject });
    looked.look.subjects = aged.collect();
    subjects::name_containers(roots, &mut looked.look.subjects);
    Ok(())
}

#[cfg(test)]
mod tests;
