//! `workloads apply`: a file's declarations of workloads, and the changes that they need.

use super::file;
use crate::{
    args::ApplyArgs,
    cmd::apply::{Declared, Step, apply as apply_all},
    doc::AppliedDoc,
    exit::Failure,
    remote::Daemon,
};
use numaloc_api::{
    v1,
    value::{RegisterWorkload, UnregisterWorkload, WorkloadFilter, WorkloadId, WorkloadSpec},
};
use std::collections::BTreeMap;

struct Workloads;

/// Makes the daemon's workloads match a file.
pub fn apply(daemon: &Daemon, args: &ApplyArgs) -> Result<AppliedDoc, Failure> {
    let declared = file::read(&args.file)?.into_iter().map(|spec| (spec.id.clone(), spec));
    let existing = daemon.list_workloads(&WorkloadFilter::default())?.workloads;
    apply_all::<Workloads>(daemon, args, declared.collect(), &existing)
}

impl Declared for Workloads {
    type Id = WorkloadId;
    type Spec = WorkloadSpec;
    type Record = v1::Workload;

    fn id(record: &v1::Workload) -> Option<WorkloadId> {
        WorkloadId::named(&record.name)
    }

    fn etag(record: &v1::Workload) -> &str {
        &record.etag
    }

    fn labels(record: &v1::Workload) -> &BTreeMap<String, String> {
        &record.labels
    }

    /// The set that it belongs to stays, and so does the cgroup that the daemon has found for its container.
    fn changed(spec: WorkloadSpec, record: &v1::Workload) -> Option<WorkloadSpec> {
        let Ok(old) = file::of_message(record.clone()) else { return Some(spec) };
        let source = Some(record.source.clone()).filter(|source| !source.is_empty());
        let is_found = spec.cgroup.is_empty() && spec.container_id == old.container_id;
        let cgroup = if is_found { old.cgroup.clone() } else { spec.cgroup.clone() };
        let is_same = WorkloadSpec { cgroup, ..spec.clone() } == old;
        (!is_same).then_some(WorkloadSpec { source, ..spec })
    }

    fn carry_out(
        daemon: &Daemon,
        id: &WorkloadId,
        step: &Step<WorkloadSpec>,
        validate_only: bool,
    ) -> Result<(), Failure> {
        let register = |spec: &WorkloadSpec, etag: Option<&String>| {
            let request = RegisterWorkload {
                create_only: etag.is_none(),
                etag: etag.cloned(),
                validate_only,
                ..RegisterWorkload::new(spec.clone())
            };
            daemon.register(&request).map(drop)
        };
        match step {
            Step::Create(spec) => register(spec, None),
            Step::Configure(spec, etag) => register(spec, Some(etag)),
            Step::Keep => Ok(()),
            Step::Prune(etag) => {
                let (id, etag, allow_missing) = (id.clone(), Some(etag.clone()), true);
                daemon.unregister(&UnregisterWorkload { id, etag, allow_missing, validate_only })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::apply::steps;

    fn record(name: &str, cgroup: &str, container_id: &str, source: &str) -> v1::Workload {
        v1::Workload {
            name: format!("workloads/{name}"),
            cgroup: cgroup.to_owned(),
            container_id: container_id.to_owned(),
            source: source.to_owned(),
            etag: format!("of {name}"),
            labels: [("team".to_owned(), "db".to_owned())].into(),
            ..v1::Workload::default()
        }
    }

    fn declared(name: &str, cgroup: &str, container_id: &str) -> (WorkloadId, WorkloadSpec) {
        let spec = file::of_message(record(name, cgroup, container_id, "")).expect("a workload");
        (spec.id.clone(), spec)
    }

    #[test]
    fn only_what_differs_is_registered_again() {
        let there = [
            record("same", "/a", "", ""),
            record("found", "/found/by/daemon", "c1", ""),
            record("moved", "/old", "", "node-agent"),
            record("old", "/b", "", ""),
        ];
        let file = vec![
            declared("same", "/a", ""),
            declared("found", "", "c1"),
            declared("moved", "/new", ""),
            declared("new", "/c", ""),
        ];
        let labels = [("team".to_owned(), "db".to_owned())].into();
        let found = steps::<Workloads>(file, &there, Some(&labels)).expect("steps");
        let of = |name: &str| &found[&WorkloadId::named(name).expect("a name")];
        assert_eq!((of("same"), of("found")), (&Step::Keep, &Step::Keep));
        let Step::Configure(moved, etag) = of("moved") else { panic!("{:?}", of("moved")) };
        let seen = (moved.cgroup.as_str(), moved.source.as_deref(), etag.as_str());
        assert_eq!(seen, ("/new", Some("node-agent"), "of moved"));
        assert_eq!(of("old"), &Step::Prune("of old".into()));
        assert!(matches!(of("new"), Step::Create(_)));
    }
}
