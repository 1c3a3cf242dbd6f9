//! What numaloc-agent has at numalocd: where it is, it decides about policies. Pure.

use crate::facts::Facts;
use numaloc_api::value::{ScheduleId, WorkloadId};
use numaloc_node::{AGENT_SOURCE, Others, agent_id};
use std::collections::BTreeSet;

/// What numaloc-agent has at numalocd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// Whether it is there: its registrations end with their lease.
    is_there: bool,
    /// The names of its schedules, which stay for as long as their containers run.
    schedules: BTreeSet<String>,
}

impl Agent {
    /// What its records say.
    pub fn of(others: Others) -> Self {
        // A grant can reserve the names for the agent, and not the source.
        let names = format!("{}{AGENT_SOURCE}-", WorkloadId::PREFIX);
        let is_there = others.workloads.iter().any(|workload| workload.name.starts_with(&names));
        // As long as it is there, its schedules decide nothing: it may have none for a container because a policy says so.
        let left = others.schedules.into_iter().filter(|_| !is_there);
        Self { is_there, schedules: left.map(|schedule| schedule.name).collect() }
    }

    /// Whether it is there.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// Whether it acts for a container, or has left a schedule for it.
    pub fn acts_for(&self, facts: &Facts) -> bool {
        let id = agent_id(&facts.pod.uid, &facts.name);
        self.is_there || self.schedules.contains(&format!("{}{id}", ScheduleId::PREFIX))
    }
}
