//! Migrations that the daemon was asked for, as documents.

use super::fields::{amount, name, text};
use crate::doc::{LabelConditionDoc, LimitsDoc, OptionsDoc, SpecDoc, TargetDoc, TargetProcessDoc};
use numaloc_api::{
    v1,
    value::{Limits, Policy},
};

/// A document from a message.
pub fn spec(message: Option<&v1::MigrationSpec>) -> SpecDoc {
    let empty = v1::MigrationSpec::default();
    let message = message.unwrap_or(&empty);
    let policy = message.policy.clone().unwrap_or_default();
    SpecDoc {
        target: target(message.target.as_ref()),
        options: options(&policy),
        qos_class: qos_class(policy.qos_class()),
        on_interrupt: on_interrupt(&policy),
        emit: emit(&policy),
        tenant: text(&policy.tenant),
        offload: Policy::from(policy.clone()).offload.name(),
        numa_balancing: Policy::from(policy).numa_balancing.name(),
        limits: limits_doc(message.limits.as_ref()),
    }
}

fn on_interrupt(policy: &v1::Policy) -> String {
    match policy.on_interrupt() {
        v1::InterruptAction::Unspecified | v1::InterruptAction::Stop => "stop".to_owned(),
        v1::InterruptAction::Resume => "resume".to_owned(),
    }
}

fn emit(policy: &v1::Policy) -> &'static str {
    match policy.emit() {
        v1::Emit::Unspecified | v1::Emit::OnChange => "on_change",
        v1::Emit::Always => "always",
    }
}

/// A class; `None` if the registered workload decides it.
pub fn qos_class(class: v1::QosClass) -> Option<String> {
    let given = class != v1::QosClass::Unspecified;
    given.then(|| name(class.as_str_name(), "QOS_CLASS_"))
}

/// Whose memory.
pub fn target(message: Option<&v1::Target>) -> TargetDoc {
    let Some(message) = message.cloned() else { return TargetDoc::default() };
    let labels = message.labels.unwrap_or_default();
    TargetDoc {
        pids: message.pids,
        cgroups: message.cgroups,
        units: message.units,
        container_ids: message.container_ids,
        pod_uids: message.pod_uids,
        label_conditions: labels.match_expressions.into_iter().map(condition).collect(),
        labels: labels.match_labels,
        namespace: text(&labels.namespace),
        workload_creators: message.workload_creators,
        processes: message.processes.into_iter().map(process).collect(),
    }
}

fn condition(message: v1::LabelSelectorRequirement) -> LabelConditionDoc {
    use v1::LabelSelectorOperator as Operator;
    let operator = match message.operator() {
        Operator::In => "in",
        Operator::NotIn => "not_in",
        Operator::Exists => "exists",
        Operator::DoesNotExist => "does_not_exist",
        Operator::Unspecified => "unknown",
    };
    LabelConditionDoc { key: message.key, operator, values: message.values }
}

fn process(message: v1::TargetProcess) -> TargetProcessDoc {
    TargetProcessDoc {
        pid: message.pid,
        start_time_ticks: amount(message.start_time_ticks),
        boot_id: message.boot_id,
    }
}

/// What to move and where to.
pub fn options(policy: &v1::Policy) -> OptionsDoc {
    (&Policy::from(policy.clone()).options).into()
}

fn limits_doc(message: Option<&v1::Limits>) -> LimitsDoc {
    let limits = message.copied().map(Limits::from).unwrap_or_default();
    LimitsDoc {
        batch_bytes: limits.batch_bytes,
        workers: limits.workers.map(|workers| workers as u64),
        timeout_seconds: limits.timeout.map(|timeout| timeout.as_secs_f64()),
        rate_bytes_per_second: limits.rate_bytes_per_second,
    }
}
