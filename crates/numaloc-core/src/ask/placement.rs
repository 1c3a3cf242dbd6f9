//! Placements: on which of its nodes each page of a process belongs.
//!
//! [`home`](self::home) does not tell the nodes apart: a page is at home on each of them. [`interleave`] and [`weighted`] divide memory
//! among several nodes by the [index](crate::Origin) of each folio, as the kernel does for a mempolicy of the same name. So the node
//! of a page is known without a list of addresses, and pages that the kernel itself has placed in this way stay. [`balance`] and
//! [`block`] divide it by amounts, wherever the pages are ([`surplus`](crate::plan::surplus), [`blocks`](crate::plan::blocks)), and [`tiers`] by
//! its use.

pub mod balance;
pub mod bandwidth;
pub mod block;
pub mod home;
pub mod interleave;
pub mod tiers;
pub mod weighted;

use crate::{
    ask::placement::{
        balance::Shares,
        bandwidth::{ByBandwidth, UnknownBandwidth},
        tiers::Tiers,
        weighted::Weights,
    },
    machine::{ids::NodeSet, process::Process, topology::Topology},
    memory::cycle::Cycle,
};
use std::{fmt, str::FromStr, time::Duration};

/// Where the pages of a process belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// On any of its home nodes.
    #[default]
    Home,
    /// On any of these nodes: of single mappings, as [`Options::to`](crate::Options::to) has it for all memory.
    Nodes(NodeSet),
    /// Folio by folio on these nodes in turn. `None`: on the nodes of its CPUs.
    Interleave(Option<NodeSet>),
    /// As interleaved; a node of weight n gets n folios in a row.
    Weighted(Weights),
    /// As weighted, with the weights of the machine on which the plan is made ([`Placement::on`]).
    Bandwidth(ByBandwidth),
    /// As much on each node as its share, which is its weight, or else the number of its CPUs that the process may run on. Only
    /// what a node has beyond its share moves.
    Balance(Option<Weights>),
    /// One contiguous part of each mapping, of equal size, on each of these nodes. `None`: on the nodes of its CPUs.
    Block(Option<NodeSet>),
    /// What is used on fast nodes, what is not on slow ones.
    Tiers(Tiers),
}

/// The division of memory by amounts among nodes, wherever its pages are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Portions {
    /// So much on each node ([`balance`]).
    Shares(Shares),
    /// One part of each extent on each of these nodes, in the order of their indexes ([`block`]).
    Blocks(NodeSet),
    /// On one set of nodes or the other, by its use ([`tiers`]).
    Tiers {
        /// The nodes for memory that is used.
        fast: NodeSet,
        /// The nodes for memory that is not used.
        slow: NodeSet,
    },
}

impl Portions {
    /// The portions of memory that processes with these portions map together; `None` if they are of different kinds.
    pub fn join(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Shares(one), Self::Shares(other)) => Some(Self::Shares(one.join(other))),
            (Self::Blocks(one), Self::Blocks(other)) => Some(Self::Blocks(one.or(other))),
            (Self::Tiers { fast, slow }, Self::Tiers { fast: other, .. }) => {
                Some(Self::Tiers { fast: fast.or(other), slow: slow.clone() })
            }
            (Self::Shares(_) | Self::Blocks(_) | Self::Tiers { .. }, _) => None,
        }
    }
}

impl Placement {
    /// Names of all placements, the default first.
    pub const NAMES: [&'static str; 6] =
        [home::NAME, interleave::NAME, weighted::NAME, balance::NAME, block::NAME, tiers::NAME];

    /// Stable name for people and machines.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Home | Self::Nodes(_) => home::NAME,
            Self::Interleave(_) => interleave::NAME,
            Self::Weighted(_) | Self::Bandwidth(_) => weighted::NAME,
            Self::Balance(_) => balance::NAME,
            Self::Block(_) => block::NAME,
            Self::Tiers(_) => tiers::NAME,
        }
    }

    /// The nodes that the request names for the placement.
    pub fn nodes(&self) -> Option<NodeSet> {
        match self {
            Self::Home => None,
            Self::Nodes(nodes) => Some(nodes.clone()),
            Self::Interleave(nodes) => nodes.clone(),
            Self::Weighted(weights) => Some(weights.nodes()),
            Self::Bandwidth(by) => by.nodes.clone(),
            Self::Balance(weights) => weights.as_ref().map(Weights::nodes),
            Self::Block(nodes) => nodes.clone(),
            Self::Tiers(tiers) => tiers.nodes(),
        }
    }

    /// The request for memory on two tiers by its use, if this is one.
    pub fn by_use(&self) -> Option<&Tiers> {
        match self {
            Self::Tiers(tiers) => Some(tiers),
            _ => None,
        }
    }

    /// How long memory has to be watched before it can be placed.
    pub fn watching(&self) -> Duration {
        self.by_use().map_or(Duration::ZERO, Tiers::watching)
    }

    /// Whether memory belongs on several nodes, each of which has a part of it.
    pub fn is_wide(&self) -> bool {
        !matches!(self, Self::Home | Self::Nodes(_))
    }

    /// Whether a page's node depends on its folio, which only page frames tell.
    pub fn needs_folios(&self) -> bool {
        matches!(self, Self::Interleave(_) | Self::Weighted(_) | Self::Bandwidth(_))
    }

    /// The share of each of `nodes` in the memory of a process, if it is placed by amounts.
    pub fn portions(
        &self,
        topology: &Topology,
        process: &Process,
        nodes: &NodeSet,
    ) -> Option<Portions> {
        match self {
            Self::Balance(Some(weights)) => Some(Portions::Shares(Shares::of_weights(weights))),
            Self::Balance(None) => {
                Some(Portions::Shares(Shares::of_cpus(topology, process, nodes)))
            }
            Self::Block(_) => Some(Portions::Blocks(nodes.clone())),
            Self::Tiers(tiers) => {
                let slow = tiers.slow.clone().unwrap_or_default();
                Some(Portions::Tiers { fast: nodes.minus(&slow), slow: slow.and(nodes) })
            }
            Self::Home
            | Self::Nodes(_)
            | Self::Interleave(_)
            | Self::Weighted(_)
            | Self::Bandwidth(_) => None,
        }
    }

    /// The order in which pages of memory that belongs on these nodes take turns; `None` if it belongs on any of them.
    pub fn cycle(&self, nodes: &NodeSet) -> Option<Cycle> {
        match self {
            Self::Home | Self::Nodes(_) | Self::Balance(_) | Self::Block(_) | Self::Tiers(_) => {
                None
            }
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
            Self::Tiers(tiers) => Ok(Self::Tiers(tiers.on(topology))),
            placement => Ok(placement),
        }
    }
}

/// Why the text of a placement is not valid, as text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPlacement(String);

impl FromStr for Placement {
    type Err = BadPlacement;

    /// Reads a placement with what it needs: `home`, `home:1`, `interleave`, `interleave:0,2`, `weighted:0=3,1=1`, `weighted:bandwidth`,
    /// `weighted:bandwidth:0,2`, `balance`, `balance:0=3,1=1`, `block`, `block:0,2`, `tiers`, `tiers:slow=2,cold_after=10s`.
    fn from_str(text: &str) -> Result<Self, BadPlacement> {
        let bad = |why: String| Err(BadPlacement(why));
        let named = |name: &str, list: &str| match list.parse::<NodeSet>() {
            Ok(nodes) if !nodes.is_empty() => Ok(nodes),
            _ => Err(BadPlacement(format!(
                "'{}' is not a list of nodes: expected for example {name}:0,2",
                list.escape_debug()
            ))),
        };
        let several = |name: &str, list: &str| match named(name, list)? {
            nodes if nodes.len() > 1 => Ok(Some(nodes)),
            only => Err(BadPlacement(format!("{name} needs two nodes or more, and {only} is one"))),
        };
        let (name, after) = match text.split_once(':') {
            Some((name, after)) => (name, Some(after)),
            None => (text, None),
        };
        match (name, after) {
            (home::NAME, None) => Ok(Self::Home),
            (home::NAME, Some(list)) => named(name, list).map(Self::Nodes),
            (interleave::NAME, None) => Ok(Self::Interleave(None)),
            (block::NAME, None) => Ok(Self::Block(None)),
            (interleave::NAME, Some(list)) => several(name, list).map(Self::Interleave),
            (block::NAME, Some(list)) => several(name, list).map(Self::Block),
            (tiers::NAME, None) => Ok(Self::Tiers(Tiers::default())),
            (tiers::NAME, Some(text)) => text.parse().map(Self::Tiers),
            (balance::NAME, None) => Ok(Self::Balance(None)),
            (balance::NAME, Some(list)) => match list.parse() {
                Ok(weights) => Ok(Self::Balance(Some(weights))),
                Err(why) => bad(why.to_string().escape_debug().to_string()),
            },
            (weighted::NAME, None) => {
                bad("weighted needs weights: expected for example weighted:0=3,1=1".to_owned())
            }
            (weighted::NAME, Some(bandwidth::NAME)) => Ok(Self::Bandwidth(ByBandwidth::default())),
            (weighted::NAME, Some(list)) => match (list.strip_prefix("bandwidth:"), list.parse()) {
                (Some(list), _) => {
                    let nodes = several("weighted:bandwidth", list)?;
                    Ok(Self::Bandwidth(ByBandwidth { nodes, known: None }))
                }
                (None, Ok(weights)) => Ok(Self::Weighted(weights)),
                (None, Err(why)) => bad(why.to_string().escape_debug().to_string()),
            },
            _ => bad(format!(
                "'{}' is not a placement: expected home, home:1, interleave, interleave:0,2, weighted:0=3,1=1, balance, balance:0=3,1=1, block, block:0,2, tiers or tiers:slow=2",
                text.escape_debug()
            )),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Home | Self::Interleave(None) | Self::Balance(None) | Self::Block(None) => {
                f.write_str(self.name())
            }
            Self::Tiers(tiers) => match tiers.to_string() {
                text if text.is_empty() => f.write_str(self.name()),
                text => write!(f, "{}:{text}", self.name()),
            },
            Self::Nodes(nodes) | Self::Interleave(Some(nodes)) | Self::Block(Some(nodes)) => {
                write!(f, "{}:{nodes}", self.name())
            }
            Self::Weighted(weights) | Self::Balance(Some(weights)) => {
                write!(f, "{}:{weights}", self.name())
            }
            Self::Bandwidth(ByBandwidth { nodes: None, .. }) => {
                write!(f, "{}:{}", self.name(), bandwidth::NAME)
            }
            Self::Bandwidth(ByBandwidth { nodes: Some(nodes), .. }) => {
                write!(f, "{}:{}:{nodes}", self.name(), bandwidth::NAME)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_and_written_alike() {
        for text in [
            "home",
            "home:0",
            "home:0,8",
            "interleave",
            "interleave:0,2",
            "weighted:0=3,8=1",
            "weighted:bandwidth",
            "weighted:bandwidth:0,8",
            "balance",
            "balance:0=3,8=1",
            "block",
            "block:0,8",
            "tiers",
            "tiers:fast=0,slow=2,4,keep_fast=20%",
        ] {
            assert_eq!(text.parse::<Placement>().map(|it| it.to_string()).as_deref(), Ok(text));
        }
        let spaced = "interleave: 0-2 ".parse::<Placement>();
        assert_eq!(spaced, Ok(Placement::Interleave("0-2".parse().ok())));
    }

    #[test]
    fn what_is_wrong_with_a_placement_is_named() {
        let bad = |text: &str| text.parse::<Placement>().expect_err(text).to_string();
        for text in ["", "Home", "spread", "interleave 0,2", "home,", ":0"] {
            assert!(
                bad(text).contains("expected home, home:1, interleave, interleave:0,2"),
                "{text}"
            );
        }
        for text in [
            "interleave:",
            "interleave:x",
            "interleave:2-0",
            "interleave:-1",
            "interleave:99999999",
        ] {
            assert!(bad(text).contains("is not a list of nodes"), "{text}");
        }
        assert!(bad("interleave:2").contains("two nodes or more"));
        assert!(bad("weighted:").contains("expected for example 0=3,1=1"));
        assert!(bad("balance:").contains("expected for example 0=3,1=1"));
        assert!(bad("balance:0=1").contains("two nodes or more"));
        assert!(bad("weighted:0=0,1=1").contains("not from 1 to 255"));
        assert!(bad("home:").contains("is not a list of nodes: expected for example home:0,2"));
    }
}
