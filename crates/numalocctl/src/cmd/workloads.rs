//! `numalocctl workloads`.

mod file;

use super::{changes, shown};
use crate::{
    args::{
        Cli, ListWorkloadsArgs, RegisterArgs, ReplaceArgs, UnregisterArgs, WorkloadsCommand,
        cgroup_path, joined,
    },
    clean::clean,
    doc::{RemovedDoc, WorkloadsDoc},
    exit::Failure,
    output::{Report, View},
    remote::Daemon,
    text,
};
use numaloc_api::value::{
    RegisterWorkload, UnregisterWorkload, WorkloadFilter, WorkloadId, WorkloadSet, WorkloadSpec,
};

/// Lists, registers and unregisters workloads.
pub fn run(cli: &Cli, daemon: &Daemon, command: &WorkloadsCommand) -> Result<Report, Failure> {
    match command {
        WorkloadsCommand::Ls(args) if args.watch => {
            changes::follow(cli, text::workload_line, |seen| {
                daemon.watch_workloads(&filter(args), seen)
            })
        }
        WorkloadsCommand::Ls(args) => {
            shown(cli, &daemon.list_workloads(&filter(args))?, |document, view| match args.quiet {
                true => names(document),
                false => text::workloads(document, view),
            })
        }
        WorkloadsCommand::Get { workloads } => shown(cli, &get(daemon, workloads)?, in_full),
        WorkloadsCommand::Register(args) => {
            let workloads = vec![daemon.register(&request(args))?];
            shown(cli, &WorkloadsDoc { workloads }, |document, _| names(document))
        }
        WorkloadsCommand::Replace(args) => {
            shown(cli, &daemon.replace_workloads(&set(args)?, args.ttl)?, text::replaced)
        }
        WorkloadsCommand::Renew { source } => {
            shown(cli, &daemon.renew_workloads(source.as_deref())?, text::renewed)
        }
        WorkloadsCommand::Unregister(args) => shown(cli, &unregister(daemon, args)?, text::removed),
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

fn get(daemon: &Daemon, ids: &[WorkloadId]) -> Result<WorkloadsDoc, Failure> {
    let workloads = ids.iter().map(|id| daemon.get_workload(id)).collect::<Result<_, _>>()?;
    Ok(WorkloadsDoc { workloads })
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
    RegisterWorkload { spec, etag: args.etag.clone() }
}

fn set(args: &ReplaceArgs) -> Result<WorkloadSet, Failure> {
    let source = args.source.clone();
    let of_source = |spec| WorkloadSpec { source: source.clone(), ..spec };
    let specs = file::read(&args.file)?.into_iter().map(of_source).collect();
    Ok(WorkloadSet { source, specs })
}

fn unregister(daemon: &Daemon, args: &UnregisterArgs) -> Result<RemovedDoc, Failure> {
    let mut removed = Vec::new();
    for id in &args.workloads {
        let (etag, allow_missing) = (args.etag.clone(), args.allow_missing);
        daemon.unregister(&UnregisterWorkload { id: id.clone(), etag, allow_missing })?;
        removed.push(id.to_string());
    }
    Ok(RemovedDoc { removed })
}

fn in_full(document: &WorkloadsDoc, view: View) -> String {
    let workloads = document.workloads.iter().map(|workload| text::workload(workload, view));
    workloads.collect::<Vec<_>>().join("\n")
}

fn names(document: &WorkloadsDoc) -> String {
    document.workloads.iter().map(|workload| clean(&workload.name) + "\n").collect()
}
