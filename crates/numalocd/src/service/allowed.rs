//! Checks whether a caller may name a target that need not exist yet. Whether the caller may have its memory moved is
//! checked again before each move.

use super::Parts;
use crate::{access::Caller, refusal::Refusal};
use numaloc_api::value::{Pins, Target, Workload, WorkloadId, WorkloadSpec};
use numaloc_core::{NumaBalancing, Options};
use numaloc_engine::{Aim, Authority, Member};
use std::collections::BTreeSet;

/// Refuses a schedule for what exists and is another user's. Returns the processes that the pids of its target mean
/// from now on.
///
/// # Errors
/// Not permitted; not found, if the target names only pids and none of them exists (no later process is meant, so that
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

/// The processes that the pids of a target mean, and whether the caller may have the target moved as it is now.
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

/// As [`locate`], for a set: a workload whose container could be one of several cgroups keeps the cgroup that it was
/// registered with, so that no client takes it away by making a cgroup of the same name.
///
/// # Errors
/// The host could not be read.
pub async fn locate_set(
    parts: &Parts,
    caller: &Caller,
    specs: &mut Vec<WorkloadSpec>,
) -> Result<Vec<WorkloadId>, Refusal> {
    let mut lost = Vec::new();
    for (spec, refusal) in locate(parts, caller, specs).await? {
        let known = match refusal {
            Refusal::HostCannot { .. } => parts.handle.get_workload(spec.id.clone()).await.ok(),
            _ => None,
        };
        let is_same = |known: &Workload| {
            known.creator == caller.name && known.spec.container_id == spec.container_id
        };
        match known.filter(|known| is_same(known)) {
            Some(known) => specs.push(WorkloadSpec { cgroup: known.spec.cgroup.clone(), ..spec }),
            None => lost.push(spec.id),
        }
    }
    Ok(lost)
}

/// Finds the cgroups of workloads that are given without one, all in one look at the host. Removes workloads from
/// `specs` whose container is not there, or could be one of several cgroups. Gives these back, with the reason.
///
/// # Errors
/// The host could not be read.
pub async fn locate(
    parts: &Parts,
    caller: &Caller,
    specs: &mut Vec<WorkloadSpec>,
) -> Result<Vec<(WorkloadSpec, Refusal)>, Refusal> {
    let sought = specs.iter().filter(|spec| spec.cgroup.is_empty());
    let sought: BTreeSet<_> = sought.filter_map(|spec| spec.container_id.clone()).collect();
    if sought.is_empty() {
        return Ok(Vec::new());
    }
    let found = parts.engine.containers(caller, sought).await?;
    let mut lost = Vec::new();
    specs.retain_mut(|spec| match spec.container_id.as_ref().and_then(|id| found.get(id)) {
        Some(Ok(cgroup)) if spec.cgroup.is_empty() => {
            spec.cgroup.clone_from(cgroup);
            true
        }
        Some(Err(refusal)) if spec.cgroup.is_empty() => {
            lost.push((spec.clone(), refusal.clone()));
            false
        }
        _ => true,
    });
    Ok(lost)
}

async fn check_processes(parts: &Parts, caller: &Caller, cgroup: &str) -> Result<(), Refusal> {
    let target = numaloc_host::Target::Cgroup(cgroup.to_owned());
    let name = Target::cgroup(cgroup);
    let aim = Aim::of(vec![Member { target, name }]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        accounts::Accounts,
        dispatch::tests::{Rig, dir, operator},
        engine::Engine,
    };
    use numaloc_api::value::RegisterWorkload;
    use numaloc_dma::Offloading;
    use numaloc_engine::balancing::Balancing;
    use numaloc_host::Roots;
    use std::{fs, path::Path, sync::Arc};
    use tokio::sync::watch;

    fn parts(rig: &Rig, cgroup: &Path) -> Parts {
        let roots = Roots { cgroup: cgroup.into(), ..Roots::default() };
        let balancing = Balancing::new(roots.clone());
        let engine = Engine::new(roots.clone(), balancing, Offloading::new(roots));
        Parts {
            handle: rig.handle.clone(),
            engine,
            accounts: Accounts::default(),
            metrics: Arc::new(String::new),
            obstacles: Arc::new(Vec::new),
            ending: watch::channel(false).1,
            stop: watch::channel(false).1,
        }
    }

    fn spec(name: &str, container: &str) -> WorkloadSpec {
        WorkloadSpec {
            container_id: Some(container.repeat(64)),
            ..WorkloadSpec::new(WorkloadId::new(name).expect("an id"), "")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cgroup_with_the_name_of_a_container_takes_no_registered_workload_away() {
        let (dir, root) = (dir(), dir());
        let rig = Rig::at(&dir);
        let parts = parts(&rig, root.path());
        let make = |path: String| {
            fs::create_dir_all(root.path().join(&path)).expect("a directory");
            fs::write(root.path().join(path).join("cgroup.procs"), "").expect("a file");
        };
        fs::write(root.path().join("cgroup.procs"), "").expect("a file");
        make(format!("docker/{}", "a".repeat(64)));
        let mut known = vec![spec("known", "a")];
        let lost = locate_set(&parts, &operator(), &mut known).await.expect("it can be read");
        assert_eq!(
            (lost.len(), known[0].cgroup.clone()),
            (0, format!("/docker/{}", "a".repeat(64)))
        );
        let request = RegisterWorkload::new(known[0].clone());
        rig.handle.register_workload(operator(), request).await.expect("it is taken");

        // Other cgroups of the same name are made. Nothing says which of them is meant by a new workload.
        make(format!("elsewhere/{}", "a".repeat(64)));
        let asked = || vec![spec("known", "a"), spec("new", "a"), spec("gone", "b")];
        let mut specs = asked();
        let lost = locate_set(&parts, &operator(), &mut specs).await.expect("it can be read");
        assert_eq!(specs, known);
        assert_eq!(lost.iter().map(WorkloadId::id).collect::<Vec<_>>(), ["new", "gone"]);
        // Under the name that another client has registered, nothing is known of this client's.
        let other = Caller { name: "uid:1001".to_owned(), ..operator() };
        let lost = locate_set(&parts, &other, &mut asked()).await.expect("it can be read");
        assert_eq!(lost.len(), 3);
        rig.stop().await;
    }
}
