//! What numaloc-nri has at numalocd, which may act for the same containers. Pure.

use numaloc_node::Others;
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
}

impl Nri {
    /// What its records say.
    pub fn of(others: Others) -> Self {
        let creator = others.workloads.into_iter().next().map(|workload| workload.creator);
        let schedules = others.schedules.into_iter();
        let containers = schedules.filter_map(|mut schedule| schedule.labels.remove(NRI_CONTAINER));
        Self { creator, scheduled: containers.collect() }
    }
}
