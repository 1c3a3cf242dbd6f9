//! Requests about workloads, and the parts of workload sets.

use super::{
    bounds::{CREATOR_MAX, ETAG_MAX, PATHS_MAX, REQUEST_ID_MAX, SPAN_MAX, WORKLOAD},
    check::{cgroup, count, duration, name, page, required, resume_token, text, token},
    labels::labels,
    names::named,
    selector::selector,
};
use crate::{
    Problem, Violations, v1,
    value::{
        ListWorkloads, RegisterWorkload, RenewWorkloads, Selector, TOKEN_MAX, UnregisterWorkload,
        WatchWorkloads, WorkloadField, WorkloadFilter, WorkloadId, WorkloadSpec, WorkloadsPart,
    },
};
use std::{collections::BTreeSet, time::Duration};

/// Most workloads in one message.
pub const PART_MAX: usize = 1000;
/// The shortest lease that a request may name.
const TTL_MIN: Duration = Duration::from_secs(1);

/// Reads what a client registers. `path` is where the workload is within the message: empty, or ending in a dot.
pub fn workload(path: &str, from: v1::Workload, bad: &mut Violations) -> Option<WorkloadSpec> {
    fields(path, from, true, bad)
}

/// The same. With `is_whole` it has to be said where the workload is.
fn fields(
    path: &str,
    from: v1::Workload,
    is_whole: bool,
    bad: &mut Violations,
) -> Option<WorkloadSpec> {
    let at = |name: &str| format!("{path}{name}");
    let read = match bad.are_of_request() {
        true => WorkloadId::from_name,
        false => WorkloadId::from_record,
    };
    let id = name(&at("name"), &from.name, WORKLOAD, read, bad);
    if is_whole {
        let container_id = Some(from.container_id.as_str()).filter(|id| !id.is_empty());
        WorkloadSpec::check_place(path, &from.cgroup, container_id, bad);
    }
    let is_given = !from.cgroup.is_empty();
    let cgroup = cgroup(&at("cgroup"), from.cgroup, bad);
    let container_id = token(&at("container_id"), from.container_id, TOKEN_MAX, bad);
    let pod_uid = token(&at("pod_uid"), from.pod_uid, TOKEN_MAX, bad);
    let namespace = token(&at("namespace"), from.namespace, TOKEN_MAX, bad);
    let labels = labels(&at("labels"), from.labels, bad);
    let qos_class = named(&at("qos_class"), from.qos_class, bad);
    let source = source(&at("source"), from.source, bad);
    let ttl = ttl(&at("ttl"), from.ttl, bad);
    let cgroup = cgroup.or((!is_given).then(String::new))?;
    let id = id?;
    Some(WorkloadSpec {
        id,
        cgroup,
        container_id,
        pod_uid,
        namespace,
        labels,
        qos_class,
        source,
        ttl,
    })
}

fn source(field: &str, from: String, bad: &mut Violations) -> Option<String> {
    token(field, from, TOKEN_MAX, bad)
}

fn ttl(field: &str, from: Option<prost_types::Duration>, bad: &mut Violations) -> Option<Duration> {
    duration(field, from, TTL_MIN..=SPAN_MAX, bad)
}

impl TryFrom<v1::RegisterWorkloadRequest> for RegisterWorkload {
    type Error = Violations;

    fn try_from(from: v1::RegisterWorkloadRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let v1::RegisterWorkloadRequest {
            workload,
            update_mask,
            create_only,
            allow_missing,
            validate_only,
            request_id,
        } = from;
        let mut workload = required("workload", workload, &mut bad).unwrap_or_default();
        let etag = token("workload.etag", std::mem::take(&mut workload.etag), ETAG_MAX, &mut bad);
        let mask = mask(update_mask.map_or_else(Vec::new, |mask| mask.paths), &mut bad);
        if create_only && mask.is_some() {
            bad.push("create_only", Problem::Excludes { other: "update_mask" });
        }
        // Where only some fields change, the result says where the workload is.
        let is_whole = mask.is_none() || allow_missing;
        let spec = fields("workload.", workload, is_whole, &mut bad);
        let request_id = token("request_id", request_id, REQUEST_ID_MAX, &mut bad);
        bad.or_of(spec.map(|spec| Self {
            spec,
            mask,
            etag,
            create_only,
            allow_missing,
            validate_only,
            request_id,
        }))
    }
}

/// Reads the fields that a mask names; `None`: it names none, so that all are meant.
fn mask(paths: Vec<String>, bad: &mut Violations) -> Option<BTreeSet<WorkloadField>> {
    if paths.is_empty() || !count("update_mask.paths", paths.len(), PATHS_MAX, bad) {
        return None;
    }
    let mut fields = BTreeSet::new();
    for (index, path) in paths.iter().enumerate() {
        let named = |(name, _): &&(&str, _)| name == path || path == "*";
        let before = fields.len();
        fields.extend(WorkloadField::ALL.iter().filter(named).map(|&(_, field)| field));
        let is_known = path == "*" || WorkloadField::ALL.iter().any(|(name, _)| name == path);
        if before == fields.len() && !is_known {
            bad.push(format!("update_mask.paths[{index}]"), Problem::UnknownPath);
        }
    }
    Some(fields)
}

impl TryFrom<v1::ReplaceWorkloadsRequest> for WorkloadsPart {
    type Error = Violations;

    fn try_from(from: v1::ReplaceWorkloadsRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let source = source("source", from.source, &mut bad);
        let ttl = ttl("ttl", from.ttl, &mut bad);
        let mut specs = Vec::new();
        if count("workloads", from.workloads.len(), PART_MAX, &mut bad) {
            let one = |(index, from)| workload(&format!("workloads[{index}]."), from, &mut bad);
            specs.extend(from.workloads.into_iter().enumerate().filter_map(one));
        }
        let (is_last, validate_only) = (from.last, from.validate_only);
        bad.or(Self { source, ttl, specs, is_last, validate_only })
    }
}

impl TryFrom<v1::RenewWorkloadsRequest> for RenewWorkloads {
    type Error = Violations;

    fn try_from(from: v1::RenewWorkloadsRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let source = source("source", from.source, &mut bad);
        bad.or(Self { source })
    }
}

impl TryFrom<v1::UnregisterWorkloadRequest> for UnregisterWorkload {
    type Error = Violations;

    fn try_from(from: v1::UnregisterWorkloadRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let id = name("name", &from.name, WORKLOAD, WorkloadId::from_name, &mut bad);
        let etag = token("etag", from.etag, ETAG_MAX, &mut bad);
        let (allow_missing, validate_only) = (from.allow_missing, from.validate_only);
        bad.or_of(id.map(|id| Self { id, etag, allow_missing, validate_only }))
    }
}

impl TryFrom<v1::ListWorkloadsRequest> for ListWorkloads {
    type Error = Violations;

    fn try_from(from: v1::ListWorkloadsRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let page = page(from.page_size, from.page_token, &mut bad);
        let filter = filter(from.filter, &mut bad);
        bad.or(Self { filter, page })
    }
}

impl TryFrom<v1::WatchWorkloadsRequest> for WatchWorkloads {
    type Error = Violations;

    fn try_from(from: v1::WatchWorkloadsRequest) -> Result<Self, Violations> {
        let mut bad = Violations::default();
        let filter = filter(from.filter, &mut bad);
        let resume_token = resume_token(from.resume_token, &mut bad);
        bad.or(Self { filter, resume_token })
    }
}

fn filter(from: Option<v1::WorkloadFilter>, bad: &mut Violations) -> WorkloadFilter {
    let from = from.unwrap_or_default();
    WorkloadFilter {
        creator: text("filter.creator", from.creator, CREATOR_MAX, bad),
        source: source("filter.source", from.source, bad),
        id_prefix: token("filter.id_prefix", from.id_prefix, TOKEN_MAX, bad),
        selector: match from.selector {
            None => Selector::default(),
            Some(from) => selector("filter.selector", from, bad),
        },
    }
}
