//! The order in which findings are carried out: the canary first, which is the one that touches least.

use super::finding::{Finding, FindingKind};
use crate::machine::ids::NodeSet;

/// The findings with the least memory first, settings of the whole host last. A finding that relies on an earlier one of the list,
/// because that leaves a node that this one enters, or is about the same subject, stays behind it.
pub fn smallest_first(findings: Vec<Finding>) -> Vec<Finding> {
    let waits: Vec<Vec<usize>> = (0..findings.len())
        .map(|late| (0..late).filter(|&early| relies(&findings[late], &findings[early])).collect())
        .collect();
    let (mut done, mut order) = (vec![false; findings.len()], Vec::new());
    while order.len() < findings.len() {
        let ready = (0..findings.len())
            .filter(|&at| !done[at] && waits[at].iter().all(|&before| done[before]));
        // The first finding that is left relies only on findings that are done, so there is always one.
        let Some(next) = ready.min_by_key(|&at| (findings[at].resident_bytes, at)) else { break };
        done[next] = true;
        order.push(next);
    }
    let mut findings: Vec<Option<Finding>> = findings.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| findings[at].take()).collect()
}

/// Whether a finding relies on an earlier one: it enters a node that the other one leaves, is about the same subject, or is a setting of the
/// whole host.
pub fn relies(late: &Finding, early: &Finding) -> bool {
    let is_setting = |kind| matches!(kind, FindingKind::Balancing | FindingKind::Thp);
    is_setting(late.kind) || late.who == early.who || entered(late).intersects(&left(early))
}

/// Nodes that lose memory or work.
fn left(finding: &Finding) -> NodeSet {
    let sources: NodeSet = finding.flows.keys().map(|&(from, _)| from).collect();
    match finding.cpus {
        Some(_) => sources.or(&finding.from_nodes.minus(&finding.home)),
        None => sources,
    }
}

/// Nodes that get memory or work.
fn entered(finding: &Finding) -> NodeSet {
    let targets: NodeSet = finding.flows.keys().map(|&(_, to)| to).collect();
    match finding.cpus {
        Some(_) => targets.or(&finding.home),
        None => targets,
    }
}
