//! What would help on the daemon's host.

use super::{
    Daemon, client,
    fields::{amount, name, node, nodes, seconds, text},
    missing::missing,
};
use crate::{
    doc::{AdviceDoc, FindingDoc, FlowDoc, hundredths},
    exit::Failure,
};
use numaloc_api::{v1, value};
use std::time::Duration;

impl Daemon {
    /// What would help a target, or everybody.
    pub fn advice(
        &self,
        target: Option<&value::Target>,
        interval: Duration,
        min_bytes: u64,
    ) -> Result<AdviceDoc, Failure> {
        let mut service = client!(self, locality_service_client, LocalityServiceClient);
        let message = v1::GetAdviceRequest {
            target: target.map(Into::into),
            interval: prost_types::Duration::try_from(interval).ok(),
            min_bytes: i64::try_from(min_bytes).ok(),
        };
        let answer =
            self.call(message, |request| async move { service.get_advice(request).await })?;
        let document = advice(&answer.advice.unwrap_or_default());
        Ok(AdviceDoc { missing: missing(&answer.missing), ..document })
    }
}

fn advice(message: &v1::Advice) -> AdviceDoc {
    let count = |number: i32| u64::try_from(number).unwrap_or(0);
    AdviceDoc {
        findings: message.findings.iter().map(finding).collect(),
        subject_count: count(message.subject_count),
        unreadable_count: count(message.unreadable_count),
        left_out_count: count(message.left_out_count),
        ended_count: count(message.ended_count),
        whole_host: message.is_whole,
        missing: Vec::new(),
    }
}

fn finding(message: &v1::Finding) -> FindingDoc {
    // A kind that only a newer daemon knows is shown by its number.
    let kind = match v1::FindingKind::try_from(message.kind) {
        Ok(kind) => name(kind.as_str_name(), "FINDING_KIND_"),
        Err(_) => format!("kind_{}", message.kind),
    };
    let source = v1::MemorySource::try_from(message.source).unwrap_or_default();
    let (cgroup, process) = match &message.who {
        Some(v1::finding::Who::Cgroup(path)) => (Some(path.clone()), None),
        Some(v1::finding::Who::Process(process)) => (None, Some(process)),
        None => (None, None),
    };
    let flow = |flow: &v1::Flow| FlowDoc {
        from_node: node(flow.from_node_id),
        to_node: node(flow.to_node_id),
        bytes: amount(flow.bytes),
    };
    let mems = nodes(&message.mems_node_ids);
    FindingDoc {
        kind,
        cgroup,
        pid: process.map(|process| process.pid),
        start_time_ticks: process.map(|process| amount(process.start_time_ticks)),
        name: message.name.clone(),
        resident_bytes: amount(message.resident_bytes),
        used_cpus: hundredths(message.used_cpus),
        from_nodes: nodes(&message.from_node_ids),
        home_nodes: nodes(&message.home_node_ids),
        cpus: text(&message.cpus),
        mems_nodes: (!mems.is_empty()).then_some(mems),
        flows: message.flows.iter().map(flow).collect(),
        bytes: amount(message.bytes),
        expected_seconds: seconds(message.expected_time),
        weight: message.weight.round(),
        source: (source != v1::MemorySource::Unspecified)
            .then(|| name(source.as_str_name(), "MEMORY_SOURCE_")),
        sampled_pages: (source == v1::MemorySource::Sampled).then(|| amount(message.sampled_pages)),
        age_seconds: message.age.map(|age| seconds(Some(age))),
        commands: message.commands.clone(),
    }
}
