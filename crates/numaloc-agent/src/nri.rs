//! What numaloc-nri has at numalocd, which may act for the same containers. Pure.

use numaloc_node::{AGENT_SOURCE, Others, YIELDS_TO};
use std::collections::BTreeSet;

/// The label with the id of a container for which numaloc-nri has a schedule.
const NRI_CONTAINER: &str = "numaloc.io/container-id";

/// What numaloc-nri has at numalocd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nri {
    /// Who it is to numalocd, if it has registered containers.
    pub creator: Option<String>,
    /// The containers for which it has schedules.
    pub scheduled: BTreeSet<String>,
    /// Whether it withdraws its schedules where it sees that we are here.
    pub yields: bool,
}

impl Nri {
    /// What its records say.
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
