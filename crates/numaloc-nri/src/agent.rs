//! The records of numaloc-agent at numalocd: where it runs, it decides about policies. Pure.

use crate::facts::Facts;
use numaloc_api::{
    v1,
    value::{ScheduleId, WorkloadId},
};
use numaloc_node::{AGENT_SOURCE, Others, agent_id};
use std::collections::BTreeSet;

/// The records of numaloc-agent at numalocd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// Whether it is running: its registrations end with their lease.
    is_there: bool,
    /// The names of the schedules that it has left and whose containers run.
    schedules: BTreeSet<String>,
}

impl Agent {
    /// Reads its records.
    pub fn of(others: Others) -> Self {
        // A grant can reserve the names for the agent, and not the source.
        let names = format!("{}{AGENT_SOURCE}-", WorkloadId::PREFIX);
        let is_there = others.workloads.iter().any(|workload| workload.name.starts_with(&names));
        // While it runs, its schedules decide nothing: a policy may be the reason why a container has none. A schedule
        // whose target has gone does nothing: the agent had registered its container itself.
        let runs = |schedule: &v1::Schedule| schedule.state() != v1::ScheduleState::TargetGone;
        let left = others.schedules.into_iter().filter(|schedule| !is_there && runs(schedule));
        Self { is_there, schedules: left.map(|schedule| schedule.name).collect() }
    }

    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether it acts for a container, or has left a schedule for it.
    pub fn acts_for(&self, facts: &Facts) -> bool {
        let id = agent_id(&facts.pod.uid, &facts.name);
        self.is_there || self.schedules.contains(&format!("{}{id}", ScheduleId::PREFIX))
    }
}
