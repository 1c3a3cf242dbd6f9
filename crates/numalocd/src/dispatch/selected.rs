//! Targets with their workloads resolved, and what can be resolved without asking what is registered. No IO.

use crate::refusal::Refusal;
use numaloc_api::value::{Policy, QosClass, Target};
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

impl Selected {
    /// The class of a job that asks for this policy. Memory that is placed by its use is that of best-effort work, unless a class is
    /// registered or named: what is cold gets slower.
    ///
    /// # Errors
    /// [`Refusal::HostCannot`]: the workload is LSR, memory is placed by its use, and the policy does not name the class.
    pub fn class_for(&self, policy: &Policy) -> Result<Option<QosClass>, Refusal> {
        let by_use = policy.options.placement.by_use().is_some();
        match (policy.qos_class, self.qos_class) {
            (Some(class), _) => Ok(Some(class)),
            (None, Some(QosClass::Lsr)) if by_use => {
                let message = "the target has a workload of class LSR, whose memory is not placed by its use: name another target, or \
                               ask for the class LSR (--qos lsr)";
                Err(Refusal::HostCannot { message: message.into() })
            }
            (None, None) if by_use => Ok(Some(QosClass::Be)),
            (None, registered) => Ok(registered),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use numaloc_core::Options;

    #[test]
    fn memory_is_placed_by_use_for_best_effort_work_unless_a_class_is_named() {
        let policy = |placement: &str, qos_class| {
            let placement = placement.parse().expect("valid");
            let options = Options { placement, ..Options::default() };
            Policy { options, qos_class, ..Policy::default() }
        };
        let class = |registered, policy: &Policy| {
            let selected = Selected { aim: Aim::of(Vec::new()), qos_class: registered };
            selected.class_for(policy)
        };
        let (tiers, home) = (policy("tiers", None), policy("home", None));
        assert!(matches!(class(None, &tiers), Ok(Some(QosClass::Be))));
        assert!(matches!(class(Some(QosClass::Ls), &tiers), Ok(Some(QosClass::Ls))));
        let refused = class(Some(QosClass::Lsr), &tiers).expect_err("LSR");
        assert!(refused.to_string().contains("class LSR"), "{refused}");
        let named = policy("tiers", Some(QosClass::Lsr));
        assert!(matches!(class(Some(QosClass::Lsr), &named), Ok(Some(QosClass::Lsr))));
        assert!(matches!(class(Some(QosClass::Lsr), &home), Ok(Some(QosClass::Lsr))));
        assert!(matches!(class(None, &home), Ok(None)));
    }
}
