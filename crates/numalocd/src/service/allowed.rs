//! Checks whether a caller may name a target that need not exist yet. Whether the caller may have its memory moved is
//! checked again before each move.

use super::Parts;
use crate::{
    access::{Authority, Caller},
    order::{Aim, Member},
    refusal::Refusal,
};
use numaloc_api::value::{Pins, Target, WorkloadId, WorkloadSpec};
use numaloc_core::{NumaBalancing, Options};
use std::collections::BTreeSet;

/// Refuses a schedule for what exists and is somebody else's. Gives back the processes that the pids of its target mean
/// from now on.
///
/// # Errors
/// Not permitted; not found, if the target names only pids and none of them is there (no later process is meant, so that
/// will not change); the daemon lacks rights; the host could not be read.
pub async fn schedule(parts: &Parts, caller: &Caller, target: Target) -> Result<Pins, Refusal> {
    let (pins, found) = match caller.authority {
        Authority::All => (parts.engine.pin(&caller.name, &target).await?, Ok(())),
        Authority::Of { .. } => find(parts, caller, target.clone()).await?,
    };
    if pins.is_empty() && target == only_pids(&target) {
        let message =
            format!("there is no {target}: a schedule by pid is for processes that are there");
        return Err(Refusal::TargetNotFound { message });
    }
    match found {
        Ok(()) => Ok(pins),
        Err(refusal) if is_for_later(&refusal) => Ok(pins),
        Err(refusal) => Err(refusal),
    }
}

/// The processes that the pids of a target mean, and whether the caller has the right to have the target moved as it is
/// now.
async fn find(
    parts: &Parts,
    caller: &Caller,
    target: Target,
) -> Result<(Pins, Result<(), Refusal>), Refusal> {
    let aim = match parts.handle.select_for(caller.clone(), target).await {
        Ok(selected) => selected.aim,
        // In this case the target has no pids.
        Err(refusal) => return Ok((Pins::new(), Err(refusal))),
    };
    let (options, asked) = (Options::default(), NumaBalancing::Ignore);
    let (pins, found) = parts.engine.pin_and_find(caller, aim, options, asked).await?;
    Ok((pins, found.map(drop)))
}

fn only_pids(target: &Target) -> Target {
    Target { pids: target.pids.clone(), ..Target::default() }
}

/// Whether the refusal only says that there is nothing to move now.
fn is_for_later(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::TargetNotFound { .. } | Refusal::TargetEmpty { .. } | Refusal::NoTargetNode { .. }
    )
}

/// Refuses workloads, unless the cgroup of each is within the caller's authority, or has processes and the authority
/// extends to all of them.
///
/// # Errors
/// Not permitted; the daemon lacks rights; the host could not be read.
pub async fn register(
    parts: &Parts,
    caller: &Caller,
    specs: &[WorkloadSpec],
) -> Result<(), Refusal> {
    let mut asked = BTreeSet::new();
    for WorkloadSpec { cgroup, .. } in specs {
        if !caller.authority.is_over(cgroup) && asked.insert(cgroup) {
            check_processes(parts, caller, cgroup).await?;
        }
    }
    Ok(())
}

/// Finds the cgroups of workloads that are given without one, all in one look at the host. Removes workloads from `specs`
/// whose container is not there, or could be one of several cgroups. Gives these back, with the reason.
///
/// # Errors
/// The host could not be read.
pub async fn locate(
    parts: &Parts,
    caller: &Caller,
    specs: &mut Vec<WorkloadSpec>,
) -> Result<Vec<(WorkloadId, Refusal)>, Refusal> {
    let sought = specs.iter().filter(|spec| spec.cgroup.is_empty());
    let sought: BTreeSet<_> = sought.filter_map(|spec| spec.container_id.clone()).collect();
    if sought.is_empty() {
        return Ok(Vec::new());
    }
    let found = parts.engine.containers(&caller.name, sought).await?;
    let mut lost = Vec::new();
    specs.retain_mut(|spec| match spec.container_id.as_ref().and_then(|id| found.get(id)) {
        Some(Ok(cgroup)) if spec.cgroup.is_empty() => {
            spec.cgroup.clone_from(cgroup);
            true
        }
        Some(Err(refusal)) if spec.cgroup.is_empty() => {
            lost.push((spec.id.clone(), refusal.clone()));
            false
        }
        _ => true,
    });
    Ok(lost)
}

async fn check_processes(parts: &Parts, caller: &Caller, cgroup: &str) -> Result<(), Refusal> {
    let target = numaloc_host::Target::Cgroup(cgroup.to_owned());
    let name = Target::cgroup(cgroup);
    let aim = Aim { members: vec![Member { target, name }], missing: Vec::new() };
    let found = parts.engine.find(caller, aim, Options::default()).await;
    match found {
        Ok(_) | Err(Refusal::NoTargetNode { .. }) => Ok(()),
        Err(Refusal::TargetNotFound { .. } | Refusal::TargetEmpty { .. }) => {
            let message = format!(
                "cgroup {cgroup} has no process yet, and is not below a cgroup that is {}'s: register it when it runs, or \
                 have the cgroup added to the grant in the daemon's configuration",
                caller.name
            );
            Err(Refusal::NotPermitted { message })
        }
        Err(refusal) => Err(refusal),
    }
}
