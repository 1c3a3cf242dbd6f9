//! The host that this process looks at and moves memory on.

use crate::{Error, MoverGroup, OffloadAccess, balancing::Balancing};
use numaloc_core::{NodeSet, Topology, contents::NodeContents};
use numaloc_executor::TierWays;
use numaloc_host::{Roots, contents, topology};

/// This host, and the settings of it that runs may change. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Local {
    /// The roots of its files.
    pub roots: Roots,
    /// The kernel's NUMA balancing. It has the same roots.
    pub balancing: Balancing,
    /// The DMA engines. They have the same roots.
    pub offload: OffloadAccess,
    /// The resctrl group in which memory is moved.
    pub mover_group: MoverGroup,
    /// The text of an error for people: a daemon and a command line advise different things where rights are missing.
    pub words: fn(&Error) -> String,
    /// Gets the name of a partner that makes no room, and why.
    pub makes_no_room: fn(&str, &str),
    /// In which direction memory was moved between tiers.
    pub tier_ways: TierWays,
}

impl Local {
    /// A host whose settings stay as they are.
    #[cfg(test)]
    pub(crate) fn for_tests(roots: Roots) -> Self {
        let balancing = Balancing::new(roots.clone());
        let (words, makes_no_room) = (|error: &Error| error.to_string(), |_: &str, _: &str| {});
        let (offload, mover_group) = (OffloadAccess::Observed, MoverGroup::Disabled);
        let tier_ways = TierWays::default();
        Self { roots, balancing, offload, mover_group, words, makes_no_room, tier_ways }
    }

    /// The machine as it is now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn topology(&self) -> Result<Topology, Error> {
        Ok(topology::topology(&self.roots)?)
    }

    /// What is on these nodes; on all with memory if there are none.
    ///
    /// # Errors
    /// A node does not exist or has no memory, or it cannot be read.
    pub fn contents(&self, nodes: &NodeSet) -> Result<Vec<NodeContents>, Error> {
        Ok(contents(&self.roots, nodes)?)
    }
}
