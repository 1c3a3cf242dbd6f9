//! Targets: what a request names, resolved to processes.

pub(crate) mod by_name;
pub(crate) mod cgroup;
pub(crate) mod containers;
pub(crate) mod cpu_use;
pub(crate) mod cpuset;
pub(crate) mod devices;
pub(crate) mod found;
pub(crate) mod group_names;
pub(crate) mod labelled;
pub(crate) mod lookup;
pub(crate) mod machines;
pub(crate) mod named;
pub(crate) mod own_process;
pub(crate) mod owner;
pub(crate) mod pressure;
pub(crate) mod process;
pub(crate) mod real_time;
pub(crate) mod run_delay;
pub(crate) mod runtime_files;
pub(crate) mod runtimes;
pub(crate) mod thread;
pub(crate) mod unit;
pub(crate) mod virtual_machines;

use crate::{
    Error, Roots,
    files::procfs_mount,
    processes::{
        found::{Found, Meant, NamedKind},
        lookup::Whereabouts,
        process::{Miss, OpenProcess},
    },
};
use numaloc_core::{Identity, Process, Topology};
use std::{collections::BTreeMap, fmt};

/// A name in a request: one process, cgroup, unit, container, pod or virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The process that has this pid now (or a thread with this id).
    Pid(i32),
    /// This process, and no later one that gets its pid.
    Process {
        /// Its pid and start time.
        identity: Identity,
        /// The boot in which it started, as in /proc/sys/kernel/random/boot_id.
        boot_id: String,
    },
    /// A cgroup with its children: a path below the mount point, as in /proc/PID/cgroup. Or all cgroups that match
    /// it, if a component is a glob.
    Cgroup(String),
    /// A systemd unit; a name without a suffix is a service's.
    Unit(String),
    /// A container, pod or virtual machine that runs.
    Named {
        /// Container, pod or virtual machine.
        kind: NamedKind,
        /// Name or id in that kind.
        name: String,
    },
}

impl Target {
    /// Whether it can get processes after it was resolved.
    pub fn grows(&self) -> bool {
        match self {
            Self::Pid(_) | Self::Process { .. } => false,
            Self::Cgroup(_) | Self::Unit(_) | Self::Named { .. } => true,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "process {pid}"),
            Self::Process { identity, .. } => write!(f, "process {}", identity.pid),
            Self::Cgroup(path) => write!(f, "cgroup {path}"),
            Self::Unit(name) => write!(f, "unit {name}"),
            Self::Named { kind, name } => write!(f, "{kind} {name}"),
        }
    }
}

impl From<&Found> for Target {
    /// The result of looking up a name, as a target that means the same later without a further look-up.
    fn from(found: &Found) -> Self {
        match &found.at {
            Meant::Cgroup(path) => Self::Cgroup(path.clone()),
            Meant::Pid(pid) => Self::Pid(*pid),
        }
    }
}

impl Target {
    /// Several targets for people: the first, and how many more there are.
    pub fn several(targets: &[Self]) -> String {
        match targets {
            [] => "target without members".to_owned(),
            [target] => target.to_string(),
            [first, more @ ..] => format!("{first} with {} more", more.len()),
        }
    }
}

/// The result of resolving targets.
#[derive(Debug, Default)]
pub struct Resolved {
    /// The targets, in the order of the request.
    pub targets: Vec<Target>,
    /// Their processes, one per thread group and each once, in ascending order of pid.
    pub processes: Vec<Process>,
    /// Targets that take no part, and those of which some processes take none.
    pub missing: Vec<LeftOut>,
    /// Where units, containers, pods and virtual machines were found, by the index of the target.
    pub found: Vec<(usize, Found)>,
}

impl Resolved {
    /// The targets, with what was found in place of the names that were looked up.
    pub fn found_targets(&self) -> Vec<Target> {
        let mut targets = self.targets.clone();
        for (index, found) in &self.found {
            targets[*index] = found.into();
        }
        targets
    }
}

/// A target that takes no part, or not with all of its processes.
#[derive(Debug)]
pub struct LeftOut {
    /// The index of the target.
    pub target: usize,
    /// Number of its processes that may not be read, while others take part. 0: the target takes no part at all.
    pub processes: usize,
    /// Why; for processes, why the first of them may not be read.
    pub why: Error,
}

/// The processes of one target.
#[derive(Debug, Default)]
pub struct FoundProcesses {
    /// The readable processes: at least one.
    pub processes: Vec<Process>,
    /// Number of other processes of its cgroup that are not readable, and why the first of them is not.
    pub unreadable: Option<(usize, Error)>,
    /// Where it was found, if a name had to be looked up.
    pub found: Option<Found>,
}

impl FoundProcesses {
    fn one(process: Process) -> Self {
        Self { processes: vec![process], ..Self::default() }
    }
}

/// The processes of all targets. Processes that end meanwhile, kernel threads, zombies and this process itself are left out
/// of cgroups and units.
///
/// Processes that share one address space are all listed; the survey joins them. Targets that do not exist or are not
/// readable are left out, with the reason.
///
/// # Errors
/// If no target takes part: the error of the first one that exists, else of the first one. If a path leads out of the cgroups.
pub fn resolve(roots: &Roots, targets: &[Target], topology: &Topology) -> Result<Resolved, Error> {
    let mut processes = BTreeMap::new();
    let (mut missing, mut places) = (Vec::new(), Vec::new());
    for (target, found) in resolve_each(roots, targets, topology, &|| false).enumerate() {
        match found {
            Ok(FoundProcesses { processes: found, unreadable, found: place }) => {
                places.extend(place.map(|place| (target, place)));
                processes.extend(found.into_iter().map(|process| (process.identity.pid, process)));
                let left = unreadable.map(|(processes, why)| LeftOut { target, processes, why });
                missing.extend(left);
            }
            Err(why) if why.leaves_out() => missing.push(LeftOut { target, processes: 0, why }),
            Err(error) => return Err(error),
        }
    }
    if processes.is_empty() {
        return LeftOut::first(missing).map_or(Ok(Resolved::default()), Err);
    }
    let (targets, processes) = (targets.to_vec(), processes.into_values().collect());
    Ok(Resolved { targets, processes, missing, found: places })
}

impl LeftOut {
    /// Why nothing takes part: the error of the first target that exists, else of the first one.
    pub(crate) fn first(mut missing: Vec<Self>) -> Option<Error> {
        let exists = missing.iter().position(|left| !left.why.is_missing()).unwrap_or(0);
        (!missing.is_empty()).then(|| missing.swap_remove(exists).why)
    }
}

/// The processes of each target by itself, in the order of targets, or why it has none: see [`Error::is_of_target`].
/// [`Error::Stopped`] of those whose names were not looked up any more when `stop` was true.
pub fn resolve_each(
    roots: &Roots,
    targets: &[Target],
    topology: &Topology,
    stop: &dyn Fn() -> bool,
) -> impl Iterator<Item = Result<FoundProcesses, Error>> {
    let places = lookup::find(roots, targets, stop).into_iter();
    targets.iter().zip(places).map(|(target, place)| match place {
        Whereabouts::Pid(pid) => Ok(FoundProcesses::one(read(roots, pid, topology)?)),
        Whereabouts::Process { identity, boot_id } => {
            Ok(FoundProcesses::one(read_same(roots, identity, boot_id, topology)?))
        }
        Whereabouts::Found(place) => {
            let place = place?;
            let mut found = match &place.at {
                Meant::Cgroup(path) => members(roots, path, target, topology)?,
                Meant::Pid(pid) => FoundProcesses::one(read(roots, *pid, topology)?),
            };
            found.found = Some(place).filter(|_| !matches!(target, Target::Cgroup(_)));
            Ok(found)
        }
    })
}

fn read(roots: &Roots, pid: i32, topology: &Topology) -> Result<Process, Error> {
    process::read(roots, pid, topology).map_err(|miss| miss.into_error(pid))
}

/// The process that has this identity, and no other one with its pid.
fn read_same(
    roots: &Roots,
    identity: Identity,
    boot_id: &str,
    topology: &Topology,
) -> Result<Process, Error> {
    let other = || Error::OtherProcess { pid: identity.pid };
    if crate::boot_id(roots)? != boot_id {
        return Err(other());
    }
    let process = read(roots, identity.pid, topology)?;
    if process.identity == identity { Ok(process) } else { Err(other()) }
}

impl Error {
    /// Whether the error says only that a target does not exist, or no longer exists. This is normal where many are
    /// named.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::NoProcess { .. }
                | Self::NoProcessNamed { .. }
                | Self::OtherProcess { .. }
                | Self::Ended { .. }
                | Self::NoCgroup { .. }
                | Self::NoUnit { .. }
                | Self::NotRunning { .. }
                | Self::Empty { .. }
        )
    }

    /// Whether the error concerns one target alone, so that others can still be looked at.
    pub fn is_of_target(&self) -> bool {
        let is_out_of_reach = matches!(
            self,
            Self::CgroupOutside { .. }
                | Self::KernelThread { .. }
                | Self::ManyCgroups { .. }
                | Self::NoRights { .. }
                | Self::SeveralCgroups { .. }
                | Self::Silent { .. }
                | Self::Systemd { .. }
        );
        is_out_of_reach || self.is_missing()
    }

    /// As [`Self::is_of_target`], without paths that lead out of the cgroups: a request that names one is invalid.
    pub(crate) fn leaves_out(&self) -> bool {
        self.is_of_target() && !matches!(self, Self::CgroupOutside { .. })
    }
}

/// The process that each of these pids, or ids of threads, names now. Ids that name none are left out.
///
/// # Errors
/// If one of them may not be read.
pub fn identify(
    roots: &Roots,
    pids: impl IntoIterator<Item = i32>,
) -> Result<BTreeMap<i32, Identity>, Error> {
    let identity = |pid| -> Result<Identity, Miss> {
        let pid = process::tgid(roots, pid)?;
        Ok(Identity { pid, start_time: OpenProcess::new(roots, pid)?.stat()?.starttime })
    };
    let mut known = BTreeMap::new();
    for pid in pids {
        match identity(pid) {
            Ok(identity) => known.extend([(pid, identity)]),
            Err(Miss::Gone | Miss::Ended { .. }) => {}
            Err(miss) => return Err(miss.into_error(pid)),
        }
    }
    Ok(known)
}

/// The processes in a cgroup and its children.
fn members(
    roots: &Roots,
    path: &str,
    target: &Target,
    topology: &Topology,
) -> Result<FoundProcesses, Error> {
    let own_pid = process::own_pid(roots);
    let mut processes = Vec::new();
    let mut unreadable: Option<(usize, Error)> = None;
    let mut gone = None;
    let found = roots.open_files.patiently(Error::read, || cgroup::processes(roots, path))?;
    for pid in found.into_iter().filter(|&pid| Some(pid) != own_pid) {
        match process::read(roots, pid, topology) {
            Ok(process) => processes.push(process),
            Err(Miss::Failed(error)) => return Err(error),
            Err(miss @ Miss::NoRights { .. }) => {
                unreadable.get_or_insert_with(|| (0, miss.into_error(pid))).0 += 1;
            }
            Err(Miss::Gone) => gone = Some(pid),
            Err(Miss::Ended { .. } | Miss::KernelThread { .. }) => {}
        }
    }
    if processes.is_empty() {
        let is_hidden = |_: &i32| {
            let mounts = procfs_mount::mounts(&roots.proc);
            procfs_mount::hidepid(&mounts, &roots.proc).is_some()
        };
        let empty = || match gone.filter(is_hidden) {
            Some(pid) => Error::NoProcess { pid },
            None => Error::Empty { target: target.to_string() },
        };
        return Err(unreadable.map_or_else(empty, |(_, first)| first));
    }
    Ok(FoundProcesses { processes, unreadable, found: None })
}

#[cfg(test)]
mod tests;
