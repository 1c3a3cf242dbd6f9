//! Targets: what a request names, resolved to processes.

use crate::{
    Error, Roots, cgroup, numa_balancing,
    process::{self, Miss, Open},
    unit,
};
use numaloc_core::{Identity, Process, Topology};
use std::{collections::BTreeMap, fmt};

/// What a request names.
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
    /// A cgroup with its children: a path below the mount point, as in /proc/PID/cgroup.
    Cgroup(String),
    /// A systemd unit.
    Unit(String),
}

impl Target {
    fn unit(&self) -> Option<&str> {
        match self {
            Self::Unit(name) => Some(name),
            Self::Pid(_) | Self::Process { .. } | Self::Cgroup(_) => None,
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
        }
    }
}

/// The result of resolving targets.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Their processes, one per thread group and each once, in ascending order of pid.
    pub processes: Vec<Process>,
    /// Targets that are not there or have no process, by their index, and why.
    pub missing: Vec<(usize, Error)>,
}

/// The processes of all targets. Processes that end meanwhile, kernel threads, zombies and this process itself are left out
/// of cgroups and units.
///
/// Processes that share one address space are all listed; the survey joins them.
///
/// # Errors
/// If no target exists: the error of the first one. If one of them may not be read, or cannot be a target: its error.
pub fn resolve(roots: &Roots, targets: &[Target], topology: &Topology) -> Result<Resolved, Error> {
    let mut processes = BTreeMap::new();
    let mut missing = Vec::new();
    for (index, found) in resolve_each(roots, targets, topology).enumerate() {
        match found {
            Ok(found) => {
                processes.extend(found.into_iter().map(|process| (process.identity.pid, process)));
            }
            Err(error) if error.is_missing() => missing.push((index, error)),
            Err(error) => return Err(error),
        }
    }
    match processes.is_empty() && !missing.is_empty() {
        true => Err(missing.swap_remove(0).1),
        false => Ok(Resolved { processes: processes.into_values().collect(), missing }),
    }
}

/// The processes of each target by itself, in the order of targets, or why it has none: see [`Error::is_of_target`].
/// systemd is asked for all units at once.
pub fn resolve_each(
    roots: &Roots,
    targets: &[Target],
    topology: &Topology,
) -> impl Iterator<Item = Result<Vec<Process>, Error>> {
    let units: Vec<&str> = targets.iter().filter_map(Target::unit).collect();
    let mut control_groups = unit::control_groups(&units).into_iter();
    targets.iter().map(move |target| {
        let of_unit = target.unit().and_then(|_| control_groups.next());
        find(roots, target, of_unit, topology)
    })
}

/// The processes of one target. For a unit, `of_unit` is its cgroup, which is known already.
fn find(
    roots: &Roots,
    target: &Target,
    of_unit: Option<Result<String, Error>>,
    topology: &Topology,
) -> Result<Vec<Process>, Error> {
    let read = |pid| {
        let process = process::read(roots, pid, topology);
        process.map_err(|miss| miss.into_error(pid))
    };
    match target {
        Target::Pid(pid) => Ok(vec![read(*pid)?]),
        Target::Process { identity, boot_id } => {
            let other = Error::OtherProcess { pid: identity.pid };
            if numa_balancing::boot_id(roots)? != *boot_id {
                return Err(other);
            }
            let process = read(identity.pid)?;
            if process.identity == *identity { Ok(vec![process]) } else { Err(other) }
        }
        Target::Cgroup(path) => members(roots, path, target, topology),
        Target::Unit(_) => {
            let none = || Err(Error::Empty { target: target.to_string() });
            members(roots, &of_unit.unwrap_or_else(none)?, target, topology)
        }
    }
}

impl Error {
    /// Whether the error says only that a target does not exist, or no longer exists. This is normal where many are
    /// named.
    pub fn is_missing(&self) -> bool {
        matches!(
            self,
            Self::NoProcess { .. }
                | Self::OtherProcess { .. }
                | Self::Ended { .. }
                | Self::NoCgroup { .. }
                | Self::NoUnit { .. }
                | Self::Empty { .. }
        )
    }

    /// Whether the error concerns one target alone, so that others can be looked at all the same.
    pub fn is_of_target(&self) -> bool {
        let is_out_of_reach = matches!(
            self,
            Self::CgroupOutside { .. }
                | Self::KernelThread { .. }
                | Self::NoRights { .. }
                | Self::Systemd { .. }
        );
        is_out_of_reach || self.is_missing()
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
        Ok(Identity { pid, start_time: Open::new(roots, pid)?.stat()?.starttime })
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
) -> Result<Vec<Process>, Error> {
    let own_pid = process::own_pid(roots);
    let mut processes = Vec::new();
    let mut unreadable = None;
    let found = roots.open_files.patiently(Error::read, || cgroup::processes(roots, path))?;
    for pid in found.into_iter().filter(|&pid| Some(pid) != own_pid) {
        match process::read(roots, pid, topology) {
            Ok(process) => processes.push(process),
            Err(Miss::Failed(error)) => return Err(error),
            Err(miss @ Miss::NoRights { .. }) => {
                unreadable.get_or_insert_with(|| miss.into_error(pid));
            }
            Err(Miss::Gone | Miss::Ended { .. } | Miss::KernelThread { .. }) => {}
        }
    }
    if processes.is_empty() {
        return Err(unreadable.unwrap_or(Error::Empty { target: target.to_string() }));
    }
    Ok(processes)
}

#[cfg(test)]
mod tests;
