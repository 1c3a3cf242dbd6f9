//! Carries out `numalocctl workloads` with the daemon's workloads.

mod apply;
mod file;

use super::{TAKEN, changes, each, remove_each, shown, shown_each, shown_list};
use crate::{
    args::{
        Cli, ListWorkloadsArgs, RegisterArgs, ReplaceArgs, UnregisterArgs, WorkloadsCommand,
        cgroup_path, joined,
    },
    clean::clean,
    doc::RemovedDoc,
    exit::{Code, Failure},
    output::{CommandResult, View},
    remote::Daemon,
    text,
};
use numaloc_api::{
    v1,
    value::{
        RegisterWorkload, UnregisterWorkload, WorkloadField, WorkloadFilter, WorkloadId,
        WorkloadSet, WorkloadSpec,
    },
};
use std::collections::BTreeSet;

/// Lists, registers and unregisters workloads.
pub fn run(
    cli: &Cli,
    daemon: &Daemon,
    command: &WorkloadsCommand,
) -> Result<CommandResult, Failure> {
    match command {
        WorkloadsCommand::Ls(args) if args.watch => {
            changes::follow(cli, text::workload_line, |seen| {
                daemon.watch_workloads(&filter(args), seen)
            })
        }
        WorkloadsCommand::Ls(args) => {
            let answer = daemon.list_workloads(&filter(args))?;
            let count = answer.workloads.len();
            shown_list(cli, &answer, (count, "workloads"), |answer, view| match args.quiet {
                true => names(answer),
                false => text::workloads(answer, view),
            })
        }
        WorkloadsCommand::Get { workloads } => shown_each(cli, get(daemon, workloads)?, in_full),
        WorkloadsCommand::Register(args) => {
            let request = request(args);
            if request.mask.as_ref().is_some_and(BTreeSet::is_empty) {
                let message =
                    "nothing to change is given; see `numalocctl workloads register --help`";
                return Err(Failure::Usage(message.into()));
            }
            let answer = listed(vec![daemon.register(&request)?]);
            shown(cli, &answer, |answer, _| match args.validate_only {
                true => TAKEN.to_owned(),
                false => names(answer),
            })
        }
        WorkloadsCommand::Replace(args) => {
            shown(cli, &daemon.replace_workloads(&set(args)?, args.ttl)?, text::replaced)
        }
        WorkloadsCommand::Apply(args) => shown(cli, &apply::apply(daemon, args)?, text::applied),
        WorkloadsCommand::Renew { source } => {
            shown(cli, &daemon.renew_workloads(source.as_deref())?, text::renewed)
        }
        WorkloadsCommand::Unregister(args) if args.validate_only => {
            shown_each(cli, unregister(daemon, args)?, |_, _| TAKEN.to_owned())
        }
        WorkloadsCommand::Unregister(args) => {
            shown_each(cli, unregister(daemon, args)?, text::removed)
        }
    }
}

fn filter(args: &ListWorkloadsArgs) -> WorkloadFilter {
    WorkloadFilter {
        creator: args.creator.clone(),
        source: args.source.clone(),
        id_prefix: args.prefix.clone(),
        selector: joined(&args.selector, args.namespace.as_ref()),
    }
}

fn get(daemon: &Daemon, ids: &[WorkloadId]) -> Result<(v1::ListWorkloadsResponse, Code), Failure> {
    let (workloads, code) = each(ids, |id| daemon.get_workload(id))?;
    Ok((listed(workloads), code))
}

fn listed(workloads: Vec<v1::Workload>) -> v1::ListWorkloadsResponse {
    v1::ListWorkloadsResponse { workloads, ..Default::default() }
}

fn request(args: &RegisterArgs) -> RegisterWorkload {
    let spec = WorkloadSpec {
        id: args.workload.clone(),
        cgroup: args.cgroup.as_deref().map(cgroup_path).unwrap_or_default(),
        container_id: args.container.clone(),
        pod_uid: args.pod.clone(),
        namespace: args.namespace.clone(),
        labels: args.label.iter().cloned().collect(),
        qos_class: args.qos.map(Into::into),
        source: args.source.clone(),
        ttl: args.ttl,
    };
    RegisterWorkload {
        mask: args.update.then(|| given(args)),
        etag: args.etag.clone(),
        create_only: args.create_only,
        allow_missing: args.allow_missing,
        validate_only: args.validate_only,
        request_id: args.request_id.clone(),
        ..RegisterWorkload::new(spec)
    }
}

/// The fields that are given.
fn given(args: &RegisterArgs) -> BTreeSet<WorkloadField> {
    let fields = [
        (args.cgroup.is_some(), WorkloadField::Cgroup),
        (args.container.is_some(), WorkloadField::ContainerId),
        (args.pod.is_some(), WorkloadField::PodUid),
        (args.namespace.is_some(), WorkloadField::Namespace),
        (!args.label.is_empty(), WorkloadField::Labels),
        (args.qos.is_some(), WorkloadField::QosClass),
        (args.source.is_some(), WorkloadField::Source),
        (args.ttl.is_some(), WorkloadField::Ttl),
    ];
    fields.into_iter().filter(|(is_given, _)| *is_given).map(|(_, field)| field).collect()
}

fn set(args: &ReplaceArgs) -> Result<WorkloadSet, Failure> {
    let source = args.source.clone();
    let of_source = |spec| WorkloadSpec { source: source.clone(), ..spec };
    let specs = file::read(&args.file)?.into_iter().map(of_source).collect();
    Ok(WorkloadSet { source, specs, validate_only: args.validate_only })
}

fn unregister(daemon: &Daemon, args: &UnregisterArgs) -> Result<(RemovedDoc, Code), Failure> {
    remove_each(&args.workloads, |id| {
        daemon.unregister(&UnregisterWorkload {
            id: id.clone(),
            etag: args.etag.clone(),
            allow_missing: args.allow_missing,
            validate_only: args.validate_only,
        })
    })
}

fn in_full(answer: &v1::ListWorkloadsResponse, view: View) -> String {
    let workloads = answer.workloads.iter().map(|workload| text::workload(workload, view));
    workloads.collect::<Vec<_>>().join("\n")
}

fn names(answer: &v1::ListWorkloadsResponse) -> String {
    answer.workloads.iter().map(|workload| clean(&workload.name) + "\n").collect()
}
