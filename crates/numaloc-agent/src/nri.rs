//! The records of numaloc-nri, which may act for the same containers, at numalocd. Pure.

use numaloc_node::{AGENT_SOURCE, Others, YIELDS_TO};
use std::collections::BTreeSet;

/// The label with the id of a container for which numaloc-nri has a schedule.
const NRI_CONTAINER: &str = "numaloc.io/container-id";

/// The records of numaloc-nri at numalocd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nri {
    /// Its account at numalocd, if it has registered containers.
    pub creator: Option<String>,
    /// The containers for which it has schedules.
    pub scheduled: BTreeSet<String>,
    /// Whether it withdraws its schedules when it detects this agent.
    pub yields: bool,
}

impl Nri {
    /// Reads its records.
    pub fn of(others: &Others) -> Self {
        let first = others.workloads.first();
        let creator = first.map(|workload| workload.creator.clone());
        let schedules = others.schedules.iter();
        let containers = schedules.filter_map(|schedule| schedule.labels.get(NRI_CONTAINER));
        let yields = first.is_some_and(|workload| {
            workload.labels.get(YIELDS_TO).is_some_and(|source| source == AGENT_SOURCE)
        });
        Self { creator, scheduled: containers.cloned().collect(), yields }
    }
}
