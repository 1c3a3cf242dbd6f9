//! The steps for a subject in the right order: CPUs, then the migration, then cpuset.mems.
//!
//! cpuset.mems comes last because the kernel moves memory when it is written (kernel/cgroup/cpuset.c, `cpuset_migrate_mm`): all
//! at once and as fast as it can. Only nodes are added before, which moves nothing (mm/mempolicy.c, `do_migrate_pages`).

use super::{
    look::{CpuControl, Subject, Who},
    step::{AdviceStep, How},
};
use crate::machine::ids::{CpuSet, NodeSet};

/// A change of the settings of a subject.
#[derive(Clone, Debug)]
pub struct BindingChange<'a> {
    /// Its CPUs, if they change.
    pub cpus: Option<&'a CpuSet>,
    /// The nodes that its memory belongs on once its CPUs have changed.
    pub home: &'a NodeSet,
    /// The way to move its memory; `None` if it is not moved.
    pub how: Option<How>,
    /// The nodes besides its home that it may continue using, if those become fewer, where they can be set for it alone; `None` if
    /// they do not. Memory on all other nodes would be moved by the kernel.
    pub keeps: Option<NodeSet>,
}

/// The steps, and the nodes that its cpuset allows afterwards.
pub fn sequence(subject: &Subject, change: &BindingChange<'_>) -> (Vec<AdviceStep>, NodeSet) {
    let mut steps: Vec<AdviceStep> =
        change.cpus.and_then(|cpus| pin(subject, cpus)).into_iter().collect();
    let mut mems = subject.mems.clone();
    let set = |nodes: &NodeSet| mems_step(subject, nodes);
    if !change.home.is_subset(&mems) {
        mems = mems.or(change.home);
        steps.extend(set(&mems));
    }
    steps.extend(change.how.map(|how| AdviceStep::Migrate { who: subject.who.clone(), how }));
    let is_own = matches!(subject.handle, CpuControl::Unit(_) | CpuControl::Cpuset(_));
    let narrowed = change.keeps.as_ref().map(|keeps| change.home.or(&mems.and(keeps)));
    if let Some(narrowed) = narrowed.filter(|narrowed| is_own && *narrowed != mems) {
        mems = narrowed;
        steps.extend(set(&mems));
    }
    (steps, mems)
}

/// Whether the nodes that its cpuset allows can be changed to contain one of these.
pub fn can_be_allowed(subject: &Subject, nodes: &NodeSet) -> bool {
    mems_step(subject, nodes).is_some() && nodes.intersects(&subject.mems_above)
}

fn pin(subject: &Subject, cpus: &CpuSet) -> Option<AdviceStep> {
    let cpus = cpus.clone();
    Some(match (&subject.handle, &subject.who) {
        (CpuControl::Unit(unit), Who::Cgroup(cgroup)) => {
            AdviceStep::UnitCpus { unit: unit.clone(), cgroup: cgroup.clone(), cpus }
        }
        (CpuControl::Cpuset(directory), _) => {
            AdviceStep::CgroupCpus { directory: directory.clone(), cpus }
        }
        (CpuControl::Members(directory), _) => {
            AdviceStep::MembersCpus { directory: directory.clone(), cpus }
        }
        (CpuControl::Threads, Who::Process(identity)) => {
            AdviceStep::ProcessCpus { pid: identity.pid, cpus }
        }
        _ => return None,
    })
}

fn mems_step(subject: &Subject, nodes: &NodeSet) -> Option<AdviceStep> {
    let nodes = nodes.clone();
    match (&subject.handle, &subject.who, &subject.mems_directory) {
        (CpuControl::Foreign, ..) => None,
        (CpuControl::Unit(unit), Who::Cgroup(cgroup), _) => {
            Some(AdviceStep::UnitMems { unit: unit.clone(), cgroup: cgroup.clone(), nodes })
        }
        (_, _, Some(directory)) => {
            Some(AdviceStep::CgroupMems { directory: directory.clone(), nodes })
        }
        _ => None,
    }
}
