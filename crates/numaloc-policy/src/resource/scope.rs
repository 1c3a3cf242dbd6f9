//! The policies of the cluster that are for one container, in the order in which they decide.

use super::{Node, PolicyKind, PolicyResource, PolicyVerdict};
use crate::{Ceilings, Container, Pod};
use numaloc_api::value::QosClass;
use std::{cmp::Reverse, time::SystemTime};

/// The policies of a cluster, as one of its nodes has them.
#[derive(Clone, Copy, Debug)]
pub struct Policies<'a> {
    /// All policies, in any order.
    pub all: &'a [PolicyResource],
    pub node: &'a Node,
    /// The time: policies may end.
    pub now: SystemTime,
}

impl<'a> Policies<'a> {
    /// The policies for a container of this class.
    pub(crate) fn of(&self, pod: &Pod, container: &Container, class: QosClass) -> Applicable<'a> {
        let applies =
            |policy: &&PolicyResource| policy.applies(pod, container, class, self.node, self.now);
        let mut policies: Vec<_> = self.all.iter().filter(applies).collect();
        policies.sort_by_key(|policy| (Reverse(policy.priority), &policy.name));
        Applicable(policies)
    }

    /// The next time after [`Policies::now`] at which a policy ends; `None`: none will.
    pub fn next_expiry(&self) -> Option<SystemTime> {
        let ends = self.all.iter().filter_map(|policy| policy.cluster.expires);
        ends.filter(|end| *end > self.now).min()
    }
}

/// The policies that are for one container, those that decide first before the others.
#[derive(Default)]
pub(crate) struct Applicable<'a>(Vec<&'a PolicyResource>);

impl<'a> Applicable<'a> {
    /// The policy of the cluster that precedes all other sources.
    pub fn enforced(&self) -> Option<&'a PolicyResource> {
        self.deciding(PolicyKind::Cluster).find(|policy| policy.cluster.is_enforced)
    }

    pub fn of_namespace(&self) -> Option<&'a PolicyResource> {
        self.deciding(PolicyKind::Namespaced).next()
    }

    pub fn of_cluster(&self) -> Option<&'a PolicyResource> {
        self.deciding(PolicyKind::Cluster).next()
    }

    /// The bounds of requests by pods and namespaces, if a policy has them.
    pub fn bounds(&self) -> Option<&'a Ceilings> {
        self.0.iter().find_map(|policy| policy.cluster.bounds.as_ref())
    }

    fn deciding(&self, kind: PolicyKind) -> impl Iterator<Item = &'a PolicyResource> {
        let all = self.0.iter().copied().filter(move |policy| policy.kind == kind);
        all.filter(|policy| policy.verdict != PolicyVerdict::Abstains)
    }
}
