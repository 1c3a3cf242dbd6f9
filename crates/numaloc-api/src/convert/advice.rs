//! Advice: findings with their steps, and what was looked at for them.

use super::{
    locality::flows,
    names::{duration, int, int32, timestamp},
    placement::node_ids,
};
use crate::v1;
use numaloc_core::{
    NodeSet,
    advise::{Exactness, Finding, HostLook, Who, node_fit},
};
use std::time::{Duration, SystemTime};

/// Advice, and what was looked at for it.
#[derive(Clone, Copy, Debug)]
pub struct AdviceView<'a> {
    /// The nodes and subjects that the findings are about.
    pub look: &'a HostLook,
    /// The findings, most beneficial ones first.
    pub findings: &'a [Finding],
    /// Processes that may not be read.
    pub unreadable: usize,
    /// Number of subjects that were left out, because there were too many or time was up.
    pub left_out: usize,
    /// Number of processes that ended before the look did.
    pub ended: usize,
    /// When the look ended, for `Advice.time`.
    pub time: SystemTime,
}

impl From<AdviceView<'_>> for v1::Advice {
    fn from(view: AdviceView<'_>) -> Self {
        let fit = node_fit(view.look);
        Self {
            memory_bytes: int(fit.all_bytes),
            node_fit_bytes: int(fit.fit_bytes),
            node_fit_count: int32(fit.fit_count),
            findings: view.findings.iter().map(|found| finding(view.look, found)).collect(),
            subject_count: int32(view.look.subjects.len()),
            unreadable_count: int32(view.unreadable),
            left_out_count: int32(view.left_out),
            ended_count: int32(view.ended),
            is_whole: view.look.is_whole,
            read_time: Some(timestamp(view.time)),
        }
    }
}

fn finding(look: &HostLook, finding: &Finding) -> v1::Finding {
    let subject = look.subjects.iter().find(|subject| Some(&subject.who) == finding.who.as_ref());
    let (source, sampled_pages) = match subject.map(|subject| subject.exactness) {
        None => (v1::MemorySource::Unspecified, 0),
        Some(Exactness::Counted) => (v1::MemorySource::Counted, 0),
        Some(Exactness::Scanned) => (v1::MemorySource::Scanned, 0),
        Some(Exactness::Sampled(pages)) => (v1::MemorySource::Sampled, int(pages)),
    };
    let nodes = |nodes: &NodeSet| node_ids(nodes).collect();
    v1::Finding {
        kind: v1::FindingKind::from(finding.kind).into(),
        who: finding.who.as_ref().map(|who| match who {
            Who::Cgroup(path) => v1::finding::Who::Cgroup(path.clone()),
            Who::Process(identity) => v1::finding::Who::Process((*identity).into()),
        }),
        name: finding.name.clone(),
        resident_bytes: int(finding.resident_bytes),
        used_cpus: finding.used_cpus,
        from_node_ids: nodes(&finding.from_nodes),
        home_node_ids: nodes(&finding.home),
        cpus: finding.cpus.as_ref().map_or(String::new(), ToString::to_string),
        mems_node_ids: finding.mems.as_ref().map_or(Vec::new(), nodes),
        flows: flows(&finding.flows),
        bytes: int(finding.bytes),
        expected_time: Some(duration(
            Duration::try_from_secs_f64(finding.seconds).unwrap_or_default(),
        )),
        weight: finding.weight,
        benefit: finding.benefit.map(Into::into),
        source: source.into(),
        sampled_pages,
        age: subject.map(|subject| duration(subject.age)),
        storage_bytes: int(finding.storage_bytes),
        commands: finding.steps.iter().map(|step| step.shell()).collect(),
    }
}
