//! A subject whose work goes to other nodes: its pin changes, and its memory follows.

use super::{
    capacity::HostState,
    finding::{Finding, FindingKind},
    look::Subject,
    sequence::{BindingChange, can_be_allowed, sequence},
    step::How,
};
use crate::{
    machine::ids::{CpuSet, NodeSet},
    result::outcome::Flows,
};

/// A set of nodes to run on, and the CPUs there.
pub type NodesAndCpus = (NodeSet, CpuSet);

/// Its work runs there from now on, and its memory makes these moves. The weight is still to be said.
pub fn repinned(
    host: &HostState,
    subject: &Subject,
    kind: FindingKind,
    (nodes, cpus): NodesAndCpus,
    flows: Flows,
) -> Finding {
    let bytes: u64 = flows.values().sum();
    let how = (bytes > 0).then_some(How::Home);
    let change =
        BindingChange { cpus: Some(&cpus), home: &nodes, how, keeps: Some(host.other_tiers()) };
    let (steps, mems) = sequence(subject, &change);
    Finding {
        from_nodes: subject.home(&host.look.topology),
        home: nodes,
        cpus: Some(cpus),
        mems: (mems != subject.mems).then_some(mems),
        flows,
        steps,
        ..Finding::of(subject, kind, bytes)
    }
}

/// Whether its memory may be on all of these nodes, or can be allowed to.
pub fn may_be_on(subject: &Subject, nodes: &NodeSet) -> bool {
    let is_allowed = nodes.is_subset(&subject.mems)
        || nodes.is_subset(&subject.mems_above) && can_be_allowed(subject, nodes);
    is_allowed && !subject.policy.permits(nodes).is_empty()
}
