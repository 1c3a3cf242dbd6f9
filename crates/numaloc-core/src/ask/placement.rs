//! Placements: on which of its nodes each page of a process belongs.
//!
//! [`home`](self::home) does not tell the nodes apart: a page is at home on each of them. The others divide memory among
//! several nodes by the [index](crate::Origin) of each folio, as the kernel does for a mempolicy of the same name. So the node
//! of a page is known without a list of addresses, and pages that the kernel itself has placed in this way stay.

pub mod bandwidth;
pub mod home;
pub mod interleave;
pub mod weighted;

use crate::{
    ask::placement::{
        bandwidth::{ByBandwidth, UnknownBandwidth},
        weighted::Weights,
    },
    machine::{ids::NodeSet, topology::Topology},
    memory::cycle::Cycle,
};

/// Where the pages of a process belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// On any of its home nodes.
    #[default]
    Home,
    /// Folio by folio on these nodes in turn. `None`: on the nodes of its CPUs.
    Interleave(Option<NodeSet>),
    /// As interleaved, with as many folios in a row on each node as its weight says.
    Weighted(Weights),
    /// As weighted, with the weights of the machine on which the plan is made ([`Placement::on`]).
    Bandwidth(ByBandwidth),
}

impl Placement {
    /// Names of all placements, the default first.
    pub const NAMES: [&'static str; 3] = [home::NAME, interleave::NAME, weighted::NAME];

    /// Stable name for people and machines.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Home => home::NAME,
            Self::Interleave(_) => interleave::NAME,
            Self::Weighted(_) | Self::Bandwidth(_) => weighted::NAME,
        }
    }

    /// The nodes that the request names for a placement on several nodes.
    pub fn nodes(&self) -> Option<NodeSet> {
        match self {
            Self::Home => None,
            Self::Interleave(nodes) => nodes.clone(),
            Self::Weighted(weights) => Some(weights.nodes()),
            Self::Bandwidth(by) => by.nodes.clone(),
        }
    }

    /// Whether each page belongs on one node of several.
    pub fn is_wide(&self) -> bool {
        *self != Self::Home
    }

    /// How memory that belongs on these nodes takes turns on them; `None` if it belongs on any of them.
    pub fn cycle(&self, nodes: &NodeSet) -> Option<Cycle> {
        match self {
            Self::Home => None,
            Self::Interleave(_) => Some(interleave::cycle(nodes)),
            Self::Weighted(weights) => Some(weights.cycle()),
            Self::Bandwidth(by) => by.cycle(nodes),
        }
    }

    /// The placement on this machine: what depends on it is looked up.
    ///
    /// # Errors
    /// [`UnknownBandwidth`].
    pub fn on(self, topology: &Topology) -> Result<Self, UnknownBandwidth> {
        match self {
            Self::Bandwidth(by) => by.on(topology).map(Self::Bandwidth),
            placement => Ok(placement),
        }
    }
}
