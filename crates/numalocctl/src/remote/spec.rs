//! What the daemon was asked for.

use super::fields::{amount, name, nodes, span};
use crate::doc::{LimitsDoc, OptionsDoc, SpecDoc, TargetDoc};
use numaloc_api::{
    v1,
    value::{Limits, OnInterrupt, Policy, QosClass},
};
use numaloc_core::{NodeId, Options};

/// A document from the message.
pub fn spec(message: Option<&v1::MigrationSpec>) -> SpecDoc {
    let empty = v1::MigrationSpec::default();
    let message = message.unwrap_or(&empty);
    let policy = message.policy.clone().unwrap_or_default();
    SpecDoc {
        target: target(message.target.as_ref()),
        options: options(&policy),
        qos_class: qos_class(policy.qos_class()),
        on_interrupt: on_interrupt(&policy),
        limits: limits_doc(message.limits.as_ref()),
    }
}

fn on_interrupt(policy: &v1::Policy) -> String {
    match policy.on_interrupt() {
        v1::InterruptAction::Unspecified | v1::InterruptAction::Stop => "stop".to_owned(),
        v1::InterruptAction::Resume => "resume".to_owned(),
    }
}

/// A class; nothing if it is left to the workload.
pub fn qos_class(class: v1::QosClass) -> Option<String> {
    let given = class != v1::QosClass::Unspecified;
    given.then(|| name(class.as_str_name(), "QOS_CLASS_"))
}

/// Whose memory.
pub fn target(message: Option<&v1::Target>) -> TargetDoc {
    let Some(message) = message.cloned() else { return TargetDoc::default() };
    TargetDoc {
        pids: message.pids,
        cgroups: message.cgroups,
        units: message.units,
        container_ids: message.container_ids,
        pod_uids: message.pod_uids,
        labels: message.labels.map(|labels| labels.match_labels).unwrap_or_default(),
    }
}

/// What to move and where to.
pub fn options(policy: &v1::Policy) -> OptionsDoc {
    (&core_options(policy)).into()
}

fn core_options(policy: &v1::Policy) -> Options {
    let to = match &policy.placement {
        Some(v1::policy::Placement::Nodes(to)) => {
            Some(nodes(&to.node_ids).into_iter().map(NodeId).collect())
        }
        Some(v1::policy::Placement::Local(_)) | None => None,
    };
    let ratio = policy.target_ratio_percent.and_then(|ratio| u8::try_from(ratio).ok());
    Options {
        include_shared: policy.include_shared,
        exclude_file: policy.exclude_file,
        include_bound: policy.include_bound,
        target_ratio: ratio.unwrap_or(100),
        to,
        reserve_bytes: policy.reserve_bytes.map(amount),
    }
}

/// A policy of the daemon's, to be changed.
pub fn policy(message: &v1::Policy) -> Policy {
    let qos_class = match message.qos_class() {
        v1::QosClass::Unspecified => None,
        v1::QosClass::Lsr => Some(QosClass::Lsr),
        v1::QosClass::Ls => Some(QosClass::Ls),
        v1::QosClass::Be => Some(QosClass::Be),
    };
    let resume = message.on_interrupt() == v1::InterruptAction::Resume;
    let on_interrupt = if resume { OnInterrupt::Resume } else { OnInterrupt::Stop };
    Policy { options: core_options(message), qos_class, on_interrupt }
}

/// Bounds of the daemon's, to be changed.
pub fn limits(message: &v1::Limits) -> Limits {
    Limits {
        batch_bytes: message.batch_bytes.map(amount),
        workers: message.workers.and_then(|workers| usize::try_from(workers).ok()),
        timeout: message.timeout.map(span),
        rate_bytes_per_second: message.rate_bytes_per_second.map(amount),
    }
}

fn limits_doc(message: Option<&v1::Limits>) -> LimitsDoc {
    let limits = message.map(limits).unwrap_or_default();
    LimitsDoc {
        batch_bytes: limits.batch_bytes,
        workers: limits.workers.map(|workers| workers as u64),
        timeout_seconds: limits.timeout.map(|timeout| timeout.as_secs_f64()),
        rate_bytes_per_second: limits.rate_bytes_per_second,
    }
}
