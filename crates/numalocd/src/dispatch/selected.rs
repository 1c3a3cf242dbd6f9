//! Targets with their workloads resolved, and what can be resolved without asking what is registered. No IO.

use crate::order::{Aim, Member, exactly};
use numaloc_api::value::{QosClass, Target};
use numaloc_host::{NamedKind, Target as HostTarget};
use std::collections::BTreeSet;

/// A target with its workloads resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// What the target names; workloads are replaced by their cgroups.
    pub aim: Aim,
    /// The best QoS class among the workloads that the target names, if any has one.
    pub qos_class: Option<QosClass>,
}

/// A target that names neither cgroups nor workloads, or files, resolved: what is registered does not matter. `None`: it names some.
pub fn plain(target: &Target) -> Option<Selected> {
    if let Some(selected) = files(target) {
        return Some(selected);
    }
    let Target { cgroups, containers, pods, labels, workload_creators, container_labels, .. } =
        target;
    let names = [cgroups, containers, pods, workload_creators];
    let is_plain = labels.is_empty() && names.into_iter().all(BTreeSet::is_empty);
    is_plain.then(|| {
        let members = processes(target).into_iter().chain(units(target)).collect();
        let container_labels = container_labels.clone();
        let aim = Aim { container_labels, ..Aim::of(members) };
        Selected { aim, qos_class: None }
    })
}

/// A target of files; `None`: it names processes.
pub fn files(target: &Target) -> Option<Selected> {
    let aim = Aim { files: target.files.clone(), ..Aim::default() };
    (!target.files.is_empty()).then_some(Selected { aim, qos_class: None })
}

/// The processes that a target names.
pub fn processes(target: &Target) -> Vec<Member> {
    let pids = target.pids.iter().map(|&pid| {
        let name = Target { pids: [pid].into(), ..Target::default() };
        Member { target: HostTarget::Pid(pid), name }
    });
    let exact = target.processes.iter().map(|named| {
        let name = Target { processes: [named.clone()].into(), ..Target::default() };
        Member { target: exactly(named), name }
    });
    pids.chain(exact).collect()
}

/// The units and virtual machines that a target names.
pub fn units(target: &Target) -> impl Iterator<Item = Member> {
    let units = target.units.iter().map(|unit| {
        let name = Target { units: [unit.clone()].into(), ..Target::default() };
        Member { target: HostTarget::Unit(unit.clone()), name }
    });
    let machines = target.virtual_machines.iter().map(|machine| {
        let name = Target { virtual_machines: [machine.clone()].into(), ..Target::default() };
        on_host(NamedKind::VirtualMachine, machine, name)
    });
    units.chain(machines)
}

/// A member that is looked up on the host. `member` is its name for clients.
pub fn on_host(kind: NamedKind, name: &str, member: Target) -> Member {
    Member { target: HostTarget::Named { kind, name: name.to_owned() }, name: member }
}
