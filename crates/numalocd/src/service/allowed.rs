//! Whether a caller may name a target that need not exist yet. Whether it may have its memory moved is asked again each time
//! that this is to be done.

use super::Parts;
use crate::{
    access::{Authority, Caller},
    dispatch::Refusal,
};
use numaloc_api::value::Target;
use numaloc_core::Options;

/// Refuses a schedule for what exists and is somebody else's.
///
/// # Errors
/// Not permitted; the daemon lacks rights; the host could not be read.
pub async fn schedule(parts: &Parts, caller: &Caller, target: Target) -> Result<(), Refusal> {
    if caller.authority == Authority::All {
        return Ok(());
    }
    let found = async {
        let targets = parts.handle.select(target).await?.targets;
        parts.engine.find(targets, Options::default(), caller.authority.clone()).await
    };
    match found.await {
        Ok(_) => Ok(()),
        Err(refusal) if is_for_later(&refusal) => Ok(()),
        Err(refusal) => Err(refusal),
    }
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
    if is_within(&caller.authority, cgroup) {
        return Ok(());
    }
    let targets = vec![numaloc_host::Target::Cgroup(cgroup.to_owned())];
    let found = parts.engine.find(targets, Options::default(), caller.authority.clone()).await;
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

/// Whether `cgroup` is one of the authority's, or below one.
fn is_within(authority: &Authority, cgroup: &str) -> bool {
    let below = |top: &String| {
        let rest = cgroup.strip_prefix(top.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match authority {
        Authority::All => true,
        Authority::Of { cgroups, .. } => cgroups.iter().any(below),
    }
}

#[cfg(test)]
mod tests;
