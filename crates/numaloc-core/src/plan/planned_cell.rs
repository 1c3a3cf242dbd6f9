//! The cells of a guest in a plan.

use crate::{
    ask::options::Options,
    home::{cells, of_cell},
    machine::{
        guest::GuestCell,
        ids::{NodeId, NodeSet},
        process::Process,
        topology::Topology,
    },
};
use std::collections::BTreeMap;

/// A NUMA node of a guest with where its memory is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedCell {
    /// Its number in the guest.
    pub id: u32,
    /// The names of its memory in the guest's definition.
    pub memory: Vec<String>,
    /// Nodes where its memory belongs. Empty if that is where all memory of the process belongs.
    pub home: NodeSet,
    /// Its resident bytes by node. Empty if none is resident, or if it is not certain which mappings are its memory.
    pub resident: BTreeMap<NodeId, u64>,
}

impl PlannedCell {
    /// The cells of a process whose memory belongs on the nodes of their vCPUs.
    pub(crate) fn of(topology: &Topology, process: &Process, options: &Options) -> Vec<Self> {
        let Some(guest) = &process.guest else { return Vec::new() };
        let planned = |(number, cell): (usize, &GuestCell)| Self {
            id: cell.id,
            memory: guest.memory_of(number).map(str::to_owned).collect(),
            home: of_cell(topology, process, cell, options).unwrap_or_default(),
            resident: BTreeMap::new(),
        };
        cells(process, options).iter().enumerate().map(planned).collect()
    }
}
