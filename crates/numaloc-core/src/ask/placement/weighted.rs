//! Memory in turn on several nodes, some of which get more than others, as the kernel's MPOL_WEIGHTED_INTERLEAVE allocates it
//! (mm/mempolicy.c, `weighted_interleave_nid`, since 6.9).

use crate::{
    machine::ids::{NodeId, NodeSet},
    memory::cycle::Cycle,
};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// The name of this placement.
pub const NAME: &str = "weighted";

/// The weight of each node: how many folios in a row it gets. There are at least two nodes, and each weight is from 1 to 255, as
/// the kernel's are (`/sys/kernel/mm/mempolicy/weighted_interleave/nodeN`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights(BTreeMap<NodeId, u8>);

/// Why weights are not valid, as text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadWeights(String);

impl fmt::Display for BadWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadWeights {}

impl Weights {
    /// Weights by node.
    ///
    /// # Errors
    /// [`BadWeights`]: a weight is not from 1 to 255, a node is named twice, or there are fewer than two nodes.
    pub fn new(weights: impl IntoIterator<Item = (NodeId, i64)>) -> Result<Self, BadWeights> {
        let mut by_node = BTreeMap::new();
        for (node, weight) in weights {
            let valid = u8::try_from(weight).ok().filter(|&weight| weight > 0);
            let Some(valid) = valid else {
                let text = format!("the weight {weight} of node {} is not from 1 to 255", node.0);
                return Err(BadWeights(text));
            };
            if by_node.insert(node, valid).is_some() {
                return Err(BadWeights(format!("node {} has two weights", node.0)));
            }
        }
        match by_node.len() {
            0 | 1 => Err(BadWeights("weights need two nodes or more, for example 0=3,1=1".into())),
            _ => Ok(Self(by_node)),
        }
    }

    /// The nodes that have a weight.
    pub fn nodes(&self) -> NodeSet {
        self.0.keys().copied().collect()
    }

    /// Nodes and weights, in the order of the nodes.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u8)> {
        self.0.iter().map(|(&node, &weight)| (node, weight))
    }

    /// Folios in a row on each node by its weight, in the order of the nodes.
    pub fn cycle(&self) -> Cycle {
        Cycle::new(self.iter())
    }
}

impl FromStr for Weights {
    type Err = BadWeights;

    /// Reads a list such as `0=3,1=1`.
    fn from_str(text: &str) -> Result<Self, BadWeights> {
        let pair = |pair: &str| {
            let (node, weight) = pair.split_once('=')?;
            let node = node.trim().parse().ok().map(NodeId)?;
            Some((node, weight.trim().parse().ok()?))
        };
        let pairs =
            text.split(',').map(|text| pair(text).ok_or(text)).collect::<Result<Vec<_>, _>>();
        let bad =
            |part| format!("'{part}' is not a node and its weight: expected for example 0=3,1=1");
        Self::new(pairs.map_err(|part| BadWeights(bad(part)))?)
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (node, weight)) in self.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}={weight}", node.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_read_and_written_alike() {
        for text in ["0=3,1=1", "0=255,8=1,16=7"] {
            assert_eq!(
                text.parse::<Weights>().map(|weights| weights.to_string()).as_deref(),
                Ok(text)
            );
        }
        let spaced = "8 = 1, 0=2".parse::<Weights>().map(|weights| weights.to_string());
        assert_eq!(spaced.as_deref(), Ok("0=2,8=1"));
    }

    #[test]
    fn what_is_wrong_with_weights_is_named() {
        let bad = |text: &str| text.parse::<Weights>().expect_err(text).to_string();
        assert_eq!(bad("0=0,1=1"), "the weight 0 of node 0 is not from 1 to 255");
        assert_eq!(bad("0=1,1=-2"), "the weight -2 of node 1 is not from 1 to 255");
        assert_eq!(bad("0=256,1=1"), "the weight 256 of node 0 is not from 1 to 255");
        assert_eq!(bad("0=1,0=2"), "node 0 has two weights");
        assert!(bad("0=1").starts_with("weights need two nodes"));
        for text in ["", "0", "0=", "=1", "0=1,", "x=1,1=1", "0=1;1=1", "-1=1,1=1"] {
            assert!(bad(text).contains("is not a node and its weight"), "{text}");
        }
    }
}
