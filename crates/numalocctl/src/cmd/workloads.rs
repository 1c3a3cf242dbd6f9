//! `numalocctl workloads`.

use super::shown;
use crate::{
    args::{Cli, RegisterArgs, WorkloadsCommand, cgroup_path},
    doc::{RemovedDoc, WorkloadsDoc},
    exit::Failure,
    output::Report,
    remote::Daemon,
    text,
};
use numaloc_api::value::{WorkloadId, WorkloadSpec};

/// Lists, registers and forgets workloads.
pub fn run(cli: &Cli, daemon: &Daemon, command: &WorkloadsCommand) -> Result<Report, Failure> {
    match command {
        WorkloadsCommand::Ls { quiet } => {
            shown(cli, &daemon.list_workloads()?, |document, view| match quiet {
                true => names(document),
                false => text::workloads(document, view),
            })
        }
        WorkloadsCommand::Register(args) => {
            let workloads = vec![daemon.register(&spec(args))?];
            shown(cli, &WorkloadsDoc { workloads }, |document, _| names(document))
        }
        WorkloadsCommand::Unregister { workloads } => {
            shown(cli, &unregister(daemon, workloads)?, text::removed)
        }
    }
}

fn spec(args: &RegisterArgs) -> WorkloadSpec {
    WorkloadSpec {
        id: args.workload.clone(),
        cgroup: cgroup_path(&args.cgroup),
        container_id: args.container.clone(),
        pod_uid: args.pod.clone(),
        labels: args.label.iter().cloned().collect(),
        qos_class: args.qos.map(Into::into),
    }
}

fn unregister(daemon: &Daemon, workloads: &[WorkloadId]) -> Result<RemovedDoc, Failure> {
    let mut removed = Vec::new();
    for id in workloads {
        daemon.unregister(id)?;
        removed.push(id.to_string());
    }
    Ok(RemovedDoc { removed })
}

fn names(document: &WorkloadsDoc) -> String {
    document.workloads.iter().map(|workload| text::clean(&workload.name) + "\n").collect()
}
