//! Neighbours of a home: nodes that are near to it, and nodes that are nearer to it than others.

use crate::machine::{
    ids::{NodeId, NodeSet},
    topology::Topology,
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// The nodes around one home.
#[derive(Debug)]
pub struct Neighbours {
    /// As [`Topology::near`].
    pub near: NodeSet,
    /// As [`Topology::nearer`], for each node besides the home.
    pub nearer: BTreeMap<NodeId, NodeSet>,
}

/// The neighbours of all homes that were asked for: few, but asked for by each extent.
#[derive(Debug, Default)]
pub struct KnownNeighbours(HashMap<NodeSet, Arc<Neighbours>>);

impl KnownNeighbours {
    /// The neighbours of a home. `reach` is the distance up to which nodes are near.
    pub fn of(&mut self, topology: &Topology, home: &NodeSet, reach: u64) -> Arc<Neighbours> {
        if let Some(known) = self.0.get(home) {
            return known.clone();
        }
        let others = topology.ids().minus(home);
        let nearer = others.iter().map(|from| (from, topology.nearer(home, from))).collect();
        let found = Arc::new(Neighbours { near: topology.near(home, reach), nearer });
        self.0.insert(home.clone(), found.clone());
        found
    }
}
