//! `advise`.

use super::{
    MissingDoc,
    parts::{FlowDoc, flows, ids},
};
use numaloc_api::value::Missing;
use numaloc_core::advise::{Exactness, Finding, HostLook, Who};
use numaloc_host::Looked;
use serde::Serialize;

/// What `advise` shows.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceDoc {
    /// What was found, in the order in which it is to be followed.
    pub findings: Vec<FindingDoc>,
    /// How many cgroups and processes were looked at closely.
    pub subject_count: u64,
    /// Processes that may not be read.
    pub unreadable_count: u64,
    /// Cgroups and processes that were left out: there are too many.
    pub left_out_count: u64,
    /// Processes that ended meanwhile.
    pub ended_count: u64,
    /// Whether everybody was looked at.
    pub whole_host: bool,
    /// What of the target is left out.
    pub missing: Vec<MissingDoc>,
}

/// What is wrong, what it would bring to change that, and how.
#[derive(Clone, Debug, Serialize)]
pub struct FindingDoc {
    /// What is wrong.
    pub kind: String,
    /// The cgroup that it is about, or null.
    pub cgroup: Option<String>,
    /// The process that it is about, or null.
    pub pid: Option<i32>,
    /// The start of the process, in clock ticks after boot, or null.
    pub start_time_ticks: Option<u64>,
    /// Its name; empty for the host.
    pub name: String,
    /// Its memory.
    pub resident_bytes: u64,
    /// CPUs that it uses.
    pub used_cpus: f64,
    /// Nodes of its CPUs now.
    pub from_nodes: Vec<u32>,
    /// Its home afterwards.
    pub home_nodes: Vec<u32>,
    /// The CPUs that it would have; null if they do not change.
    pub cpus: Option<String>,
    /// The nodes that its cpuset would allow; null if they do not change.
    pub mems_nodes: Option<Vec<u32>>,
    /// What would move.
    pub flows: Vec<FlowDoc>,
    /// All of it.
    pub bytes: u64,
    /// A guess at how long that takes.
    pub expected_seconds: f64,
    /// Bytes that would no longer be reached from afar, times CPUs.
    pub weight: f64,
    /// How it was found out where its memory is: `counted`, `scanned`, `sampled`; null for the host.
    pub source: Option<String>,
    /// Pages that were looked at, if it was sampled.
    pub sampled_pages: Option<u64>,
    /// How long before the end of the look that was.
    pub age_seconds: Option<f64>,
    /// The commands in their order.
    pub commands: Vec<String>,
}

impl AdviceDoc {
    /// A document from a look at this host.
    pub fn new(looked: &Looked, findings: &[Finding], missing: &[Missing]) -> Self {
        let finding = |found| finding(&looked.look, found);
        Self {
            findings: findings.iter().map(finding).collect(),
            subject_count: looked.look.subjects.len() as u64,
            unreadable_count: looked.unreadable as u64,
            left_out_count: looked.left_out as u64,
            ended_count: looked.ended as u64,
            whole_host: looked.look.is_whole,
            missing: missing.iter().map(Into::into).collect(),
        }
    }
}

fn finding(look: &HostLook, finding: &Finding) -> FindingDoc {
    let subject = look.subjects.iter().find(|subject| Some(&subject.who) == finding.who.as_ref());
    let exactness = subject.map(|subject| subject.exactness);
    let (cgroup, process) = match &finding.who {
        None => (None, None),
        Some(Who::Cgroup(path)) => (Some(path.clone()), None),
        Some(Who::Process(identity)) => (None, Some(identity)),
    };
    FindingDoc {
        kind: finding.kind.name().to_owned(),
        cgroup,
        pid: process.map(|process| process.pid),
        start_time_ticks: process.map(|process| process.start_time),
        name: finding.name.clone(),
        resident_bytes: finding.resident_bytes,
        used_cpus: hundredths(finding.used_cpus),
        from_nodes: ids(&finding.from_nodes),
        home_nodes: ids(&finding.home),
        cpus: finding.cpus.as_ref().map(ToString::to_string),
        mems_nodes: finding.mems.as_ref().map(ids),
        flows: flows(&finding.flows),
        bytes: finding.bytes,
        expected_seconds: finding.seconds,
        weight: finding.weight.round(),
        source: exactness.map(|exactness| exactness.name().to_owned()),
        sampled_pages: match exactness {
            Some(Exactness::Sampled(pages)) => Some(pages),
            _ => None,
        },
        age_seconds: subject.map(|subject| subject.age.as_secs_f64()),
        commands: finding.steps.iter().map(|step| step.shell()).collect(),
    }
}

/// Rounded to two decimals.
pub fn hundredths(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
