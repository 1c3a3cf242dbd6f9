//! Whether a caller may name a target that need not exist yet. Whether it may have its memory moved is asked again each time
//! that this is to be done.

use super::Parts;
use crate::{
    access::{Authority, Caller},
    dispatch::Refusal,
    engine::{Aim, Member},
};
use numaloc_api::value::{Pins, Target};
use numaloc_core::Options;

/// Refuses a schedule for what exists and is somebody else's. Gives back what the pids of its target mean from now on.
///
/// # Errors
/// Not permitted; it names only processes, and none is there, which will not change; the daemon lacks rights; the host could
/// not be read.
pub async fn schedule(parts: &Parts, caller: &Caller, target: Target) -> Result<Pins, Refusal> {
    let pins = parts.engine.pin(&target).await?;
    if pins.is_empty() && target == only_pids(&target) {
        let message =
            format!("there is no {target}: a schedule by pid is for processes that are there");
        return Err(Refusal::TargetNotFound { message });
    }
    if caller.authority == Authority::All {
        return Ok(pins);
    }
    let found = async {
        let selected = parts.handle.select_for(caller.clone(), target, pins.clone()).await?;
        parts.engine.find(selected.aim, Options::default(), caller.authority.clone()).await
    };
    match found.await {
        Ok(_) => Ok(pins),
        Err(refusal) if is_for_later(&refusal) => Ok(pins),
        Err(refusal) => Err(refusal),
    }
}

fn only_pids(target: &Target) -> Target {
    Target { pids: target.pids.clone(), ..Target::default() }
}

/// Whether it says of a target only that there is nothing to move now.
fn is_for_later(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::TargetNotFound { .. } | Refusal::TargetEmpty { .. } | Refusal::NoTargetNode { .. }
    )
}

/// Refuses a workload for a cgroup that is neither among the caller's, nor holds processes, all of which are.
///
/// # Errors
/// Not permitted; the daemon lacks rights; the host could not be read.
pub async fn register(parts: &Parts, caller: &Caller, cgroup: &str) -> Result<(), Refusal> {
    if caller.authority.is_over(cgroup) {
        return Ok(());
    }
    let target = numaloc_host::Target::Cgroup(cgroup.to_owned());
    let name = Target::cgroup(cgroup);
    let aim = Aim { members: vec![Member { target, name }], missing: Vec::new() };
    let found = parts.engine.find(aim, Options::default(), caller.authority.clone()).await;
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
