//! Scans, plans and results, as messages of the API.

use crate::{Advised, Ended, LookedAt, Planned};
use numaloc_api::{
    AdviceView, LocalityView, v1,
    value::{MigrationSpec, Policy},
};
use numaloc_core::{NodeSet, Plan, PlannedCell, advise::Finding, live::CountedMemory};
use std::time::SystemTime;

impl LookedAt {
    /// Placement of the target's memory.
    pub fn locality(&self) -> v1::GetLocalityResponse {
        let view = LocalityView { plan: &self.plan, time: SystemTime::now() };
        let cgroup = |(path, nodes): &(String, CountedMemory)| {
            v1::CgroupMemory::new(path, nodes, common_home(&self.plan))
        };
        let cgroups = self.cgroups.iter().map(cgroup).collect();
        let files = self.files.as_ref().map(Into::into);
        v1::GetLocalityResponse {
            locality: Some(v1::Locality { cgroups, files, ..view.into() }),
            missing: self.missing.iter().map(Into::into).collect(),
            found: self.found.iter().map(Into::into).collect(),
            kinds: self.plan.kinds.iter().map(Into::into).collect(),
        }
    }

    /// The effect that a migration with this policy would have.
    pub fn planned(&self, policy: &Policy) -> v1::PlanMigrationResponse {
        v1::PlanMigrationResponse {
            plan: Some(v1::Plan {
                files: self.files.as_ref().map(Into::into),
                ..(&self.plan).into()
            }),
            missing: self.missing.iter().map(Into::into).collect(),
            policy: Some(policy.into()),
            found: self.found.iter().map(Into::into).collect(),
        }
    }
}

/// The home of all processes if they have the same one, and no memory with another one.
fn common_home(plan: &Plan) -> Option<&NodeSet> {
    let has_own = |cell: &PlannedCell| !cell.home.is_empty();
    if plan.processes.iter().flat_map(|process| &process.cells).any(has_own) {
        return None;
    }
    let mut homes = plan.processes.iter().map(|process| &process.home);
    let first = homes.next()?;
    homes.all(|home| home == first).then_some(first)
}

impl Advised {
    /// The advice with these findings, which may be in another order.
    pub fn answer(&self, findings: &[Finding]) -> v1::GetAdviceResponse {
        let view = AdviceView {
            look: &self.looked.look,
            findings,
            unreadable: self.looked.unreadable,
            left_out: self.looked.left_out,
            ended: self.looked.ended,
            time: SystemTime::now(),
        };
        let missing = self.missing.iter().map(Into::into).collect();
        v1::GetAdviceResponse { advice: Some(view.into()), missing }
    }
}

impl Planned {
    /// A run without a daemon, as a job without a name. `ended` is `None` where nothing was to be moved.
    pub fn job(&self, spec: &MigrationSpec, ended: Option<&Ended>) -> v1::Job {
        let outcome = ended.map(|ended| &*ended.outcome);
        let target_ratio = spec.policy.options.judged_ratio();
        let end = || outcome.map(|outcome| outcome.end(target_ratio));
        let (state, state_message) = match self.nothing.clone().or_else(end) {
            Some((state, message)) => (v1::JobState::from(state), message),
            None => Default::default(),
        };
        let members = ended.map_or(&self.found.members, |ended| &ended.members);
        v1::Job {
            spec: Some(spec.into()),
            state: state.into(),
            state_message,
            plan: Some((&*self.summary).into()),
            outcome: outcome.map(Into::into),
            members: members.iter().map(Into::into).collect(),
            ..v1::Job::default()
        }
    }
}
