//! Resolves a target to processes and files of this host.

use crate::Error;
use numaloc_api::value::{self, Missing, Pins, TargetProcess};
use numaloc_core::Identity;
use numaloc_host::{NamedKind, Roots, Target, identify};
use std::collections::BTreeSet;

/// A target, resolved on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// The members to look at.
    pub members: Vec<Member>,
    /// The files whose page cache is meant, by path. If there are any, there are no members, and none is missing.
    pub files: BTreeSet<String>,
    /// Labels of containers of the host, each of which becomes a member when the host is looked at.
    pub container_labels: BTreeSet<String>,
    /// Members known to be missing before the host is looked at.
    pub missing: Vec<Missing>,
}

/// One member of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The member as numaloc-host takes it.
    pub target: Target,
    /// The member as clients name it: a target with one member.
    pub name: value::Target,
}

/// A target that is this process, and no later process with the same pid.
pub fn exactly(named: &TargetProcess) -> Target {
    let TargetProcess { pid, start_time, ref boot_id } = *named;
    Target::Process { identity: Identity { pid, start_time }, boot_id: boot_id.clone() }
}

/// The processes that these pids name now.
///
/// # Errors
/// The host cannot be read.
pub fn pin(
    roots: &Roots,
    boot_id: &str,
    pids: impl IntoIterator<Item = i32>,
) -> Result<Pins, Error> {
    let pin = |(named, Identity { pid, start_time })| {
        (named, TargetProcess { pid, start_time, boot_id: boot_id.to_owned() })
    };
    Ok(identify(roots, pids)?.into_iter().map(pin).collect())
}

impl Member {
    /// The processes that a target names.
    pub fn processes(target: &value::Target) -> impl Iterator<Item = Self> {
        let pids = target.pids.iter().map(|&pid| {
            let name = value::Target { pids: [pid].into(), ..value::Target::default() };
            Self { target: Target::Pid(pid), name }
        });
        let exact = target.processes.iter().map(|named| {
            let name =
                value::Target { processes: [named.clone()].into(), ..value::Target::default() };
            Self { target: exactly(named), name }
        });
        pids.chain(exact)
    }

    /// The units and virtual machines that a target names.
    pub fn units(target: &value::Target) -> impl Iterator<Item = Self> {
        let units = target.units.iter().map(|unit| {
            let name = value::Target { units: [unit.clone()].into(), ..value::Target::default() };
            Self { target: Target::Unit(unit.clone()), name }
        });
        let machines = target.virtual_machines.iter().map(|machine| {
            let virtual_machines = [machine.clone()].into();
            let name = value::Target { virtual_machines, ..value::Target::default() };
            Self::on_host(NamedKind::VirtualMachine, machine, name)
        });
        units.chain(machines)
    }

    /// A member that is looked up on the host. `member` is its name for clients.
    pub fn on_host(kind: NamedKind, name: &str, member: value::Target) -> Self {
        Self { target: Target::Named { kind, name: name.to_owned() }, name: member }
    }
}

impl Aim {
    /// A target without regard to registered workloads: containers and pods are looked up on the host. Its selector and
    /// creators of workloads mean nothing then.
    pub fn unregistered(target: &value::Target) -> Self {
        if let Some(files) = Self::of_files(target) {
            return files;
        }
        let cgroups = target.cgroups.iter().map(|path| Member {
            target: Target::Cgroup(path.clone()),
            name: value::Target::cgroup(path),
        });
        let containers = target.containers.iter().map(|name| {
            Member::on_host(NamedKind::Container, name, value::Target::container(name))
        });
        let pods = target.pods.iter().map(|name| {
            let member = value::Target { pods: [name.clone()].into(), ..value::Target::default() };
            Member::on_host(NamedKind::Pod, name, member)
        });
        let members = Member::processes(target).chain(cgroups).chain(Member::units(target));
        let members = members.chain(containers).chain(pods).collect();
        Self { container_labels: target.container_labels.clone(), ..Self::of(members) }
    }

    /// A target of files; `None`: it names processes.
    pub fn of_files(target: &value::Target) -> Option<Self> {
        let files = target.files.clone();
        (!files.is_empty()).then(|| Self { files, ..Self::default() })
    }

    /// An aim of these members.
    pub fn of(members: Vec<Member>) -> Self {
        Self { members, ..Self::default() }
    }
    /// The pids among the members.
    pub fn pids(&self) -> impl Iterator<Item = i32> {
        self.members.iter().filter_map(|member| match member.target {
            Target::Pid(pid) => Some(pid),
            _ => None,
        })
    }

    /// Replaces each pid by the process that `pins` has for it. A pid without one is missing, and `why` gives the
    /// reason.
    pub fn pinned(self, pins: &Pins, why: impl Fn(i32) -> String) -> Self {
        let Self { members, files, container_labels, mut missing } = self;
        let pinned = |Member { target, name }| {
            let Target::Pid(pid) = target else { return Some(Member { target, name }) };
            let pin = pins.get(&pid).map(exactly);
            if pin.is_none() {
                missing.push(Missing { member: name.clone(), reason: why(pid), processes: 0 });
            }
            Some(Member { target: pin?, name })
        };
        let members = members.into_iter().filter_map(pinned).collect();
        Self { members, files, container_labels, missing }
    }
}
