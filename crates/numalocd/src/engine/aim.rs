//! What a target means on this host.

use crate::dispatch::Refusal;
use numaloc_api::value::{self, Missing};
use numaloc_core::{Process, Topology};
use numaloc_host::{Error, Resolved, Roots, Target, resolve};

/// What a target means on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// What to look at.
    pub members: Vec<Member>,
    /// What is known to be missing before anybody has looked.
    pub missing: Vec<Missing>,
}

/// One thing to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// It in the host's words.
    pub target: Target,
    /// What clients call it: a target with one member.
    pub name: value::Target,
}

impl Aim {
    /// The processes, and all members that are not there.
    ///
    /// # Errors
    /// None is there, one may not be looked into, or the host cannot be read.
    pub(super) fn resolve(
        &self,
        roots: &Roots,
        topology: &Topology,
    ) -> Result<(Vec<Process>, Vec<Missing>), Refusal> {
        let targets: Vec<Target> =
            self.members.iter().map(|member| member.target.clone()).collect();
        let Resolved { processes, missing } = resolve(roots, &targets, topology)?;
        let named = |(index, why): (usize, Error)| {
            let member = self.members.get(index)?.name.clone();
            Some(Missing { member, reason: why.to_string() })
        };
        let found = missing.into_iter().filter_map(named);
        Ok((processes, self.missing.iter().cloned().chain(found).collect()))
    }
}
