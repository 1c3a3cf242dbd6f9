//! Targets: what a request names, resolved to processes.

use crate::{
    Error, Roots, cgroup,
    process::{self, Miss},
    unit,
};
use numaloc_core::{Process, Topology};
use std::{collections::BTreeMap, fmt};

/// What a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One process by its pid (or the id of one of its threads).
    Pid(i32),
    /// A cgroup with its children: a path below the mount point, as in /proc/PID/cgroup.
    Cgroup(String),
    /// A systemd unit.
    Unit(String),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pid(pid) => write!(f, "process {pid}"),
            Self::Cgroup(path) => write!(f, "cgroup {path}"),
            Self::Unit(name) => write!(f, "unit {name}"),
        }
    }
}

/// The processes of all targets, one per thread group and each once, in ascending order of pid. Processes that end
/// meanwhile, kernel threads, zombies and this process itself are left out of cgroups and units.
///
/// Processes that share one address space are told apart only by the survey.
///
/// # Errors
/// The first target that does not exist, may not be looked into or has no process.
pub fn resolve(
    roots: &Roots,
    targets: &[Target],
    topology: &Topology,
) -> Result<Vec<Process>, Error> {
    let mut processes = BTreeMap::new();
    for target in targets {
        let found = match target {
            Target::Pid(pid) => {
                let process = process::look(roots, *pid, topology);
                vec![process.map_err(|miss| miss.into_error(*pid))?]
            }
            Target::Cgroup(path) => members(roots, path, target, topology)?,
            Target::Unit(name) => {
                let path = unit::control_group(name)?;
                members(roots, &path, target, topology)?
            }
        };
        processes.extend(found.into_iter().map(|process| (process.identity.pid, process)));
    }
    Ok(processes.into_values().collect())
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
        match process::look(roots, pid, topology) {
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
