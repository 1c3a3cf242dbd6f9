//! The benefit of following a finding, by the latencies of the machine.

use super::{
    capacity::{even_shares, shares},
    finding::{Finding, FindingKind},
    look::HostLook,
};
use crate::plan::benefit::{Benefit, Change, Waits};
use std::collections::BTreeMap;

/// The benefit of following a finding on this host, which has not followed it yet; `None` if no memory comes nearer.
pub fn benefit(look: &HostLook, finding: &Finding) -> Option<Benefit> {
    let topology = &look.topology;
    let subject =
        look.subjects.iter().find(|subject| Some(&subject.who) == finding.who.as_ref())?;
    let before = shares(topology, subject);
    let after =
        finding.cpus.as_ref().map_or_else(|| before.clone(), |cpus| even_shares(topology, cpus));
    let change = |from, to, bytes| Change {
        before: (before.clone(), from),
        after: (after.clone(), to),
        bytes,
    };
    let flows = finding.flows.iter();
    let mut changes: Vec<Change> =
        flows.map(|(&(from, to), &bytes)| change(from, to, bytes)).collect();
    // A subject that gets other CPUs has other latencies to memory that stays.
    if finding.cpus.is_some() && finding.kind != FindingKind::Hugetlb {
        let mut stays: BTreeMap<_, u64> = subject.resident.clone();
        for (&(from, _), &bytes) in &finding.flows {
            let left = stays.entry(from).or_default();
            *left = left.saturating_sub(bytes);
        }
        changes.extend(stays.into_iter().map(|(node, bytes)| change(node, node, bytes)));
    }
    let bytes = changes.iter().map(|change| change.bytes).sum();
    Waits::of(topology, &changes)?.benefit(bytes, finding.resident_bytes)
}
