//! Values to requests of a client, and to the same parts of the daemon's answers.

use super::{
    names::{duration, int, int32},
    workload::PART_MAX,
};
use crate::{v1, value};
use prost::Message;
use std::{collections::BTreeSet, mem, time::Duration};

impl From<&value::Target> for v1::Target {
    fn from(target: &value::Target) -> Self {
        Self {
            pids: target.pids.iter().copied().collect(),
            cgroups: target.cgroups.iter().cloned().collect(),
            units: target.units.iter().cloned().collect(),
            containers: target.containers.iter().cloned().collect(),
            pods: target.pods.iter().cloned().collect(),
            virtual_machines: target.virtual_machines.iter().cloned().collect(),
            container_labels: target.container_labels.iter().cloned().collect(),
            labels: (!target.labels.is_empty()).then(|| (&target.labels).into()),
            processes: target.processes.iter().map(Into::into).collect(),
            workload_creators: target.workload_creators.iter().cloned().collect(),
            files: target.files.iter().cloned().collect(),
        }
    }
}

impl From<&value::TargetProcess> for v1::TargetProcess {
    fn from(process: &value::TargetProcess) -> Self {
        Self {
            pid: process.pid,
            start_time_ticks: int(process.start_time),
            boot_id: process.boot_id.clone(),
        }
    }
}

impl From<&value::FoundAt> for v1::FoundMember {
    fn from(at: &value::FoundAt) -> Self {
        let cgroup = at.cgroup.clone().unwrap_or_default();
        Self { member: None, cgroup, found_by: at.by.clone() }
    }
}

impl From<&value::FoundMember> for v1::FoundMember {
    fn from(found: &value::FoundMember) -> Self {
        Self { member: Some((&found.member).into()), ..(&found.at).into() }
    }
}

impl From<&value::Missing> for v1::MissingMember {
    fn from(missing: &value::Missing) -> Self {
        Self {
            member: Some((&missing.member).into()),
            reason: missing.reason.clone(),
            process_count: int32(missing.processes),
        }
    }
}

/// The processes that pids stand for, as a list.
pub fn pins(pins: &value::Pins) -> Vec<v1::PinnedProcess> {
    let pin = |(&pid, process)| v1::PinnedProcess {
        pid,
        process: Some(v1::TargetProcess::from(process)),
    };
    pins.iter().map(pin).collect()
}

impl From<&value::Limits> for v1::Limits {
    fn from(limits: &value::Limits) -> Self {
        let workers = limits.workers.map(|workers| i32::try_from(workers).unwrap_or(i32::MAX));
        Self {
            batch_bytes: limits.batch_bytes.map(int),
            workers,
            timeout: limits.timeout.map(duration),
            rate_bytes_per_second: limits.rate_bytes_per_second.map(int),
            hourly_budget_bytes: limits.hourly_budget_bytes.map(int),
        }
    }
}

impl From<&value::MigrationSpec> for v1::MigrationSpec {
    fn from(spec: &value::MigrationSpec) -> Self {
        Self {
            target: Some((&spec.target).into()),
            policy: Some((&spec.policy).into()),
            limits: Some((&spec.limits).into()),
        }
    }
}

impl From<&value::CreateJob> for v1::CreateJobRequest {
    fn from(request: &value::CreateJob) -> Self {
        Self {
            spec: Some((&request.spec).into()),
            request_id: request.request_id.clone().unwrap_or_default(),
            on_conflict: v1::ConflictAction::from(request.on_conflict).into(),
            job_id: request.id.as_ref().map(|id| id.id().to_owned()).unwrap_or_default(),
            labels: request.labels.clone(),
            validate_only: request.validate_only,
        }
    }
}

impl From<&value::DeleteJob> for v1::DeleteJobRequest {
    fn from(request: &value::DeleteJob) -> Self {
        Self {
            name: request.id.to_string(),
            allow_missing: request.allow_missing,
            validate_only: request.validate_only,
        }
    }
}

impl From<&value::ScheduleSpec> for v1::Schedule {
    /// Sets only the fields that a client sets.
    fn from(spec: &value::ScheduleSpec) -> Self {
        Self {
            spec: Some((&spec.migration).into()),
            interval: Some(duration(spec.interval)),
            jitter: Some(duration(spec.jitter)),
            ttl_after_gone: spec.ttl_after_gone.map(duration),
            paused: spec.paused,
            labels: spec.labels.clone(),
            ..Self::default()
        }
    }
}

impl From<&value::WorkloadSpec> for v1::Workload {
    /// Sets only the fields that a client sets.
    fn from(spec: &value::WorkloadSpec) -> Self {
        let qos_class = spec.qos_class.map_or(v1::QosClass::Unspecified, Into::into);
        Self {
            name: spec.id.to_string(),
            cgroup: spec.cgroup.clone(),
            container_id: spec.container_id.clone().unwrap_or_default(),
            pod_uid: spec.pod_uid.clone().unwrap_or_default(),
            labels: spec.labels.clone(),
            qos_class: qos_class.into(),
            namespace: spec.namespace.clone().unwrap_or_default(),
            source: spec.source.clone().unwrap_or_default(),
            ttl: spec.ttl.map(duration),
            ..Self::default()
        }
    }
}

impl From<&value::RegisterWorkload> for v1::RegisterWorkloadRequest {
    fn from(request: &value::RegisterWorkload) -> Self {
        let etag = request.etag.clone().unwrap_or_default();
        let named = |mask: &BTreeSet<value::WorkloadField>| prost_types::FieldMask {
            paths: value::WorkloadField::ALL
                .iter()
                .filter(|(_, field)| mask.contains(field))
                .map(|&(name, _)| name.to_owned())
                .collect(),
        };
        Self {
            workload: Some(v1::Workload { etag, ..(&request.spec).into() }),
            update_mask: request.mask.as_ref().map(named),
            create_only: request.create_only,
            allow_missing: request.allow_missing,
            validate_only: request.validate_only,
            request_id: request.request_id.clone().unwrap_or_default(),
        }
    }
}

/// Most bytes of workloads in one message: well below the 1 MiB that a daemon accepts.
const PART_BYTES: usize = 768 << 10;

impl v1::ReplaceWorkloadsRequest {
    /// The messages that declare the set `source` of the caller, of which only the last one says that it is. Workloads without a
    /// lease of their own get `ttl`.
    pub fn parts(
        source: Option<&str>,
        workloads: impl IntoIterator<Item = v1::Workload>,
        ttl: Option<Duration>,
    ) -> Vec<Self> {
        let empty = || Self {
            source: source.unwrap_or_default().to_owned(),
            ttl: ttl.map(duration),
            ..Self::default()
        };
        let (mut parts, mut part, mut bytes) = (Vec::new(), empty(), 0);
        for workload in workloads {
            let more = workload.encoded_len() + 8;
            if part.workloads.len() == PART_MAX || bytes + more > PART_BYTES {
                parts.push(mem::replace(&mut part, empty()));
                bytes = 0;
            }
            bytes += more;
            part.workloads.push(workload);
        }
        parts.push(Self { last: true, ..part });
        parts
    }
}

impl From<&value::UnregisterWorkload> for v1::UnregisterWorkloadRequest {
    fn from(request: &value::UnregisterWorkload) -> Self {
        Self {
            name: request.id.to_string(),
            etag: request.etag.clone().unwrap_or_default(),
            allow_missing: request.allow_missing,
            validate_only: request.validate_only,
        }
    }
}

impl From<&value::DeleteSchedule> for v1::DeleteScheduleRequest {
    fn from(request: &value::DeleteSchedule) -> Self {
        Self {
            name: request.id.to_string(),
            etag: request.etag.clone().unwrap_or_default(),
            allow_missing: request.allow_missing,
            validate_only: request.validate_only,
        }
    }
}

impl From<&value::WorkloadFilter> for v1::WorkloadFilter {
    fn from(filter: &value::WorkloadFilter) -> Self {
        Self {
            creator: filter.creator.clone().unwrap_or_default(),
            source: filter.source.clone().unwrap_or_default(),
            id_prefix: filter.id_prefix.clone().unwrap_or_default(),
            selector: (!filter.selector.is_empty()).then(|| (&filter.selector).into()),
        }
    }
}
