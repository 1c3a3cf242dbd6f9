//! Targets with their workloads resolved, and what can be resolved without asking what is registered. No IO.

use numaloc_api::value::{QosClass, Target};
use numaloc_engine::{Aim, Member};
use std::collections::BTreeSet;

/// A target with its workloads resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The target; workloads are replaced by their cgroups.
    pub aim: Aim,
    /// The best QoS class among the workloads that the target names, if any has one.
    pub qos_class: Option<QosClass>,
}

/// A target that names neither cgroups nor workloads, or files, resolved: what is registered does not matter. `None`:
/// it names some.
pub fn plain(target: &Target) -> Option<Selected> {
    if let Some(selected) = files(target) {
        return Some(selected);
    }
    let Target { cgroups, containers, pods, labels, workload_creators, container_labels, .. } =
        target;
    let names = [cgroups, containers, pods, workload_creators];
    let is_plain = labels.is_empty() && names.into_iter().all(BTreeSet::is_empty);
    is_plain.then(|| {
        let members = Member::processes(target).chain(Member::units(target)).collect();
        let container_labels = container_labels.clone();
        let aim = Aim { container_labels, ..Aim::of(members) };
        Selected { aim, qos_class: None }
    })
}

/// A target of files; `None`: it names processes.
pub fn files(target: &Target) -> Option<Selected> {
    Some(Selected { aim: Aim::of_files(target)?, qos_class: None })
}
